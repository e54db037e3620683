//! The peer's unidirectional streams and their types (RFC 9114 §6.2).

use super::control::ControlStream;
use super::error::ErrorCode;
use super::stream_id::StreamId;
use super::varint;

/// Stream types (RFC 9114 §6.2, RFC 9204 §4.2).
pub(super) mod kind {
    pub(in crate::h3) const CONTROL: u64 = 0x00;
    pub(super) const PUSH: u64 = 0x01;
    pub(in crate::h3) const QPACK_ENCODER: u64 = 0x02;
    pub(in crate::h3) const QPACK_DECODER: u64 = 0x03;
}

/// Longest possible stream type.
const KIND_BYTES_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct PeerStreams {
    control: Option<(StreamId, ControlStream)>,
    qpack_encoder: Option<StreamId>,
    qpack_decoder: Option<StreamId>,
    /// Streams that lack a part of their type, with the bytes received so far.
    untyped: Vec<(StreamId, Vec<u8>)>,
}

/// Purpose of a unidirectional stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Control,
    QpackEncoder,
    QpackDecoder,
}

impl PeerStreams {
    /// Returns the memory used by a partial frame on the control stream, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.control.as_ref().map_or(0, |(_, control)| control.memory())
    }

    /// Returns what a stream is for, once we have read its type.
    pub(super) fn purpose(&self, stream: StreamId) -> Option<Purpose> {
        if self.control.as_ref().is_some_and(|(control, _)| *control == stream) {
            Some(Purpose::Control)
        } else if self.qpack_encoder == Some(stream) {
            Some(Purpose::QpackEncoder)
        } else if self.qpack_decoder == Some(stream) {
            Some(Purpose::QpackDecoder)
        } else {
            None
        }
    }

    /// Returns the control stream, if the peer has opened it.
    pub(super) fn control(&mut self) -> Option<&mut ControlStream> {
        self.control.as_mut().map(|(_, control)| control)
    }

    /// Forgets a stream that ended before we knew its type.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.untyped.retain(|(untyped, _)| *untyped != stream);
    }

    /// Consumes the stream type from the front of `input`, or returns `None` while the type is incomplete.
    pub(super) fn read_kind(&mut self, stream: StreamId, input: &mut &[u8]) -> Option<u64> {
        let position = self.untyped.iter().position(|(untyped, _)| *untyped == stream);
        let mut begun = position.map_or_else(Vec::new, |position| self.untyped.swap_remove(position).1);
        let added = input.len().min(KIND_BYTES_MAX - begun.len());
        let begun_bytes = begun.len();
        begun.extend_from_slice(&input[..added]);

        if let Some((kind, rest)) = varint::read(&begun) {
            *input = &input[begun.len() - rest.len() - begun_bytes..];
            return Some(kind);
        }
        *input = &[];
        self.untyped.push((stream, begun));
        None
    }

    /// Finds out what a stream is for, using its type. Returns `None` for unknown types.
    ///
    /// # Errors
    ///
    /// Clients cannot open streams of this type, or cannot open a second one.
    pub(super) fn assign(&mut self, stream: StreamId, kind: u64) -> Result<Option<Purpose>, ErrorCode> {
        let purpose = match kind {
            kind::CONTROL => Purpose::Control,
            kind::QPACK_ENCODER => Purpose::QpackEncoder,
            kind::QPACK_DECODER => Purpose::QpackDecoder,
            // RFC 9114 §6.2.2: only servers can push.
            kind::PUSH => return Err(ErrorCode::StreamCreation),
            _ => return Ok(None),
        };

        let has_previous = match purpose {
            Purpose::Control => self.control.replace((stream, ControlStream::default())).is_some(),
            Purpose::QpackEncoder => self.qpack_encoder.replace(stream).is_some(),
            Purpose::QpackDecoder => self.qpack_decoder.replace(stream).is_some(),
        };
        // RFC 9114 §6.2.1, RFC 9204 §4.2: there MUST be only one stream of each type.
        if has_previous { Err(ErrorCode::StreamCreation) } else { Ok(Some(purpose)) }
    }
}
