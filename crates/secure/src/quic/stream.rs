//! Streams of a connection: their IDs, and the outcomes of reading and writing (RFC 9000 §2, §3).

use quinn_proto::{Dir, Side, VarInt};

/// The ID of a stream, below 2^62.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

/// The directions in which a stream carries data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Both.
    Bidirectional,
    /// From the side that opened it to the other.
    Unidirectional,
}

impl StreamId {
    /// Returns the ID with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number: the two lowest bits are the kind of the stream (RFC 9000 §2.1).
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns the directions in which the stream carries data.
    pub const fn direction(self) -> Direction {
        if self.0 & 2 == 0 { Direction::Bidirectional } else { Direction::Unidirectional }
    }

    /// Returns `true` if the client opens streams of this kind.
    pub const fn is_opened_by_client(self) -> bool {
        self.0 & 1 == 0
    }

    /// Returns `true` if the client sends data on streams of this kind.
    pub(super) fn is_readable(self) -> bool {
        self.direction() == Direction::Bidirectional || self.is_opened_by_client()
    }

    /// Returns `true` if the server sends data on streams of this kind.
    pub(super) fn is_writable(self) -> bool {
        self.direction() == Direction::Bidirectional || !self.is_opened_by_client()
    }

    pub(super) fn to_quinn(self) -> quinn_proto::StreamId {
        let initiator = if self.is_opened_by_client() { Side::Client } else { Side::Server };
        quinn_proto::StreamId::new(initiator, self.direction().to_quinn(), self.0 >> 2)
    }
}

impl From<quinn_proto::StreamId> for StreamId {
    fn from(id: quinn_proto::StreamId) -> Self {
        Self(id.into())
    }
}

impl Direction {
    pub(super) fn to_quinn(self) -> Dir {
        match self {
            Direction::Bidirectional => Dir::Bi,
            Direction::Unidirectional => Dir::Uni,
        }
    }
}

impl From<Dir> for Direction {
    fn from(direction: Dir) -> Self {
        match direction {
            Dir::Bi => Self::Bidirectional,
            Dir::Uni => Self::Unidirectional,
        }
    }
}

/// Why a read stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// All that has arrived in order was read. An event reports when there is more.
    Blocked,
    /// All data was read; the stream is closed for reading.
    Finished,
    /// The peer reset the stream with this code, and the data that was not read is lost. The stream is closed for reading.
    Reset(u64),
    /// The stream was closed for reading before, or never opened.
    Closed,
}

/// How far a write came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Everything was taken.
    Complete,
    /// The windows of the peer are full. An event reports when there is space.
    Blocked,
    /// The peer wants no more data, and gave this code. The caller resets the stream.
    Stopped(u64),
    /// The stream was finished or reset, or never opened.
    Closed,
}

/// The stream was finished or reset before, or never opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed")]
pub struct StreamClosed;

/// Converts an error code of the application, which is below 2^62 (RFC 9000 §20.2).
pub(super) fn error_code(code: u64) -> VarInt {
    let converted = VarInt::from_u64(code);
    debug_assert!(converted.is_ok(), "{code} is not below 2^62");
    converted.unwrap_or(VarInt::MAX)
}
