//! Stream IDs, and the results of reading and writing (RFC 9000 §2, §3).

use quinn_proto::{Dir, Side, VarInt};

/// ID of a stream. It is less than 2^62.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

/// The directions in which a stream can carry data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Both directions.
    Bidirectional,
    /// From the side that has opened it to the other.
    Unidirectional,
}

impl StreamId {
    /// Returns the ID with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number. The two lowest bits are the kind of the stream (RFC 9000 §2.1).
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns the directions in which the stream can carry data.
    pub const fn direction(self) -> Direction {
        if self.0 & 2 == 0 { Direction::Bidirectional } else { Direction::Unidirectional }
    }

    /// Returns `true` if this kind of stream is opened by clients.
    pub const fn is_opened_by_client(self) -> bool {
        self.0 & 1 == 0
    }

    /// Returns `true` if clients send data on this kind of stream.
    pub(super) fn is_readable(self) -> bool {
        self.direction() == Direction::Bidirectional || self.is_opened_by_client()
    }

    /// Returns `true` if servers send data on this kind of stream.
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

/// Why a read has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Everything that has arrived in order was read. We will get an event when more arrives.
    Blocked,
    /// All data was read. The stream is closed for reading.
    Finished,
    /// The peer has reset the stream with this code. It is closed for reading, and any unread data is
    /// lost.
    Reset(u64),
    /// The stream was already closed for reading or has never been opened.
    Closed,
}

/// Amount of data that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Everything was taken.
    Complete,
    /// The peer's windows are full. We will get an event when they have room.
    Blocked,
    /// The peer does not want any more data and gave us this code. Callers should now reset the
    /// stream.
    Stopped(u64),
    /// The stream was finished or reset, or has never been opened.
    Closed,
}

/// The stream was already finished or reset, or has never been opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed")]
pub struct StreamClosed;

/// Converts an application error code. It must be less than 2^62 (RFC 9000 §20.2).
pub(super) fn error_code(code: u64) -> VarInt {
    let converted = VarInt::from_u64(code);
    debug_assert!(converted.is_ok(), "{code} is not below 2^62");
    converted.unwrap_or(VarInt::MAX)
}
