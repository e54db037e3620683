//! Stream errors, connection errors, and their codes (RFC 9113 §5.4, §7).
//!
//! All of them are the peer's fault. Faults of the server itself are statuses.

use crate::abuse::Exhausted;

/// Error codes that we send (RFC 9113 §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// `NO_ERROR`: a graceful end.
    None,
    /// `PROTOCOL_ERROR`.
    Protocol,
    /// `INTERNAL_ERROR`: a fault of ours.
    Internal,
    /// `FLOW_CONTROL_ERROR`: content beyond the window, or a window beyond 2^31-1.
    FlowControl,
    /// `STREAM_CLOSED`: a frame for a stream that has ended.
    StreamClosed,
    /// `FRAME_SIZE_ERROR`: a length that the frame's type does not allow.
    FrameSize,
    /// `REFUSED_STREAM`: the request was not processed, so it is safe to retry.
    RefusedStream,
    /// `COMPRESSION_ERROR`: a header block that cannot be decoded.
    Compression,
    /// `ENHANCE_YOUR_CALM`: more work than a peer may cause without requesting anything.
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

    /// Returns the code's label in metrics.
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

/// The error that an invalid frame causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Connection error (RFC 9113 §5.4.1).
    Connection(ErrorCode),
    /// Stream error, with the stream's ID (RFC 9113 §5.4.2).
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
