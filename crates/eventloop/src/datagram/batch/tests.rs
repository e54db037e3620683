//! Tests for batches of received datagrams.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn messages_are_split_into_their_datagrams(
        sizes in proptest::collection::vec((1usize..2000, 0usize..9, 0usize..2000), 0..=MESSAGES_MAX),
    ) {
        let mut batch = ReceiveBatch::new();
        let mut expected = Vec::new();
        for (number, (segment_bytes, whole, last)) in (1..).zip(sizes) {
            let bytes = vec![number; segment_bytes * whole + last % segment_bytes];
            let source = SocketAddr::from((Ipv4Addr::LOCALHOST, number.into()));
            let message =
                Message { source, destination: None, ecn: None, bytes: bytes.len(), segment_bytes };
            batch.push(message, &bytes);
            expected.extend(vec![(source, vec![number; segment_bytes]); whole]);
            if last % segment_bytes > 0 {
                expected.push((source, vec![number; last % segment_bytes]));
            }
        }
        let datagrams = batch.datagrams().map(|datagram| (datagram.source, datagram.bytes.to_vec()));
        prop_assert_eq!(datagrams.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn batch_can_be_taken_without_its_memory() {
    let mut batch = ReceiveBatch::new();
    let start = batch.targets().0.as_ptr();
    let mut taken = std::mem::take(&mut batch);
    assert_eq!((taken.targets().0.as_ptr(), batch.memory.capacity()), (start, 0));
    assert_eq!(batch.datagrams().count(), 0);
}

#[test]
fn buffers_begin_with_a_cache_line() {
    let mut batch = ReceiveBatch::new();
    let (memory, envelopes) = batch.targets();
    assert_eq!((memory.as_ptr().addr() % 64, BUFFER_STRIDE % 64), (0, 0));
    assert_eq!(memory.chunks_exact(BUFFER_STRIDE).count(), envelopes.len());
}

#[test]
fn largest_message_fits() {
    let mut batch = ReceiveBatch::new();
    let source = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let message =
        Message { source, destination: None, ecn: Some(Ecn::Ce), bytes: BUFFER_BYTES, segment_bytes: 1024 };
    for _ in 0..MESSAGES_MAX {
        batch.push(message, &[7; BUFFER_BYTES]);
    }
    assert_eq!(batch.datagrams().count(), MESSAGES_MAX * 64);
    assert!(batch.datagrams().all(|datagram| datagram.bytes == [7; 1024]));
    batch.clear();
    assert_eq!(batch.datagrams().count(), 0);
}
