//! A unidirectional stream of ours: the control stream, or one of QPACK.

use bytes::Bytes;
use cannery_secure::quic::{Connection, Direction, StreamId};

/// The length up to which bytes that wait are joined.
const PIECE_BYTES: usize = 512;

/// A stream that the server has opened, with the bytes that the client's windows have no room for.
#[derive(Debug)]
pub(super) struct OwnStream {
    id: StreamId,
    pending: Vec<Bytes>,
}

impl OwnStream {
    /// Opens a stream that starts with these bytes. Returns `None` if the client does not allow one.
    pub(super) fn open(quic: &mut Connection, start: Vec<u8>) -> Option<OwnStream> {
        let id = quic.open(Direction::Unidirectional)?;
        // Requests can't be answered without these streams, so that they come first. If it fails, the stream is closed.
        let _ = quic.set_priority(id, i32::MAX);
        let mut stream = OwnStream { id, pending: Vec::new() };
        stream.write(quic, start);
        Some(stream)
    }

    pub(super) fn id(&self) -> StreamId {
        self.id
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, quic: &mut Connection, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        // Mostly there is room, so that no list of pieces is allocated.
        let mut pieces = [Bytes::from(bytes)];
        if self.pending.is_empty() {
            quic.write(self.id, &mut pieces);
        }
        let [rest] = pieces;
        if rest.is_empty() {
            return;
        }
        // Instructions have a few bytes, of which a client may leave thousands unread.
        match self.pending.last_mut() {
            Some(last) if last.len() < PIECE_BYTES => *last = [&last[..], &rest].concat().into(),
            _ => self.pending.push(rest),
        }
    }

    /// Writes the bytes that are left. The client must not close these streams; if it does, the connection ends.
    pub(super) fn flush(&mut self, quic: &mut Connection) {
        quic.write(self.id, &mut self.pending);
        self.pending.retain(|piece| !piece.is_empty());
    }

    /// Returns the length of the bytes that are left.
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.iter().map(Bytes::len).sum()
    }
}
