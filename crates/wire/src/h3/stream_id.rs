//! QUIC stream IDs (RFC 9000 §2.1).

use super::varint;

/// The two low bits of a stream ID: who opened the stream, and whether it is bidirectional. Request streams have zeros.
const KIND_BITS: u64 = 0b11;

/// A stream ID, below 2^62.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(u64);

impl StreamId {
    pub(super) const FIRST_REQUEST: StreamId = StreamId(0);
    pub(super) const LAST_REQUEST: StreamId = StreamId(varint::MAX & !KIND_BITS);

    /// Creates an ID from its number.
    #[must_use]
    pub const fn new(number: u64) -> StreamId {
        StreamId(number)
    }

    /// Returns the ID of a request stream, starting with index 0. If the index is too large, the result is the last ID.
    pub(super) fn request(index: u64) -> StreamId {
        StreamId::LAST_REQUEST.min(StreamId(index.saturating_mul(KIND_BITS + 1)))
    }

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns `true` for request streams, which are bidirectional and opened by the client.
    pub(super) fn is_request(self) -> bool {
        self.0 & KIND_BITS == 0
    }

    /// Returns the request stream after this one.
    pub(super) fn next_request(self) -> StreamId {
        StreamId(self.0 + KIND_BITS + 1)
    }
}
