//! Tests for the encoder table. A decoder is the peer.

use cannery_archive::{NO_LINE_ID, NewHpackLine};
use proptest::prelude::*;

use super::*;
use crate::compression::hpack::{Decoder, Field, encode_line};

/// An encoder table and the peer's decoder.
struct Peer {
    table: EncoderTable,
    decoder: Decoder,
}

impl Peer {
    fn new() -> Peer {
        Peer { table: EncoderTable::new(), decoder: Decoder::new() }
    }

    /// Sends lines from an archive and from the server, checks that the peer can decode them, and returns the block.
    fn send(&mut self, archive: u16, identity: u64, lines: &[NewHpackLine], own: &[NewHpackLine]) -> Vec<u8> {
        let mut block = Vec::new();
        self.table.begin_block(&mut block, archive, identity);
        for line in lines {
            self.table.put_archive_line(&mut block, line.as_line());
        }
        for line in own {
            self.table.put_server_line(&mut block, line.as_line());
        }
        let mut literals = Vec::new();
        for line in lines.iter().chain(own) {
            if line.size == 0 {
                literals.push(0x80 | line.static_index);
            } else {
                put_literal(&mut literals, line.as_line());
            }
        }
        assert_eq!(read(&mut self.decoder, &block), read(&mut Decoder::new(), &literals));
        block
    }
}

fn read(decoder: &mut Decoder, block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut fields = Vec::new();
    let take = |field: Field<'_>| fields.push((field.name_text.to_vec(), field.value.to_vec()));
    decoder.decode(block, &mut Vec::new(), take).unwrap();
    fields
}

fn lines() -> Vec<NewHpackLine> {
    vec![
        encode_line(NO_LINE_ID, ":status", b"200"),
        encode_line(0, "vary", b"Accept-Encoding"),
        encode_line(1, "x-a", b"1"),
        encode_line(NO_LINE_ID, "x-b", b"2"),
    ]
}

#[test]
fn repeated_line_is_one_byte() {
    let mut peer = Peer::new();
    let own = [encode_line(56, "referrer-policy", b"no-referrer")];
    let first = peer.send(0, 7, &lines(), &own);
    assert_eq!(first[..2], [0x88, 0x40 | 59]);
    let again = peer.send(0, 7, &lines(), &own);
    assert_eq!(again, b"\x88\xc0\xbf\0\x03x-b\x012\xbe");
    assert_eq!(peer.send(0, 7, &lines()[2..3], &[]), [0xbf]);
}

#[test]
fn replaced_archive_empties_the_table() {
    let mut peer = Peer::new();
    peer.send(0, 7, &lines(), &[]);
    let block = peer.send(0, 8, &[encode_line(0, "vary", b"Cookie")], &[]);
    assert_eq!(
        block[..5],
        [0x20, 0x3f, 0xe1, 0x1f, 0x40 | 59],
        "size 0, size 4096, and the line is inserted"
    );
    assert_eq!(peer.send(0, 8, &[encode_line(0, "vary", b"Cookie")], &[]), [0xbe]);
}

#[test]
fn other_archive_is_sent_in_literals() {
    let mut peer = Peer::new();
    let own = [encode_line(56, "referrer-policy", b"no-referrer")];
    peer.send(0, 7, &lines(), &own);
    let other = [encode_line(0, "vary", b"Cookie")];
    assert_eq!(peer.send(1, 8, &other, &own), peer.send(1, 8, &other, &own), "nothing is inserted");
    assert_eq!(*peer.send(1, 8, &other, &own).last().unwrap(), 0xbe, "the server's lines are the same");
    assert_eq!(peer.send(1, 0, &[], &own), [0xbe], "no archive at all");
    assert_eq!(
        peer.send(0, 7, &lines()[1..2], &[]),
        [0xc0],
        "the first archive's line is still in the table"
    );
}

#[test]
fn size_update_precedes_the_next_field() {
    let mut peer = Peer::new();
    peer.send(0, 7, &lines(), &[]);
    peer.table.set_size_max(100, 100);
    // The table has lines of 51 and 36 bytes.
    assert_eq!(peer.send(0, 7, &lines()[1..3], &[]), [0x3f, 69, 0xbf, 0xbe], "all lines still fit");
    peer.table.set_size_max(60, 80);
    let block = peer.send(0, 7, &lines()[1..3], &[]);
    assert_eq!(block[..4], [0x20, 0x3f, 49, 0x40 | 59], "emptied, then 80 bytes");
    assert_eq!(
        peer.send(0, 7, &lines()[1..3], &[]),
        b"\xbe\0\x03x-a\x011",
        "there is no room for the second line"
    );
    peer.table.set_size_max(0, 0);
    assert_eq!(peer.send(0, 7, &lines()[1..2], &[])[..3], [0x20, 0x0f, 44], "a literal");
    assert_eq!(peer.send(0, 7, &lines()[1..2], &[])[..2], [0x0f, 44], "the size is sent once");
    peer.table.set_size_max(65_536, 65_536);
    assert_eq!(peer.send(0, 7, &lines()[1..2], &[])[..4], [0x3f, 0xe1, 0x1f, 0x40 | 59], "at most 4096");
}

#[test]
fn temporary_smaller_size_is_sent() {
    // RFC 7541 §4.2: the smallest size needs to come first, then the last one.
    let mut peer = Peer::new();
    peer.table.set_size_max(10, 4096);
    assert_eq!(peer.send(0, 7, &[], &[]), [0x2a, 0x3f, 0xe1, 0x1f]);
    peer.table.set_size_max(4096, 4096);
    assert_eq!(peer.send(0, 7, &[], &[]), b"");
}

#[test]
fn line_ids_of_a_damaged_archive_are_harmless() {
    let mut table = EncoderTable::new();
    let mut block = Vec::new();
    table.begin_block(&mut block, 0, 7);
    for id in 0..=u8::MAX {
        for (static_index, size) in [(0, 33), (255, 33), (255, 0), (62, 65_535)] {
            table.put_archive_line(&mut block, HpackLine { id, static_index, size, literal: b"\x01a\0" });
        }
    }
    assert!(table.count <= LINE_IDS && table.used <= table.size_max);
}

#[derive(Debug, Clone)]
enum Operation {
    Send { archive: u16, identity: u64, ids: Vec<u8>, own: Vec<u8> },
    Settings { least: u32, last: u32 },
}

fn operation() -> impl Strategy<Value = Operation> {
    let sizes = prop_oneof![Just(0_u32), 0_u32..400, Just(4096), Just(65_536)];
    let ids = prop::collection::vec(0_u8..60, 0..12);
    prop_oneof![
        8 => (0_u16..2, 0_u64..4, ids, prop::collection::vec(56_u8..64, 0..4))
            .prop_map(|(archive, identity, ids, own)| Operation::Send { archive, identity, ids, own }),
        1 => (sizes.clone(), sizes).prop_map(|(one, last)| Operation::Settings { least: one.min(last), last }),
    ]
}

proptest! {
    #[test]
    fn peer_decodes_every_line(operations in prop::collection::vec(operation(), 0..60)) {
        let mut peer = Peer::new();
        let mut offered = 4096;
        for operation in operations {
            match operation {
                Operation::Settings { least, last } => {
                    peer.table.set_size_max(least, last);
                    offered = last;
                }
                Operation::Send { archive, identity, ids, own } => {
                    // In each archive, the same line ID is used for a different line.
                    let of_archive = |id: &u8| encode_line(*id, "x-line", format!("{identity} {}", id * 3).as_bytes());
                    let of_server = |id: &u8| encode_line(*id, "x-own", format!("{id}").as_bytes());
                    let lines: Vec<_> = ids.iter().map(of_archive).collect();
                    let own: Vec<_> = own.iter().map(of_server).collect();
                    peer.send(archive, identity, &lines, &own);
                    prop_assert!(u32::from(peer.table.used) <= offered);
                    prop_assert_eq!(usize::from(peer.table.used), peer.decoder.table_bytes());
                }
            }
        }
    }
}
