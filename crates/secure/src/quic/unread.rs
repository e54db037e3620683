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

/// Streams of an idle connection: the client's control stream, and two of QPACK.
const STREAMS_WHEN_IDLE: usize = 3;

/// Memory of a stream here, in bytes. The size of a vector doubles.
const ENTRY_BYTES: usize = 2 * size_of::<UnreadStream>();

/// Streams that a client may have open at once. Their tables are used again for other streams.
const STREAMS_MAX: u64 = QUIC_BIDIRECTIONAL_STREAMS_MAX as u64 + QUIC_UNIDIRECTIONAL_STREAMS_MAX as u64;

/// The streams of a connection on which data has arrived.
#[derive(Default)]
pub(super) struct Unread {
    streams: Vec<UnreadStream>,
    /// The pieces in the largest table of all streams.
    table_pieces_max: u32,
    /// Memory of the tables of streams that have ended, in bytes.
    ended_table_bytes: u64,
}

pub(super) struct UnreadStream {
    id: u64,
    /// Up to where the data was read. `quinn-proto` drops data before it on arrival.
    read_end: u64,
    /// The end of the data.
    end: u64,
    /// Data up to this position counts as `near`, later data as `far`. Once all of the near data was read, the far data becomes near.
    ///
    /// Among the data that waits for earlier data may be duplicates, which `quinn-proto` drops when they are reached, without telling. So
    /// reading takes no duplicates off the count, but reaching `near_end` does.
    near_end: u64,
    near: Pieces,
    far: Pieces,
    /// The most pieces there were.
    pieces_max: u32,
    /// Whether the stream is known to be open. Data for one that has ended is dropped.
    is_open: bool,
}

/// Pieces that were not read.
#[derive(Clone, Copy, Default)]
struct Pieces {
    count: u32,
    /// The memory of their packets.
    bytes: u64,
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
        self.streams[index].add(piece)
    }

    /// Returns the stream with this number, to remove what is read, unless none of its data has arrived.
    #[inline]
    pub(super) fn stream(&mut self, id: u64) -> Option<&mut UnreadStream> {
        self.streams.iter_mut().find(|stream| stream.id == id)
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
        let of_stream = |stream: &UnreadStream| {
            let bytes = stream.near.bytes + stream.far.bytes;
            bytes.min(STREAM_BYTES_MAX) + table_bytes(stream.pieces_max)
        };
        let open: u64 = self.streams.iter().map(of_stream).sum();
        let entries = self.streams.len().saturating_sub(STREAMS_WHEN_IDLE) * ENTRY_BYTES;
        open + entries as u64 + self.ended_table_bytes.min(STREAMS_MAX * table_bytes(self.table_pieces_max))
    }
}

impl UnreadStream {
    fn new(id: u64) -> Self {
        Self {
            id,
            read_end: 0,
            end: 0,
            near_end: 0,
            near: Pieces::default(),
            far: Pieces::default(),
            pieces_max: 0,
            is_open: false,
        }
    }

    #[inline]
    fn add(&mut self, piece: &Piece) -> Result<(), TooManyPieces> {
        if piece.end <= self.read_end {
            return Ok(());
        }
        self.end = self.end.max(piece.end);
        let pieces = if piece.end <= self.near_end { &mut self.near } else { &mut self.far };
        pieces.count += piece.count;
        pieces.bytes += u64::from(piece.bytes);
        let count = self.near.count + self.far.count;
        self.pieces_max = self.pieces_max.max(count);
        if count > QUIC_UNREAD_PIECES_MAX { Err(TooManyPieces) } else { Ok(()) }
    }

    /// Removes a piece of this length that was read, up to this position in the stream.
    #[inline]
    pub(super) fn read(&mut self, bytes: usize, end: u64) {
        let pieces = if end <= self.near_end { &mut self.near } else { &mut self.far };
        pieces.count = pieces.count.saturating_sub(1);
        pieces.bytes = pieces.bytes.saturating_sub(bytes as u64);
        self.read_end = end;
        if end >= self.near_end {
            self.near = std::mem::take(&mut self.far);
            self.near_end = self.end;
        }
        if end >= self.end {
            self.near = Pieces::default();
        }
    }
}

/// Returns the memory of a table in which this number of pieces was, in bytes: its size doubles.
pub(super) fn table_bytes(pieces: u32) -> u64 {
    if pieces <= PIECES_IN_IDLE_TABLE { 0 } else { u64::from(pieces.next_power_of_two()) * PIECE_BYTES }
}

#[cfg(test)]
mod tests;
