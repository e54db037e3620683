//! What ends a stream or the connection, and the code that tells the peer (RFC 9113 §5.4, §7).
//!
//! Every one of them is the peer's fault: our own come out as statuses.

/// Why a stream or a connection ends (RFC 9113 §7); only those that we send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// `NO_ERROR`: no fault of anybody's.
    None,
    /// `PROTOCOL_ERROR`.
    Protocol,
    /// `FLOW_CONTROL_ERROR`: more content than there was room for, or a window beyond 2^31-1.
    FlowControl,
    /// `STREAM_CLOSED`: a frame for a stream that has ended.
    StreamClosed,
    /// `FRAME_SIZE_ERROR`: a length that the frame's type does not allow.
    FrameSize,
    /// `REFUSED_STREAM`: nothing was done, so it may be asked again.
    RefusedStream,
    /// `COMPRESSION_ERROR`: a header block that cannot be decoded.
    Compression,
    /// `ENHANCE_YOUR_CALM`: more work than a peer may make without asking for anything.
    EnhanceYourCalm,
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            ErrorCode::None => 0x0,
            ErrorCode::Protocol => 0x1,
            ErrorCode::FlowControl => 0x3,
            ErrorCode::StreamClosed => 0x5,
            ErrorCode::FrameSize => 0x6,
            ErrorCode::RefusedStream => 0x7,
            ErrorCode::Compression => 0x9,
            ErrorCode::EnhanceYourCalm => 0xb,
        }
    }

    /// A name for it, for counting.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ErrorCode::None => "no_error",
            ErrorCode::Protocol => "protocol_error",
            ErrorCode::FlowControl => "flow_control_error",
            ErrorCode::StreamClosed => "stream_closed",
            ErrorCode::FrameSize => "frame_size_error",
            ErrorCode::RefusedStream => "refused_stream",
            ErrorCode::Compression => "compression_error",
            ErrorCode::EnhanceYourCalm => "enhance_your_calm",
        }
    }
}

/// What a frame that breaks the rules ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connection (RFC 9113 §5.4.1).
    Connection(ErrorCode),
    /// The stream alone (RFC 9113 §5.4.2).
    Stream(u32, ErrorCode),
}

impl From<ErrorCode> for Fault {
    fn from(code: ErrorCode) -> Fault {
        Fault::Connection(code)
    }
}
