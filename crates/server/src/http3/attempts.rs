//! Stores datagrams of connection attempts.
//!
//! Processing one of them takes several microseconds as it needs keys and a reply. During a flood, hundreds
//! of them can arrive between two datagrams of a connection. To avoid delaying that connection, we store them
//! and process a few per iteration, in order.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use cannery_transport::quic::Arrival;

use super::limits::{ATTEMPT_BLOCK_BYTES, ATTEMPT_BYTES_MAX, ATTEMPTS_WAITING_MAX};

/// Datagrams that are waiting, oldest first.
///
/// Their contents share blocks of memory since individual allocations would leave gaps between those of
/// connections.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    queue: VecDeque<KeptDatagram>,
    /// Contents of the datagrams, in order. The first block contains the datagram that was popped last.
    blocks: VecDeque<Vec<u8>>,
    /// The number of blocks that came before the first one.
    earlier_blocks: u64,
    /// Blocks for later use.
    spare: Vec<Vec<u8>>,
    /// Minimum number of spare blocks since the last call of [`free_unused`](Self::free_unused).
    spare_min: usize,
    /// Total size of the datagrams that are waiting, in bytes.
    waiting_bytes: usize,
}

/// A datagram that is waiting.
#[derive(Debug)]
struct KeptDatagram {
    /// The socket that received it.
    socket: usize,
    source: SocketAddr,
    destination: Option<IpAddr>,
    ecn: u8,
    /// Where the content is. Blocks are numbered from the first that was ever used.
    block: u64,
    content: Range<usize>,
    /// Whether it was removed before datagrams that arrived earlier.
    is_removed: bool,
}

/// Datagrams of usual length that fit into a block, plus a few.
const DATAGRAMS_PER_BLOCK: usize = ATTEMPT_BLOCK_BYTES / 1024;

/// Too many datagrams are already waiting.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Attempts {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.iter().filter(|datagram| !datagram.is_removed).count()
    }

    /// Stores a datagram received by the socket with this number.
    ///
    /// # Errors
    /// Returns an error if too many are waiting.
    pub(super) fn push(&mut self, socket: usize, arrival: &Arrival<'_>) -> Result<(), Full> {
        let &Arrival { source, destination, ecn, bytes } = arrival;
        if self.queue.len() == ATTEMPTS_WAITING_MAX || self.waiting_bytes + bytes.len() > ATTEMPT_BYTES_MAX {
            return Err(Full);
        }
        self.waiting_bytes += bytes.len();

        // If the queue is empty, the last block can be used from the start.
        if self.queue.is_empty()
            && let Some(block) = self.blocks.back_mut()
        {
            block.clear();
        }
        let has_room = |block: &Vec<u8>| block.capacity() - block.len() >= bytes.len();
        if !self.blocks.back().is_some_and(has_room) {
            let spare = self.spare.pop();
            self.spare_min = self.spare_min.min(self.spare.len());
            self.blocks.push_back(spare.unwrap_or_else(|| Vec::with_capacity(ATTEMPT_BLOCK_BYTES)));
        }
        let last = self.blocks.len() - 1;
        let contents = &mut self.blocks[last];
        let content = contents.len()..contents.len() + bytes.len();
        contents.extend_from_slice(bytes);

        let block = self.earlier_blocks + last as u64;
        self.queue.push_back(KeptDatagram {
            socket,
            source,
            destination,
            ecn,
            block,
            content,
            is_removed: false,
        });
        Ok(())
    }

    /// Frees some of the memory that has not been needed since the last call, while keeping memory that is
    /// needed every now and then.
    pub(super) fn free_unused(&mut self) {
        if self.is_empty() {
            while !self.blocks.is_empty() {
                self.retire_block();
            }
        }
        let unneeded = std::mem::replace(&mut self.spare_min, usize::MAX).min(self.spare.len());
        self.spare.truncate(self.spare.len() - unneeded.div_ceil(8));
        if self.is_empty() {
            self.queue.shrink_to(self.spare.len() * DATAGRAMS_PER_BLOCK);
        }
    }

    /// Returns `true` if no memory can be freed.
    pub(super) fn is_freed(&self) -> bool {
        self.queue.capacity() == 0
    }

    /// Turns the first block into a spare one.
    fn retire_block(&mut self) {
        if let Some(mut block) = self.blocks.pop_front() {
            block.clear();
            self.spare.push(block);
            self.earlier_blocks += 1;
        }
    }

    /// Removes the oldest datagram. Returns the number of the socket, and the datagram.
    pub(super) fn pop(&mut self) -> Option<(usize, Arrival<'_>)> {
        let datagram = loop {
            let datagram = self.queue.pop_front()?;
            if !datagram.is_removed {
                break datagram;
            }
        };

        self.waiting_bytes -= datagram.content.len();
        while self.earlier_blocks < datagram.block {
            self.retire_block();
        }
        Some((datagram.socket, datagram.arrival(&self.blocks[0])))
    }

    /// Calls a function with each of the oldest `count` datagrams and the number of its socket. A datagram
    /// is removed if the function returns `true` for it.
    pub(super) fn remove_first_if(
        &mut self,
        count: usize,
        mut is_removed: impl FnMut(usize, &Arrival<'_>) -> bool,
    ) {
        for datagram in self.queue.iter_mut().take(count).filter(|datagram| !datagram.is_removed) {
            let index = usize::try_from(datagram.block - self.earlier_blocks).expect("a block in memory");
            datagram.is_removed = is_removed(datagram.socket, &datagram.arrival(&self.blocks[index]));
            if datagram.is_removed {
                self.waiting_bytes -= datagram.content.len();
            }
        }

        while self.queue.pop_front_if(|datagram| datagram.is_removed).is_some() {}
    }
}

impl KeptDatagram {
    /// Returns the datagram. `block` must be the one that contains it.
    fn arrival<'a>(&self, block: &'a [u8]) -> Arrival<'a> {
        let &Self { source, destination, ecn, .. } = self;
        Arrival { source, destination, ecn, bytes: &block[self.content.clone()] }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn arrival(bytes: &[u8]) -> Arrival<'_> {
        Arrival { source: ([192, 0, 2, 1], 443).into(), destination: None, ecn: 0, bytes }
    }

    /// Pushes and removes datagrams in turns, so that several blocks are filled and freed.
    #[test]
    fn datagrams_are_returned_in_order() {
        let mut attempts = Attempts::default();
        let content = |number: usize| vec![number.to_le_bytes()[0]; 1200 + number % 7];
        let mut next = 0;
        for number in 0..2000 {
            assert_eq!(attempts.push(number, &arrival(&content(number))), Ok(()));
            // Up to 100 are waiting.
            while attempts.len() > 100 || number % 500 == 499 && !attempts.is_empty() {
                let (socket, popped) = attempts.pop().expect("a datagram");
                assert_eq!((socket, popped.bytes), (next, &content(next)[..]));
                next += 1;
            }
        }
        assert_eq!(next, 2000);
        assert!(attempts.pop().is_none());
        assert_eq!((attempts.blocks.len(), attempts.waiting_bytes), (1, 0));
    }

    #[test]
    fn datagrams_can_be_removed_before_earlier_ones() {
        let mut attempts = Attempts::default();
        let content = |number: usize| vec![number.to_le_bytes()[0]; 1200];
        for number in 0..1000 {
            assert_eq!(attempts.push(number, &arrival(&content(number))), Ok(()));
        }
        let waiting_bytes = attempts.waiting_bytes;
        // Remove the even ones of the first 700, which are in several blocks.
        attempts.remove_first_if(700, |number, arrival| {
            assert_eq!(arrival.bytes, content(number));
            number % 2 == 0
        });
        assert_eq!((attempts.len(), attempts.waiting_bytes), (650, waiting_bytes - 350 * 1200));

        attempts.remove_first_if(3, |number, _| {
            assert!([1, 3].contains(&number), "{number} was removed");
            true
        });

        for number in (5..700).step_by(2).chain(700..1000) {
            let (socket, popped) = attempts.pop().expect("a datagram");
            assert_eq!((socket, popped.bytes), (number, &content(number)[..]));
        }
        assert!(attempts.pop().is_none() && attempts.is_empty());
        assert_eq!((attempts.blocks.len(), attempts.waiting_bytes), (1, 0));
    }

    #[test]
    fn memory_is_freed_when_no_datagram_waits() {
        let mut attempts = Attempts::default();
        for number in 0..2 {
            assert_eq!(attempts.push(number, &arrival(b"initial")), Ok(()));
        }
        assert!(attempts.pop().is_some());
        attempts.free_unused();
        let (socket, popped) = attempts.pop().expect("the second datagram");
        assert_eq!((socket, popped.bytes), (1, &b"initial"[..]));
        attempts.free_unused();
        assert!(attempts.is_freed());
    }

    #[test]
    fn memory_that_is_needed_again_and_again_stays() {
        let mut attempts = Attempts::default();
        let mut burst = |length: usize| {
            for number in 0..length {
                assert_eq!(attempts.push(number, &arrival(&[7; 1200])), Ok(()));
            }
            while attempts.pop().is_some() {}
            attempts.free_unused();
            attempts.spare.iter().map(|block| block.as_ptr()).collect::<BTreeSet<_>>()
        };
        // 2,000 datagrams need ten blocks.
        let blocks = burst(2000);
        assert_eq!(blocks.len(), 10);
        for _ in 0..10 {
            assert_eq!(burst(2000), blocks);
        }
        // Then one suffices, and the others are freed in a few seconds.
        let counts: Vec<_> = (0..10).map(|_| burst(1).len()).collect();
        assert_eq!(counts, [8, 7, 6, 5, 4, 3, 2, 1, 1, 1]);
    }

    #[test]
    fn number_and_memory_are_limited() {
        for (length, fit) in
            [(0, ATTEMPTS_WAITING_MAX), (1200, ATTEMPTS_WAITING_MAX), (64_000, ATTEMPT_BYTES_MAX / 64_000)]
        {
            let mut attempts = Attempts::default();
            let bytes = vec![0; length];
            for _ in 0..fit {
                assert_eq!(attempts.push(0, &arrival(&bytes)), Ok(()), "{length}");
            }
            assert_eq!(attempts.push(0, &arrival(&bytes)), Err(Full), "{length}");
            assert!(attempts.pop().is_some());
            assert_eq!(attempts.push(0, &arrival(&bytes)), Ok(()), "{length}");
            let capacity: usize = attempts.blocks.iter().map(Vec::capacity).sum();
            // The rest of each block, and what is left of the first.
            assert!(capacity <= ATTEMPT_BYTES_MAX * 5 / 4 + 2 * ATTEMPT_BLOCK_BYTES, "{length}: {capacity}");
        }
    }
}
