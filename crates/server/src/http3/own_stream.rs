//! A unidirectional stream of ours, which is either the control stream or a QPACK stream.

use bytes::Bytes;
use cannery_transport::quic::{Connection, Direction, StreamId};

/// Pending bytes are joined up to this length.
const PIECE_BYTES: usize = 512;

/// A stream that we have opened, with bytes that do not fit into the client's windows.
#[derive(Debug)]
pub(super) struct OwnStream {
    id: StreamId,
    pending: Vec<Bytes>,
}

impl OwnStream {
    /// Opens a stream that starts with these bytes. Returns `None` if the client does not allow it.
    pub(super) fn open(quic: &mut Connection, start: Vec<u8>) -> Option<OwnStream> {
        let id = quic.open(Direction::Unidirectional)?;
        // Clients need these streams to understand responses, so they should come first. This only fails if
        // the stream is closed.
        let _ = quic.set_priority(id, i32::MAX);
        let mut stream = OwnStream { id, pending: Vec::new() };
        stream.write(quic, start);
        Some(stream)
    }

    pub(super) fn id(&self) -> StreamId {
        self.id
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

    /// Writes pending bytes. Clients must not close these streams; if they do, the connection ends.
    pub(super) fn flush(&mut self, quic: &mut Connection) {
        quic.write(self.id, &mut self.pending);
        self.pending.retain(|piece| !piece.is_empty());
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.iter().map(Bytes::len).sum()
    }
}
