//! Memory of data that has arrived on streams and was not read, because earlier data is missing.
//!
//! `quinn-proto` keeps each part of a stream with the memory of its packet, and doesn't tell how much that is. So we count what
//! arrives, and forget what was read. The count may be too high, but is not too low.

use super::records::Piece;
use crate::limits::{
    QUIC_BIDIRECTIONAL_STREAMS_MAX, QUIC_UNIDIRECTIONAL_STREAMS_MAX, QUIC_UNREAD_PIECES_MAX,
};

/// Memory of a piece in the table of its stream, in bytes.
const PIECE_BYTES: u64 = 56;

/// Pieces for which each stream has a table anyway, as a part of the memory of an idle connection.
const PIECES_IN_IDLE_TABLE: u32 = 4;

/// Memory that `quinn-proto` keeps of the packets of one stream, in bytes. Beyond it, it copies their data together.
const STREAM_BYTES_MAX: u64 = 64 * 1024;

/// Streams that a client may have open at once. Their tables are used again for other streams.
const STREAMS_MAX: u64 = QUIC_BIDIRECTIONAL_STREAMS_MAX as u64 + QUIC_UNIDIRECTIONAL_STREAMS_MAX as u64;

/// The streams of a connection with data that was not read.
#[derive(Default)]
pub(super) struct Unread {
    streams: Vec<UnreadStream>,
    /// The pieces in the largest table of all streams.
    table_pieces_max: u32,
    /// Memory of the tables of streams that have ended, in bytes.
    ended_table_bytes: u64,
}

struct UnreadStream {
    id: u64,
    /// The end of the data.
    end: u64,
    /// Pieces that were not read, and the most there were.
    pieces: u32,
    pieces_max: u32,
    /// The memory of their packets.
    bytes: u64,
    /// Whether the stream is known to be open. Data for one that has ended is dropped.
    is_open: bool,
}

/// A client has sent more pieces of a stream, and left out the one before them, than any client needs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyPieces;

impl Unread {
    /// Adds data that has arrived.
    ///
    /// # Errors
    /// A stream has too many pieces.
    #[inline]
    pub(super) fn add(&mut self, piece: &Piece) -> Result<(), TooManyPieces> {
        let index = match self.streams.iter().position(|stream| stream.id == piece.stream) {
            Some(index) => index,
            None => {
                self.streams.push(UnreadStream::new(piece.stream));
                self.streams.len() - 1
            }
        };
        let stream = &mut self.streams[index];
        stream.end = stream.end.max(piece.end);
        stream.pieces += piece.count;
        stream.pieces_max = stream.pieces_max.max(stream.pieces);
        stream.bytes += u64::from(piece.bytes);
        if stream.pieces > QUIC_UNREAD_PIECES_MAX { Err(TooManyPieces) } else { Ok(()) }
    }

    /// Removes data that was read: this many pieces, up to this position in the stream.
    #[inline]
    pub(super) fn read(&mut self, id: u64, pieces: u32, bytes: u64, end: u64) {
        let Some(index) = self.streams.iter().position(|stream| stream.id == id) else { return };
        let stream = &mut self.streams[index];
        if end < stream.end {
            stream.pieces = stream.pieces.saturating_sub(pieces);
            stream.bytes = stream.bytes.saturating_sub(bytes);
        } else if stream.pieces_max <= PIECES_IN_IDLE_TABLE {
            self.streams.swap_remove(index);
        } else {
            // Its table remains.
            (stream.pieces, stream.bytes) = (0, 0);
        }
    }

    /// Removes a stream that has ended, or whose data is dropped.
    #[inline]
    pub(super) fn end(&mut self, id: u64) {
        if let Some(index) = self.streams.iter().position(|stream| stream.id == id) {
            let stream = self.streams.swap_remove(index);
            self.table_pieces_max = self.table_pieces_max.max(stream.pieces_max);
            self.ended_table_bytes += table_bytes(stream.pieces_max);
        }
    }

    /// Returns the memory in bytes. `is_open` returns whether a stream can be read.
    pub(super) fn bytes(&mut self, mut is_open: impl FnMut(u64) -> bool) -> u64 {
        if self.streams.is_empty() && self.ended_table_bytes == 0 {
            return 0;
        }
        self.streams.retain_mut(|stream| {
            stream.is_open = stream.is_open || is_open(stream.id);
            stream.is_open
        });
        let of_stream =
            |stream: &UnreadStream| stream.bytes.min(STREAM_BYTES_MAX) + table_bytes(stream.pieces_max);
        let open: u64 = self.streams.iter().map(of_stream).sum();
        open + self.ended_table_bytes.min(STREAMS_MAX * table_bytes(self.table_pieces_max))
    }
}

impl UnreadStream {
    fn new(id: u64) -> Self {
        Self { id, end: 0, pieces: 0, pieces_max: 0, bytes: 0, is_open: false }
    }
}

/// Returns the memory of a table in which this number of pieces was, in bytes: its size doubles.
pub(super) fn table_bytes(pieces: u32) -> u64 {
    if pieces <= PIECES_IN_IDLE_TABLE { 0 } else { u64::from(pieces.next_power_of_two()) * PIECE_BYTES }
}

#[cfg(test)]
mod tests;
