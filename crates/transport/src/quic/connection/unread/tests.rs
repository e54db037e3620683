//! Unit tests of the memory of unread data.

use super::*;

fn piece(stream: u64, end: u64, count: u32) -> Piece {
    Piece { stream, end, count, bytes: 1500 }
}

fn read(unread: &mut Unread, stream: u64, bytes: usize, end: u64) {
    unread.stream(stream).unwrap().read(bytes, end);
}

#[test]
fn data_counts_until_it_is_read() {
    let mut unread = Unread::default();
    assert_eq!(unread.add(&piece(0, 10, 1)), Ok(()));
    assert_eq!(unread.add(&piece(0, 20, 1)), Ok(()));
    assert_eq!(unread.add(&piece(4, 10, 1)), Ok(()));
    assert_eq!(unread.bytes(|_| true), 4500);
    read(&mut unread, 0, 10, 10);
    assert_eq!(unread.bytes(|_| true), 4490, "the other piece of the stream waits");
    read(&mut unread, 0, 10, 20);
    assert_eq!(unread.bytes(|_| true), 1500);
    unread.end(4);
    assert_eq!(unread.bytes(|_| true), 0);
}

#[test]
fn data_of_streams_that_have_ended_is_forgotten() {
    let mut unread = Unread::default();
    assert_eq!(unread.add(&piece(0, 10, 1)), Ok(()));
    assert_eq!(unread.bytes(|id| id != 0), 0);
}

#[test]
fn entries_of_streams_that_have_ended_are_freed() {
    let mut unread = Unread::default();
    for are_open in [true, false] {
        for id in 0..100 * STREAMS_MAX {
            assert_eq!(unread.add(&piece(id, 10, 1)), Ok(()));
        }
        if are_open {
            (0..100 * STREAMS_MAX).for_each(|id| unread.end(id));
        }
        unread.bytes(|_| are_open);
        assert_eq!(unread.streams.len(), 0);
        assert!(unread.streams.capacity() as u64 <= 2 * STREAMS_MAX, "{}", unread.streams.capacity());
    }
}

#[test]
fn tables_of_many_pieces_remain() {
    let mut unread = Unread::default();
    for id in 0..1000 {
        assert_eq!(unread.add(&piece(id, 100, 100)), Ok(()));
        read(&mut unread, id, 100, 100);
        assert_eq!(unread.bytes(|_| true), 128 * PIECE_BYTES * (id + 1).min(STREAMS_MAX + 1));
        unread.end(id);
    }
    assert_eq!(unread.bytes(|_| true), 128 * PIECE_BYTES * STREAMS_MAX);
}

#[test]
fn pieces_of_a_stream_are_limited() {
    let mut unread = Unread::default();
    assert_eq!(unread.add(&piece(0, 100, QUIC_UNREAD_PIECES_MAX)), Ok(()));
    assert_eq!(unread.add(&piece(0, 100, 1)), Err(TooManyPieces));
    assert!(unread.bytes(|_| true) <= STREAM_BYTES_MAX + 512 * PIECE_BYTES);
}

/// Clients send data again when they take it for lost. `quinn-proto` should not keep any of it if the data
/// was already read.
#[test]
fn duplicates_do_not_accumulate() {
    const BYTES: usize = 1000;
    let mut unread = Unread::default();
    // Each packet arrives twice, but not before the next one, so that some data always waits.
    let end = |number: u64| number * BYTES as u64;
    assert_eq!(unread.add(&piece(0, end(1), 1)), Ok(()));
    for number in 1..3 * u64::from(QUIC_UNREAD_PIECES_MAX) {
        for arrived in [number + 2, number + 2, number.saturating_sub(2), number + 1] {
            if arrived > 0 {
                assert_eq!(unread.add(&piece(0, end(arrived), 1)), Ok(()), "packet {number}");
            }
        }
        read(&mut unread, 0, BYTES, end(number));
        assert!(unread.stream(0).unwrap().near.count > 0, "some data waits");
        assert!(unread.bytes(|_| true) < 20 * 1500);
    }
}

/// All data was read, and the client does not know yet.
#[test]
fn duplicates_of_all_data_do_not_count() {
    let mut unread = Unread::default();
    assert_eq!(unread.add(&piece(0, 10, 1)), Ok(()));
    read(&mut unread, 0, 10, 10);
    for _ in 0..2 * QUIC_UNREAD_PIECES_MAX {
        assert_eq!(unread.add(&piece(0, 10, 1)), Ok(()));
    }
    assert_eq!(unread.bytes(|_| true), 0);
}

/// One piece was read early, and another one was cut by the end of what is near.
#[test]
fn count_is_not_too_low() {
    let mut unread = Unread::default();
    assert_eq!(unread.add(&piece(0, 10, 1)), Ok(()));
    assert_eq!(unread.add(&piece(0, 40, 1)), Ok(()));
    read(&mut unread, 0, 10, 10);
    // Two frames, of which one ends at 20.
    assert_eq!(unread.add(&piece(0, 60, 2)), Ok(()));
    assert_eq!(unread.add(&piece(0, 80, 1)), Ok(()));
    read(&mut unread, 0, 10, 20);
    let count = |unread: &mut Unread| {
        let stream = unread.stream(0).unwrap();
        stream.near.count + stream.far.count
    };
    assert!(count(&mut unread) >= 3, "40, 60 and 80");
    read(&mut unread, 0, 20, 40);
    assert!(count(&mut unread) >= 2, "60 and 80");
    read(&mut unread, 0, 20, 60);
    assert!(count(&mut unread) >= 1, "80");
    read(&mut unread, 0, 20, 80);
    assert_eq!(count(&mut unread), 0);
}

#[test]
fn duplicates_on_a_stream_without_unread_data_do_not_count() {
    let mut unread = Unread::default();
    assert_eq!(unread.add(&piece(2, 10, 1)), Ok(()));
    read(&mut unread, 2, 10, 10);
    for _ in 0..3 {
        assert_eq!(unread.bytes(|_| true), 0);
        assert_eq!(unread.add(&piece(2, 10, 1)), Ok(()));
    }
    assert_eq!(unread.add(&piece(2, 20, 1)), Ok(()));
    assert_eq!(unread.bytes(|_| false), 1500, "the stream is known to be open");
    read(&mut unread, 2, 10, 20);
    assert_eq!(unread.bytes(|_| true), 0);
    unread.free_unused();
    assert_eq!((unread.streams.capacity(), unread.read.len()), (0, 1));
    unread.end(2);
    assert!(unread.read.is_empty());
}

#[test]
fn streams_are_found_in_any_order() {
    let mut unread = Unread::default();
    for id in [8, 0, 16, 4, 12, 4] {
        assert_eq!(unread.add(&piece(id, 10, 1)), Ok(()));
    }
    assert_eq!(unread.bytes(|_| true), 6 * 1500 + 2 * ENTRY_BYTES as u64);
    assert!([0, 4, 8, 12, 16].into_iter().all(|id| unread.stream(id).is_some()));
    for id in [8, 16, 0, 6] {
        unread.end(id);
    }
    assert!(unread.stream(8).is_none() && unread.stream(12).is_some());
    assert_eq!(unread.bytes(|_| true), 3 * 1500);
}
