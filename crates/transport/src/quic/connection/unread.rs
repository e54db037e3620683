//! Counts the memory of stream data that was received but cannot be read yet because earlier data is
//! missing.
//!
//! `quinn-proto` keeps each part of a stream together with the memory of its packet, but does not tell us the
//! size of that memory. To estimate it, we count data that arrives and forget data that is read. The count
//! might be too high, but it should never be too low.

use std::collections::VecDeque;

use crate::limits::{
    QUIC_BIDIRECTIONAL_STREAMS_MAX, QUIC_UNIDIRECTIONAL_STREAMS_MAX, QUIC_UNREAD_PIECES_MAX,
};
use crate::quic::packets::records::Piece;

/// Memory that a piece takes in the table of a stream, in bytes.
const PIECE_BYTES: u64 = 56;

/// Each stream has a table for this many pieces anyway. It is included in the memory of an idle
/// connection.
const PIECES_IN_IDLE_TABLE: u32 = 4;

/// If the packets of a stream take more memory than this (in bytes), `quinn-proto` copies their data
/// together.
const STREAM_BYTES_MAX: u64 = 64 * 1024;

/// Streams in an idle connection: the client's control stream, and two for QPACK.
const STREAMS_WHEN_IDLE: usize = 3;

/// Memory that a stream takes here, in bytes. Vectors double their size.
const ENTRY_BYTES: usize = 2 * size_of::<UnreadStream>();

/// Maximum number of streams that a client may have open. Their tables are reused for other
/// streams.
const STREAMS_MAX: u64 = QUIC_BIDIRECTIONAL_STREAMS_MAX as u64 + QUIC_UNIDIRECTIONAL_STREAMS_MAX as u64;

/// Streams of a connection that have received data.
#[derive(Default)]
pub(super) struct Unread {
    /// Ordered by ID. Clients open streams in this order, and we mostly read them in the same order.
    streams: VecDeque<UnreadStream>,
    /// Open streams without unread data, e.g. the three of an idle connection.
    read: Vec<ReadStream>,
    /// Pieces in the largest table.
    table_pieces_max: u32,
    /// Memory of tables that belonged to streams that have ended, in bytes.
    ended_table_bytes: u64,
}

pub(super) struct UnreadStream {
    id: u64,
    /// Position up to which the data has been read. `quinn-proto` drops any data before that when
    /// it arrives.
    read_end: u64,
    /// End of the data.
    end: u64,
    /// Data up to this position counts as `near`, any later data as `far`. The far data becomes near as soon
    /// as all of the near data has been read.
    ///
    /// We need this because the data that is waiting for earlier data might contain duplicates, which
    /// `quinn-proto` drops without telling us when it gets there. Thus, reading some data does not subtract
    /// any duplicates, whereas reaching `near_end` does.
    near_end: u64,
    near: Pieces,
    far: Pieces,
    /// Maximum number of pieces so far.
    pieces_max: u32,
    /// Whether the stream is known to be open. Once a stream has ended, the data is dropped.
    is_open: bool,
}

/// A stream all of whose data was read.
struct ReadStream {
    id: u64,
    read_end: u64,
}

/// Pieces that have not been read.
#[derive(Clone, Copy, Default)]
struct Pieces {
    count: u32,
    /// Memory of their packets, in bytes.
    bytes: u64,
}

/// A client has left out a part of a stream and then sent more pieces than any client should need
/// to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyPieces;

impl Unread {
    /// Adds data that was received.
    ///
    /// # Errors
    /// Returns an error if a stream has too many pieces.
    #[inline]
    pub(super) fn add(&mut self, piece: &Piece) -> Result<(), TooManyPieces> {
        let end = self.streams.len();
        let found = match self.streams.back().map(|last| last.id) {
            Some(last) if last == piece.stream => Ok(end - 1),
            Some(last) if last > piece.stream => self.find(piece.stream),
            _ => Err(end),
        };
        let index = found.unwrap_or_else(|index| {
            let stream = self.take_read(piece.stream);
            let stream = stream.map_or_else(|| UnreadStream::new(piece.stream), UnreadStream::from);
            if index == end {
                self.streams.push_back(stream);
            } else {
                self.streams.insert(index, stream);
            }
            index
        });
        self.streams[index].add(piece)
    }

    /// Returns the index of a stream, or where it would be inserted.
    #[inline]
    fn find(&self, id: u64) -> Result<usize, usize> {
        match self.streams.front() {
            Some(first) if first.id == id => Ok(0),
            Some(_) => self.streams.binary_search_by_key(&id, |stream| stream.id),
            None => Err(0),
        }
    }

    #[inline]
    fn take_read(&mut self, id: u64) -> Option<ReadStream> {
        let index = self.read.iter().position(|stream| stream.id == id)?;
        Some(self.read.swap_remove(index))
    }

    /// Looks up the stream with this number in order to remove data when it is read. Without any data, this
    /// is `None`.
    #[inline]
    pub(super) fn stream(&mut self, id: u64) -> Option<&mut UnreadStream> {
        let index = self.find(id).ok()?;
        self.streams.get_mut(index)
    }

    /// Removes a stream. It has ended, or the data is going to be dropped.
    #[inline]
    pub(super) fn end(&mut self, id: u64) {
        if let Ok(index) = self.find(id) {
            let pieces_max = self.streams[index].pieces_max;
            if index == 0 {
                self.streams.pop_front();
            } else {
                self.streams.remove(index);
            }
            self.table_pieces_max = self.table_pieces_max.max(pieces_max);
            self.ended_table_bytes += table_bytes(pieces_max);
        } else {
            self.take_read(id);
        }
    }

    /// Returns the memory in bytes. `is_open` should tell if a stream can be read.
    pub(super) fn bytes(&mut self, mut is_open: impl FnMut(u64) -> bool) -> u64 {
        if self.streams.is_empty() && self.ended_table_bytes == 0 {
            self.shrink();
            return self.entry_bytes();
        }
        let mut open = 0;
        self.streams.retain_mut(|stream| {
            stream.is_open = stream.is_open || is_open(stream.id);
            if !stream.is_open {
                return false;
            }
            if stream.is_read() {
                self.read.push(ReadStream { id: stream.id, read_end: stream.read_end });
                return false;
            }
            let bytes = stream.near.bytes + stream.far.bytes;
            open += bytes.min(STREAM_BYTES_MAX) + table_bytes(stream.pieces_max);
            true
        });
        self.shrink();
        let ended = self.ended_table_bytes.min(STREAMS_MAX * table_bytes(self.table_pieces_max));
        open + self.entry_bytes() + ended
    }

    /// Frees the entries of streams beyond those that may be open. Any number of streams may have begun and ended at once.
    #[inline]
    fn shrink(&mut self) {
        const ENTRIES_MAX: usize =
            QUIC_BIDIRECTIONAL_STREAMS_MAX as usize + QUIC_UNIDIRECTIONAL_STREAMS_MAX as usize;
        if self.streams.capacity() > 2 * ENTRIES_MAX {
            self.streams.shrink_to(ENTRIES_MAX);
        }
    }

    fn entry_bytes(&self) -> u64 {
        let streams = self.streams.len() + self.read.len();
        (streams.saturating_sub(STREAMS_WHEN_IDLE) * ENTRY_BYTES) as u64
    }

    /// Frees memory that is only needed while data arrives.
    pub(super) fn free_unused(&mut self) {
        self.streams.shrink_to_fit();
        self.read.shrink_to_fit();
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

    /// Returns `true` if all data was read and the stream takes no more memory than in an idle connection.
    fn is_read(&self) -> bool {
        self.read_end >= self.end
            && self.near.count + self.far.count == 0
            && table_bytes(self.pieces_max) == 0
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

    /// Removes a piece that was read. `end` is its end position in the stream.
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

impl From<ReadStream> for UnreadStream {
    fn from(ReadStream { id, read_end }: ReadStream) -> Self {
        Self { read_end, end: read_end, near_end: read_end, is_open: true, ..Self::new(id) }
    }
}

/// The memory, in bytes, of a table that had this many pieces. Tables double their size.
pub(super) fn table_bytes(pieces: u32) -> u64 {
    if pieces <= PIECES_IN_IDLE_TABLE { 0 } else { u64::from(pieces.next_power_of_two()) * PIECE_BYTES }
}

#[cfg(test)]
mod tests;
