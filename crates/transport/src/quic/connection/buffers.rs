//! Buffers for received datagrams, which can be used again once their content has been read.
//!
//! A datagram is only in use for microseconds, but its parts are counted references. With memory of its own, it would need two
//! allocations for them.

use bytes::BytesMut;

use crate::limits::QUIC_RECEIVED_DATAGRAM_BYTES_MAX;

/// Datagrams of each length that can be in use at the same time without another allocation.
const BUFFERS: usize = 32;

/// Lengths of buffers. Each datagram gets the smallest one that it fits into: a single byte that is waiting for earlier data keeps the
/// whole buffer, so a client could otherwise take a hundred times as much memory as it sends.
const BUFFER_BYTES: [usize; 5] = [128, 256, 512, 1024, QUIC_RECEIVED_DATAGRAM_BYTES_MAX as usize];

/// Returns the length of the buffer for a datagram, in bytes.
pub(super) fn buffer_bytes(datagram_bytes: usize) -> usize {
    BUFFER_BYTES[class(datagram_bytes)]
}

/// Returns the index of the buffer length for a datagram.
#[inline]
fn class(datagram_bytes: usize) -> usize {
    BUFFER_BYTES.iter().filter(|length| **length < datagram_bytes).count().min(BUFFER_BYTES.len() - 1)
}

/// Buffers of an endpoint.
#[derive(Default)]
pub(crate) struct DatagramBuffers([Buffers; BUFFER_BYTES.len()]);

/// Buffers of the same length.
#[derive(Default)]
struct Buffers {
    buffers: Vec<BytesMut>,
    /// Index of the buffer that was least recently used.
    next: usize,
}

impl DatagramBuffers {
    /// Copies a datagram, which must fit into a buffer.
    pub(crate) fn copy(&mut self, datagram: &[u8]) -> BytesMut {
        let class = class(datagram.len());
        self.0[class].copy(datagram, BUFFER_BYTES[class])
    }
}

impl Buffers {
    fn copy(&mut self, datagram: &[u8], buffer_bytes: usize) -> BytesMut {
        let index = self.next;
        self.next = (index + 1) % BUFFERS;
        if index == self.buffers.len() {
            self.buffers.push(BytesMut::with_capacity(buffer_bytes));
        }
        let buffer = &mut self.buffers[index];
        // Datagrams never share a buffer, since each of them keeps the whole.
        if !buffer.try_reclaim(buffer_bytes) {
            *buffer = BytesMut::with_capacity(buffer_bytes);
        }
        buffer.extend_from_slice(datagram);
        buffer.split()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_when_they_are_free() {
        for length in [40, 128, 129, 1000, 1200] {
            let mut buffers = DatagramBuffers::default();
            let mut addresses = Vec::new();
            for number in 0..3 * BUFFERS {
                let datagram = vec![u8::try_from(number).unwrap(); length];
                let copy = buffers.copy(&datagram);
                assert_eq!(copy, datagram);
                addresses.push(copy.as_ptr());
            }
            assert_eq!(addresses[BUFFERS..2 * BUFFERS], addresses[2 * BUFFERS..], "{length} bytes");
        }
    }

    #[test]
    fn datagrams_in_use_remain_as_they_are() {
        let mut buffers = DatagramBuffers::default();
        let lengths = [1000, 1452, QUIC_RECEIVED_DATAGRAM_BYTES_MAX.into(), 40, 999, 128, 129, 1];
        let datagrams: Vec<_> =
            (0..200).map(|number| vec![number; lengths[usize::from(number) % lengths.len()]]).collect();
        let copies: Vec<_> = datagrams.iter().map(|datagram| buffers.copy(datagram)).collect();
        assert!(copies.iter().zip(&datagrams).all(|(copy, datagram)| copy == datagram));
    }

    #[test]
    fn short_datagrams_do_not_share_a_buffer() {
        let mut buffers = DatagramBuffers::default();
        let copies: Vec<_> = (0..2 * BUFFERS).map(|_| buffers.copy(&[7; 40])).collect();
        for (copy, after) in copies.iter().zip(&copies[1..]) {
            let distance = copy.as_ptr().addr().abs_diff(after.as_ptr().addr());
            assert!(distance >= buffer_bytes(40), "{distance} bytes apart");
        }
    }

    #[test]
    fn buffers_are_at_most_twice_as_long_as_datagrams() {
        for length in BUFFER_BYTES[0]..=usize::from(QUIC_RECEIVED_DATAGRAM_BYTES_MAX) {
            assert!((length..2 * length).contains(&buffer_bytes(length)), "{length} bytes");
        }
    }
}
