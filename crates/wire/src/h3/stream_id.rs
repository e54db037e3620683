//! IDs of streams (RFC 9000 §2.1).

use super::varint;

/// IDs of request streams are multiples of four: the two low bits are the kind of a stream.
const KIND_BITS: u64 = 0b11;

/// The ID of a stream, below 2^62.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(u64);

impl StreamId {
    pub(super) const FIRST_REQUEST: StreamId = StreamId(0);
    pub(super) const LAST_REQUEST: StreamId = StreamId(varint::MAX & !KIND_BITS);

    /// Returns the ID with this number.
    #[must_use]
    pub const fn new(number: u64) -> StreamId {
        StreamId(number)
    }

    /// Returns the ID of a request stream, of which the first has the index 0. There is none beyond the last.
    pub(super) fn request(index: u64) -> StreamId {
        StreamId::LAST_REQUEST.min(StreamId(index.saturating_mul(KIND_BITS + 1)))
    }

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns `true` if requests arrive on streams of this kind: those that the client has opened, for both directions.
    pub(super) fn is_request(self) -> bool {
        self.0 & KIND_BITS == 0
    }

    /// Returns the request stream after this one.
    pub(super) fn next_request(self) -> StreamId {
        StreamId(self.0 + KIND_BITS + 1)
    }
}
