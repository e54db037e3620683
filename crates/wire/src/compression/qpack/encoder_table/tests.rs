//! Tests for the encoder table. A decoder is the peer.

use cannery_archive::{NO_LINE_ID, NewQpackLine};
use proptest::prelude::*;

use super::*;
use crate::compression::hpack::{Field, List};
use crate::compression::qpack::{Decoder, encode_line};

/// An encoder table and the peer's decoder. On the streams between them, bytes may arrive late or never.
struct Peer {
    table: EncoderTable,
    decoder: Decoder,
    /// Bytes on the encoder stream that have not arrived yet.
    encoder_stream: Vec<u8>,
    /// Bytes on the decoder stream that have not arrived yet.
    decoder_stream: Vec<u8>,
}

impl Peer {
    fn new() -> Peer {
        Peer {
            table: EncoderTable::new(),
            decoder: Decoder::new(),
            encoder_stream: Vec::new(),
            decoder_stream: Vec::new(),
        }
    }

    /// Creates a peer whose table has this capacity.
    fn with_capacity(capacity: u64) -> Peer {
        let mut peer = Peer::new();
        peer.table.set_peer_settings(capacity);
        peer
    }

    /// Sends lines from an archive and from the server, checks that the peer can decode them at once, and returns the section.
    fn send(&mut self, archive: u16, identity: u64, lines: &[NewQpackLine], own: &[NewQpackLine]) -> Vec<u8> {
        let mut section = Vec::new();
        self.table.begin_section(&mut section, archive, identity);
        for line in lines {
            self.table.put_archive_line(&mut section, line.as_line());
        }
        for line in own {
            self.table.put_server_line(&mut section, line.as_line());
        }
        self.table.end_section(&mut section);
        self.encoder_stream.extend(self.table.take_encoder_stream());

        let mut literals = vec![0, 0];
        for line in lines.iter().chain(own) {
            literals.extend_from_slice(&line.representation);
        }
        let (fields, uses_table) = read(&self.decoder, &section);
        assert_eq!(fields, read(&Decoder::new(), &literals).0);
        if let Some(count) = uses_table {
            self.decoder.acknowledge(&mut self.decoder_stream, 0, count);
        }
        section
    }

    /// Delivers the next bytes of the encoder stream, appending acknowledgments to the decoder stream.
    fn deliver_instructions(&mut self, bytes: usize) {
        let bytes = bytes.min(self.encoder_stream.len());
        let arrived: Vec<u8> = self.encoder_stream.drain(..bytes).collect();
        self.decoder.read_encoder_stream(&arrived, &mut Vec::new()).unwrap();
        self.decoder.acknowledge_insertions(&mut self.decoder_stream);
    }

    /// Delivers the next bytes of the decoder stream.
    fn deliver_acknowledgments(&mut self, bytes: usize) {
        let bytes = bytes.min(self.decoder_stream.len());
        let arrived: Vec<u8> = self.decoder_stream.drain(..bytes).collect();
        self.table.read_decoder_stream(&arrived).unwrap();
    }

    /// Delivers all bytes of both streams.
    fn deliver_all(&mut self) {
        self.deliver_instructions(usize::MAX);
        self.deliver_acknowledgments(usize::MAX);
    }
}

/// Names and values of fields.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn read(decoder: &Decoder, section: &[u8]) -> (Fields, Option<crate::compression::qpack::InsertCount>) {
    let mut fields = Vec::new();
    let take = |field: Field<'_>| fields.push((field.name_text.to_vec(), field.value.to_vec()));
    let decoded = decoder.decode(section, &mut Vec::new(), take).unwrap();
    assert_eq!(decoded.list, List::Whole);
    (fields, decoded.uses_table)
}

fn lines() -> Vec<NewQpackLine> {
    vec![
        encode_line(NO_LINE_ID, ":status", b"200"),
        encode_line(0, "vary", b"~"),
        encode_line(1, "~", b"1"),
        encode_line(NO_LINE_ID, "~", b"2"),
    ]
}

/// Representations of [`lines`].
const LITERALS: &[u8] = b"\xd9\x5f\x2c\x01~\x21~\x011\x21~\x012";

fn own() -> [NewQpackLine; 1] {
    [encode_line(56, "referrer-policy", b"~")]
}

#[test]
fn sections_are_literals_until_the_settings() {
    let mut peer = Peer::new();
    for _ in 0..2 {
        assert_eq!(peer.send(0, 7, &lines(), &[]), [b"\0\0", LITERALS].concat());
    }
    assert_eq!(peer.encoder_stream, b"", "nothing is inserted");

    peer.table.set_peer_settings(0);
    assert_eq!(peer.send(0, 7, &lines(), &[]), [b"\0\0", LITERALS].concat());
    assert_eq!(peer.encoder_stream, b"");
}

#[test]
fn acknowledged_lines_are_one_byte() {
    let mut peer = Peer::with_capacity(65_536);
    assert_eq!(peer.send(0, 7, &lines(), &[]), [b"\0\0", LITERALS].concat());
    // Set the capacity to 4,096, then insert `vary` by its static name, and `~`.
    assert_eq!(peer.encoder_stream, b"\x3f\xe1\x1f\xfb\x01~\x41~\x011");
    assert_eq!(peer.send(0, 7, &lines(), &[]), [b"\0\0", LITERALS].concat(), "not acknowledged");
    peer.deliver_instructions(usize::MAX);
    assert_eq!(peer.send(0, 7, &lines(), &[]), [b"\0\0", LITERALS].concat(), "not acknowledged");
    assert_eq!(peer.encoder_stream, b"", "each is inserted once");

    peer.deliver_acknowledgments(usize::MAX);
    assert_eq!(peer.send(0, 7, &lines(), &[]), b"\x03\0\xd9\x81\x80\x21~\x012");
    assert_eq!(peer.send(0, 7, &lines()[..2], &[]), b"\x02\x01\xd9\x81", "needs only the first entry");
    assert_eq!(peer.send(0, 7, &lines()[3..], &[]), b"\0\0\x21~\x012", "needs none");
    assert_eq!(peer.decoder_stream, b"\x80\x80");
}

#[test]
fn unacknowledged_lines_are_literals() {
    let mut peer = Peer::with_capacity(4096);
    peer.send(0, 7, &lines()[..2], &[]);
    peer.deliver_all();
    let section = b"\x02\0\xd9\x80\x21~\x011\x21~\x012";
    assert_eq!(peer.send(0, 7, &lines(), &[]), section);
    peer.deliver_instructions(usize::MAX);
    assert_eq!(peer.send(0, 7, &lines(), &[]), section);
    assert_eq!(peer.send(0, 7, &[], &own()), [&[0, 0], &own()[0].representation[..]].concat());
}

#[test]
fn replaced_archive_forgets_the_old_lines() {
    let mut peer = Peer::with_capacity(4096);
    peer.send(0, 7, &lines(), &own());
    peer.deliver_all();
    let new = [encode_line(0, "vary", b"Cookie")];
    let literal = [&[0, 0], &new[0].representation[..]].concat();
    assert_eq!(peer.send(0, 8, &new, &[]), literal);
    assert_eq!(peer.send(0, 8, &[], &own()), b"\x04\0\x80", "the server's lines are the same");
    peer.deliver_all();
    assert_eq!(peer.send(0, 8, &new, &own()), b"\x05\0\x80\x81");
    // The new release is the old archive again, because of a rollback.
    assert_eq!(peer.send(0, 7, &lines(), &[]), [b"\0\0", LITERALS].concat());
}

#[test]
fn other_archive_is_sent_in_literals() {
    let mut peer = Peer::with_capacity(4096);
    peer.send(0, 7, &lines(), &own());
    peer.deliver_all();
    let other = [encode_line(0, "vary", b"Cookie")];
    let literal = [&[4, 0], &other[0].representation[..], &[0x80]].concat();
    assert_eq!(peer.send(1, 8, &other, &own()), literal);
    assert_eq!(peer.encoder_stream, b"", "nothing is inserted");
    assert_eq!(peer.send(1, 0, &[], &own()), [4, 0, 0x80], "no archive at all");
    assert_eq!(peer.send(0, 7, &lines()[1..2], &[]), [2, 2, 0x82], "the first archive's line is still there");
}

#[test]
fn full_table_stays_as_it_is() {
    // The lines have 37 and 34 bytes.
    for (capacity, sections) in [
        (33, [b"\0\0\x5f\x2c\x01~", b"\0\0\x5f\x2c\x01~"]),
        (37, [b"\0\0\x5f\x2c\x01~", b"\x02\0\x80\x21~\x01"]),
    ] {
        let mut peer = Peer::with_capacity(capacity);
        assert!(peer.send(0, 7, &lines()[1..3], &[]).starts_with(sections[0]));
        peer.deliver_all();
        assert!(peer.send(0, 7, &lines()[1..3], &[]).starts_with(sections[1]), "{capacity}");
        assert_eq!(peer.encoder_stream, b"");
    }
}

#[test]
fn large_indices_take_more_bytes() {
    let mut peer = Peer::with_capacity(4096);
    let lines = |identity: u64| -> Vec<_> {
        (0..LINE_IDS).map(|id| encode_line(id, "~", format!("{identity}{id}").as_bytes())).collect()
    };
    peer.send(0, 1, &[], &own());
    peer.send(0, 1, &lines(1), &[]);
    peer.send(0, 2, &lines(2), &[]);
    peer.deliver_all();
    let count = peer.table.known_received;
    assert!(count > 100 && peer.table.used > 4000);
    assert_eq!(peer.send(0, 2, &[], &own()), [2, count - 1, 0xbf, count - 1 - 63]);
    peer.send(0, 2, &lines(2), &[]);
}

#[test]
fn invalid_acknowledgments_are_errors() {
    let increment = Err(Error::DecoderStream(Fault::Increment));
    let acknowledgment = Err(Error::DecoderStream(Fault::Acknowledgment));
    let mut peer = Peer::with_capacity(4096);
    let mut section = Vec::new();
    peer.table.begin_section(&mut section, 0, 7);
    peer.table.put_archive_line(&mut section, lines()[1].as_line());
    peer.table.end_section(&mut section);
    assert_eq!(peer.table.read_decoder_stream(&[1]), increment, "the insertion was not sent");
    assert!(!peer.table.take_encoder_stream().is_empty());
    assert_eq!(peer.table.read_decoder_stream(&[0]), increment);
    assert_eq!(peer.table.read_decoder_stream(&[2]), increment);
    assert_eq!(peer.table.read_decoder_stream(&[0x3f, 0x80, 0x80, 0x01]), increment);
    assert_eq!(peer.table.read_decoder_stream(&[0x80]), acknowledgment, "the section uses no table");
    assert_eq!(peer.table.read_decoder_stream(&[0xff; 12]), Err(Error::DecoderStream(Fault::Integer)));

    let mut peer = Peer::with_capacity(4096);
    peer.send(0, 7, &lines(), &[]);
    peer.deliver_all();
    peer.send(0, 7, &lines(), &[]);
    assert_eq!(peer.table.read_decoder_stream(&[0x44, 0x7f, 0x80]), Ok(()), "incomplete");
    assert_eq!(peer.table.read_decoder_stream(&[0x01, 0x80]), Ok(()), "the rest, and an acknowledgment");
    assert_eq!(peer.table.read_decoder_stream(&[0x80]), acknowledgment, "of no other section");
    assert_eq!(peer.table.read_decoder_stream(&[1]), increment, "all are acknowledged");
}

#[test]
fn lines_of_a_damaged_archive_are_harmless() {
    let mut peer = Peer::with_capacity(4096);
    let mut section = Vec::new();
    let mut instructions = 0;
    for identity in 1..9 {
        peer.table.begin_section(&mut section, 0, identity);
        for id in 0..=u8::MAX {
            for size in [0, 1, 32, 33, 40, 65_535] {
                for representation in
                    [&b""[..], b"\x21a\0", b"\x5f\xff", b"\x2f", b"\x80", b"\x10", &[b'!'; 300]]
                {
                    peer.table.put_archive_line(&mut section, QpackLine { id, size, representation });
                }
            }
        }
        peer.table.end_section(&mut section);
        instructions += peer.table.take_encoder_stream().len();
    }
    assert!(peer.table.used <= peer.table.capacity && instructions <= 4100);
    assert_eq!(peer.table.insert_count, 124, "no more would fit");
}

#[derive(Debug, Clone)]
enum Operation {
    Settings(u64),
    Send { archive: u16, identity: u64, ids: Vec<u8>, own: Vec<u8> },
    DeliverInstructions(usize),
    DeliverAcknowledgments(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let ids = prop::collection::vec(0_u8..60, 0..12);
    let bytes = prop_oneof![0_usize..40, Just(usize::MAX)];
    prop_oneof![
        1 => prop_oneof![Just(0_u64), 0_u64..400, Just(4096), Just(u64::MAX >> 2)].prop_map(Operation::Settings),
        8 => (0_u16..2, 0_u64..4, ids, prop::collection::vec(56_u8..68, 0..4))
            .prop_map(|(archive, identity, ids, own)| Operation::Send { archive, identity, ids, own }),
        3 => bytes.clone().prop_map(Operation::DeliverInstructions),
        3 => bytes.prop_map(Operation::DeliverAcknowledgments),
    ]
}

proptest! {
    #[test]
    fn peer_decodes_every_line_at_once(operations in prop::collection::vec(operation(), 0..120)) {
        let mut peer = Peer::new();
        let mut has_settings = false;
        let mut instruction_bytes = 0;

        for operation in operations {
            match operation {
                Operation::Settings(capacity) if !has_settings => {
                    has_settings = true;
                    peer.table.set_peer_settings(capacity);
                    prop_assert!(peer.table.capacity as u64 <= capacity);
                }
                Operation::Settings(_) => {}
                Operation::Send { archive, identity, ids, own } => {
                    // In each archive, the same line ID is used for a different line.
                    let of_archive = |id: &u8| encode_line(*id, "x-line", format!("{identity} {}", id * 3).as_bytes());
                    let of_server = |id: &u8| encode_line(*id, "x-own", format!("{id}").as_bytes());
                    let lines: Vec<_> = ids.iter().map(of_archive).collect();
                    let own: Vec<_> = own.iter().map(of_server).collect();
                    let before = peer.encoder_stream.len();
                    peer.send(archive, identity, &lines, &own);
                    instruction_bytes += peer.encoder_stream.len() - before;
                    prop_assert!(peer.table.used <= peer.table.capacity);
                }
                Operation::DeliverInstructions(bytes) => peer.deliver_instructions(bytes),
                Operation::DeliverAcknowledgments(bytes) => peer.deliver_acknowledgments(bytes),
            }
        }

        prop_assert!(instruction_bytes <= peer.table.capacity + 3);
        peer.deliver_all();
        prop_assert_eq!(peer.table.known_received, peer.table.insert_count);
    }

    #[test]
    fn any_decoder_stream_is_executed_or_refused(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8)) {
        let mut peer = Peer::with_capacity(4096);
        for piece in pieces {
            peer.send(0, 7, &lines(), &own());
            if peer.table.read_decoder_stream(&piece).is_err() {
                break;
            }
            prop_assert!(peer.table.known_received <= peer.table.sent_count);
            prop_assert!(peer.table.incomplete.len() < 10);
            // The decoder has everything that the encoder thinks it has.
            peer.deliver_instructions(usize::MAX);
        }
    }
}
