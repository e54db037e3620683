//! Stream errors, connection errors, and their codes (RFC 9113 §5.4, §7).
//!
//! All of them are the peer's fault. When the server itself fails, it sends a status instead.

use crate::ground::abuse::Exhausted;

/// Error codes we send (RFC 9113 §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// `NO_ERROR`: nothing went wrong, for example at a graceful shutdown.
    None,
    /// `PROTOCOL_ERROR`.
    Protocol,
    /// `INTERNAL_ERROR`: our fault.
    Internal,
    /// `FLOW_CONTROL_ERROR`: the peer sent more than its window allows, or enlarged ours beyond 2^31-1.
    FlowControl,
    /// `STREAM_CLOSED`: a frame arrived on a stream that has ended.
    StreamClosed,
    /// `FRAME_SIZE_ERROR`: this frame type does not allow this length.
    FrameSize,
    /// `REFUSED_STREAM`: we have not processed the request, so the client can safely retry.
    RefusedStream,
    /// `COMPRESSION_ERROR`: we could not decode a header block.
    Compression,
    /// `ENHANCE_YOUR_CALM`: the peer causes too much work without requesting anything.
    EnhanceYourCalm,
}

impl ErrorCode {
    /// Returns the code as sent on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            ErrorCode::None => 0x0,
            ErrorCode::Protocol => 0x1,
            ErrorCode::Internal => 0x2,
            ErrorCode::FlowControl => 0x3,
            ErrorCode::StreamClosed => 0x5,
            ErrorCode::FrameSize => 0x6,
            ErrorCode::RefusedStream => 0x7,
            ErrorCode::Compression => 0x9,
            ErrorCode::EnhanceYourCalm => 0xb,
        }
    }

    /// Returns the code's name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ErrorCode::None => "no_error",
            ErrorCode::Protocol => "protocol_error",
            ErrorCode::Internal => "internal_error",
            ErrorCode::FlowControl => "flow_control_error",
            ErrorCode::StreamClosed => "stream_closed",
            ErrorCode::FrameSize => "frame_size_error",
            ErrorCode::RefusedStream => "refused_stream",
            ErrorCode::Compression => "compression_error",
            ErrorCode::EnhanceYourCalm => "enhance_your_calm",
        }
    }
}

/// Error caused by an invalid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Closes the connection (RFC 9113 §5.4.1).
    Connection(ErrorCode),
    /// Resets the stream with this ID (RFC 9113 §5.4.2).
    Stream(u32, ErrorCode),
}

impl From<Exhausted> for ErrorCode {
    fn from(_: Exhausted) -> ErrorCode {
        ErrorCode::EnhanceYourCalm
    }
}

impl From<Exhausted> for Fault {
    fn from(exhausted: Exhausted) -> Fault {
        Fault::Connection(exhausted.into())
    }
}

impl From<ErrorCode> for Fault {
    fn from(code: ErrorCode) -> Fault {
        Fault::Connection(code)
    }
}
