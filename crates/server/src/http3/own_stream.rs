//! A unidirectional stream of ours, which is either the control stream or a QPACK stream.

use bytes::Bytes;
use cannery_transport::quic::{Connection, Direction, StreamId};
use cannery_wire::h3::ErrorCode;

/// Pending bytes are joined up to this length.
const PIECE_BYTES: usize = 512;

/// A stream that we have opened, with bytes that do not fit into the client's windows.
#[derive(Debug)]
pub(super) struct OwnStream {
    id: StreamId,
    pending: Vec<Bytes>,
}

impl OwnStream {
    /// Opens a stream that starts with these bytes.
    ///
    /// # Errors
    ///
    /// The client does not allow it, so the connection must be closed with the code.
    pub(super) fn open(quic: &mut Connection, start: Vec<u8>) -> Result<OwnStream, ErrorCode> {
        let id = quic.open(Direction::Unidirectional).ok_or(ErrorCode::StreamCreation)?;
        // Clients need these streams to understand responses, so they should come first. This only fails if
        // the stream is closed.
        let _ = quic.set_priority(id, i32::MAX);
        let mut stream = OwnStream { id, pending: Vec::new() };
        stream.write(quic, start);
        Ok(stream)
    }

    pub(super) fn write(&mut self, quic: &mut Connection, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        // Usually there is room, so avoid allocating a list of pieces.
        let mut pieces = [Bytes::from(bytes)];
        if self.pending.is_empty() {
            quic.write(self.id, &mut pieces);
        }
        let [rest] = pieces;
        if rest.is_empty() {
            return;
        }
        // Instructions only have a few bytes, and a client can leave thousands of them unread, so join
        // them.
        match self.pending.last_mut() {
            Some(last) if last.len() < PIECE_BYTES => *last = [&last[..], &rest].concat().into(),
            _ => self.pending.push(rest),
        }
    }

    /// Writes pending bytes if this is the stream with this ID. Clients must not close our streams; if they do, the
    /// connection ends.
    pub(super) fn flush(&mut self, quic: &mut Connection, id: StreamId) {
        if self.id == id {
            quic.write(self.id, &mut self.pending);
            self.pending.retain(|piece| !piece.is_empty());
        }
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.iter().map(Bytes::len).sum()
    }
}

/// A QPACK stream of ours.
///
/// It is opened for its first instruction. Many clients only send a request or two, and neither side needs the stream
/// as long as no instructions are sent. An open stream takes several hundred bytes.
#[derive(Debug, Default)]
pub(super) struct QpackStream(Option<Box<OwnStream>>);

impl QpackStream {
    /// Writes instructions. If the stream is not open, opens it with this start.
    ///
    /// # Errors
    ///
    /// The client does not allow the stream, so the connection must be closed with the code.
    #[inline]
    pub(super) fn write(
        &mut self,
        quic: &mut Connection,
        instructions: Vec<u8>,
        start: fn() -> Vec<u8>,
    ) -> Result<(), ErrorCode> {
        if instructions.is_empty() {
            return Ok(());
        }
        match &mut self.0 {
            Some(stream) => stream.write(quic, instructions),
            None => {
                let bytes = [start(), instructions].concat();
                self.0 = Some(Box::new(OwnStream::open(quic, bytes)?));
            }
        }
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Like [`OwnStream::flush`].
    pub(super) fn flush(&mut self, quic: &mut Connection, id: StreamId) {
        if let Some(stream) = &mut self.0 {
            stream.flush(quic, id);
        }
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |stream| stream.pending_bytes())
    }
}
