//! Unit tests of the memory of unread data.

use super::*;

fn piece(stream: u64, end: u64, count: u32) -> Piece {
    Piece { stream, end, count, bytes: 1500 }
}

#[test]
fn data_counts_until_it_is_read() {
    let mut unread = Unread::default();
    assert_eq!(unread.add(&piece(0, 10, 1)), Ok(()));
    assert_eq!(unread.add(&piece(0, 20, 1)), Ok(()));
    assert_eq!(unread.add(&piece(4, 10, 1)), Ok(()));
    assert_eq!(unread.bytes(|_| true), 4500);
    unread.read(0, 1, 10, 10);
    assert_eq!(unread.bytes(|_| true), 4490, "the other piece of the stream waits");
    unread.read(0, 1, 10, 20);
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
fn tables_of_many_pieces_remain() {
    let mut unread = Unread::default();
    for id in 0..1000 {
        assert_eq!(unread.add(&piece(id, 100, 100)), Ok(()));
        unread.read(id, 100, 100, 100);
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
