//! Error codes of HTTP/3 (RFC 9114 §8.1) and QPACK (RFC 9204 §6).

use crate::ground::abuse::Exhausted;

/// Error codes we send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// `H3_NO_ERROR`: nothing went wrong, for example at a graceful shutdown.
    None,
    /// `H3_INTERNAL_ERROR`: our fault.
    Internal,
    /// `H3_STREAM_CREATION_ERROR`: the peer is not allowed to open this stream.
    StreamCreation,
    /// `H3_CLOSED_CRITICAL_STREAM`: the peer closed a stream that must stay open.
    ClosedCriticalStream,
    /// `H3_FRAME_UNEXPECTED`: the frame is not allowed on this stream, or not at this point.
    FrameUnexpected,
    /// `H3_FRAME_ERROR`: the frame's layout or length is invalid.
    Frame,
    /// `H3_EXCESSIVE_LOAD`: the peer causes too much work without requesting anything.
    ExcessiveLoad,
    /// `H3_ID_ERROR`: a stream ID or push ID is invalid, or moved in the wrong direction.
    Id,
    /// `H3_SETTINGS_ERROR`: an invalid setting.
    Settings,
    /// `H3_MISSING_SETTINGS`: the control stream does not start with SETTINGS.
    MissingSettings,
    /// `H3_REQUEST_REJECTED`: we have not processed the request, so the client can safely retry.
    RequestRejected,
    /// `H3_REQUEST_CANCELLED`: we will not send the rest of the response.
    RequestCancelled,
    /// `H3_REQUEST_INCOMPLETE`: the stream ended in the middle of a request.
    RequestIncomplete,
    /// `H3_MESSAGE_ERROR`: a malformed request.
    Message,
    /// `QPACK_DECOMPRESSION_FAILED`: we could not decode a field section.
    QpackDecompression,
    /// `QPACK_ENCODER_STREAM_ERROR`: an invalid instruction on the peer's encoder stream.
    QpackEncoderStream,
    /// `QPACK_DECODER_STREAM_ERROR`: an invalid instruction on the peer's decoder stream.
    QpackDecoderStream,
}

impl ErrorCode {
    /// Returns the code as sent on the wire.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            ErrorCode::None => 0x100,
            ErrorCode::Internal => 0x102,
            ErrorCode::StreamCreation => 0x103,
            ErrorCode::ClosedCriticalStream => 0x104,
            ErrorCode::FrameUnexpected => 0x105,
            ErrorCode::Frame => 0x106,
            ErrorCode::ExcessiveLoad => 0x107,
            ErrorCode::Id => 0x108,
            ErrorCode::Settings => 0x109,
            ErrorCode::MissingSettings => 0x10a,
            ErrorCode::RequestRejected => 0x10b,
            ErrorCode::RequestCancelled => 0x10c,
            ErrorCode::RequestIncomplete => 0x10d,
            ErrorCode::Message => 0x10e,
            ErrorCode::QpackDecompression => 0x200,
            ErrorCode::QpackEncoderStream => 0x201,
            ErrorCode::QpackDecoderStream => 0x202,
        }
    }

    /// Returns the code's name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ErrorCode::None => "h3_no_error",
            ErrorCode::Internal => "h3_internal_error",
            ErrorCode::StreamCreation => "h3_stream_creation_error",
            ErrorCode::ClosedCriticalStream => "h3_closed_critical_stream",
            ErrorCode::FrameUnexpected => "h3_frame_unexpected",
            ErrorCode::Frame => "h3_frame_error",
            ErrorCode::ExcessiveLoad => "h3_excessive_load",
            ErrorCode::Id => "h3_id_error",
            ErrorCode::Settings => "h3_settings_error",
            ErrorCode::MissingSettings => "h3_missing_settings",
            ErrorCode::RequestRejected => "h3_request_rejected",
            ErrorCode::RequestCancelled => "h3_request_cancelled",
            ErrorCode::RequestIncomplete => "h3_request_incomplete",
            ErrorCode::Message => "h3_message_error",
            ErrorCode::QpackDecompression => "qpack_decompression_failed",
            ErrorCode::QpackEncoderStream => "qpack_encoder_stream_error",
            ErrorCode::QpackDecoderStream => "qpack_decoder_stream_error",
        }
    }
}

impl From<crate::compression::qpack::Error> for ErrorCode {
    fn from(error: crate::compression::qpack::Error) -> Self {
        match error {
            crate::compression::qpack::Error::FieldSection(_) => ErrorCode::QpackDecompression,
            crate::compression::qpack::Error::EncoderStream(_) => ErrorCode::QpackEncoderStream,
            crate::compression::qpack::Error::DecoderStream(_) => ErrorCode::QpackDecoderStream,
            crate::compression::qpack::Error::TooLarge => ErrorCode::ExcessiveLoad,
        }
    }
}

impl From<Exhausted> for ErrorCode {
    fn from(_: Exhausted) -> ErrorCode {
        ErrorCode::ExcessiveLoad
    }
}
