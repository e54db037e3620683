//! Buffers for received datagrams, which can be used again once their content has been read.
//!
//! A datagram of full length is too long for the fast path that some allocators have, although it is only
//! in use for microseconds.

use bytes::BytesMut;

use crate::limits::QUIC_RECEIVED_DATAGRAM_BYTES_MAX;

/// Datagrams that can be in use at the same time without another allocation.
const BUFFERS: usize = 32;

/// Maximum length of a received datagram.
const BUFFER_BYTES: usize = QUIC_RECEIVED_DATAGRAM_BYTES_MAX as usize;

/// Shorter datagrams get their own memory instead of a buffer. A single byte that is waiting for earlier
/// data keeps the whole buffer, so a client could otherwise take a hundred times as much memory as it sends.
pub(super) const BUFFERED_BYTES_MIN: usize = 1000;

/// A datagram never shares its buffer.
const _: () = assert!(2 * BUFFERED_BYTES_MIN > BUFFER_BYTES);

/// Buffers of an endpoint.
#[derive(Default)]
pub(crate) struct DatagramBuffers {
    buffers: Vec<BytesMut>,
    /// Index of the buffer that was least recently used.
    next: usize,
}

impl DatagramBuffers {
    /// Copies a datagram, which must fit into a buffer.
    pub(crate) fn copy(&mut self, datagram: &[u8]) -> BytesMut {
        if datagram.len() < BUFFERED_BYTES_MIN {
            return BytesMut::from(datagram);
        }

        let index = self.next;
        self.next = (index + 1) % BUFFERS;
        if index == self.buffers.len() {
            self.buffers.push(BytesMut::with_capacity(BUFFER_BYTES));
        }
        let buffer = &mut self.buffers[index];
        if !buffer.try_reclaim(datagram.len()) {
            *buffer = BytesMut::with_capacity(BUFFER_BYTES);
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
        let mut buffers = DatagramBuffers::default();
        let mut addresses = Vec::new();
        for number in 0..3 * BUFFERS {
            let datagram = vec![u8::try_from(number).unwrap(); 1200];
            let copy = buffers.copy(&datagram);
            assert_eq!(copy, datagram);
            addresses.push(copy.as_ptr());
        }
        assert_eq!(addresses[BUFFERS..2 * BUFFERS], addresses[2 * BUFFERS..]);
    }

    #[test]
    fn datagrams_in_use_remain_as_they_are() {
        let mut buffers = DatagramBuffers::default();
        let lengths = [1000, 1452, BUFFER_BYTES, 40, 999];
        let datagrams: Vec<_> =
            (0..100).map(|number| vec![number; lengths[usize::from(number) % lengths.len()]]).collect();
        let copies: Vec<_> = datagrams.iter().map(|datagram| buffers.copy(datagram)).collect();
        assert!(copies.iter().zip(&datagrams).all(|(copy, datagram)| copy == datagram));
    }
}
