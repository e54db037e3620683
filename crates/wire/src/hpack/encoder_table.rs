//! What we have put into a peer's table, and fields as they are to be sent to it (RFC 7541 §6).
//!
//! Lines are put in when they are first sent, as long as there is room, and stay: nothing is ever dropped from the table but
//! all at once, so to know a line's index takes one byte for each line that there can be. Never searches, never allocates.

use cannery_archive::{HpackLine, LINE_IDS};

use super::static_table::STATIC_FIELDS;
use crate::limits::HPACK_TABLE_BYTES;

/// The number of the first of the server's own lines; below it are those of an archive.
pub const FIRST_SERVER_LINE_ID: u8 = LINE_IDS;

/// How many lines can be in a table: 61 behind the first index, so that every index is one byte.
const LINES: usize = 64;

const _: () = assert!(STATIC_FIELDS + LINES < 0x7f, "an index must fit its byte");
const _: () = assert!((FIRST_SERVER_LINE_ID as usize) < LINES, "the server has lines too");
const _: () = assert!(HPACK_TABLE_BYTES <= u16::MAX as usize, "sizes must fit");

/// What a peer may be told at most to keep, whatever it offers: what it offers before it has said anything.
#[allow(clippy::cast_possible_truncation, reason = "asserted above")]
const TABLE_BYTES: u16 = HPACK_TABLE_BYTES as u16;

/// The archive whose lines have numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    /// Which of those that the connection answers from.
    archive: u16,
    /// The beginning of its digest.
    identity: u64,
}

/// One connection's memory of what its peer's table holds.
#[derive(Debug)]
pub struct EncoderTable {
    /// For each number of a line, as the how manieth it was put in, from 1 on; 0 if it is not there.
    ordinals: [u8; LINES],
    /// How many were put in: no more than `LINES`.
    count: u8,
    /// Whether the lines of the archive that is answered from are sent as literals: the numbers are another's.
    is_other_archive: bool,
    /// Whether the table must be told a size before the next field.
    is_to_be_resized: bool,
    /// Whether it must be emptied before that.
    is_to_be_emptied: bool,
    /// What the lines in it count (RFC 7541 §4.1): `used <= told`.
    used: u16,
    /// The size that the peer was told, or knows without.
    told: u16,
    /// The size that it is to be told, and the smallest that it has offered since it was told one.
    wanted: u16,
    least: u16,
    owner: Option<Owner>,
}

impl EncoderTable {
    /// Of a new connection: nothing, in a table of the size that every peer has at first.
    #[must_use]
    pub fn new() -> EncoderTable {
        EncoderTable {
            ordinals: [0; LINES],
            count: 0,
            is_other_archive: false,
            is_to_be_resized: false,
            is_to_be_emptied: false,
            used: 0,
            told: TABLE_BYTES,
            wanted: TABLE_BYTES,
            least: TABLE_BYTES,
            owner: None,
        }
    }

    /// The peer has set SETTINGS_HEADER_TABLE_SIZE: the smallest that it named, and the last.
    pub fn set_size_max(&mut self, least: u32, last: u32) {
        let fitting = |bytes: u32| u16::try_from(bytes).unwrap_or(u16::MAX).min(TABLE_BYTES);
        self.least = self.least.min(fitting(least));
        self.wanted = fitting(last);
        self.is_to_be_resized = self.least < self.told || self.wanted != self.told;
    }

    /// Begins a block whose lines are of this archive; `identity` is the beginning of its digest, and 0 if there is none.
    ///
    /// If another archive has taken the place of the one whose lines were put in, the table is emptied for it. Lines of an
    /// archive in another place are literals: two hosts on one connection would else empty it for each other again and again.
    #[inline]
    pub fn begin_block(&mut self, block: &mut Vec<u8>, archive: u16, identity: u64) {
        let owner = Some(Owner { archive, identity });
        if self.owner == owner && !self.is_to_be_resized {
            self.is_other_archive = false;
            return;
        }
        self.change_owner_or_size(block, archive, identity);
    }

    #[cold]
    fn change_owner_or_size(&mut self, block: &mut Vec<u8>, archive: u16, identity: u64) {
        self.is_other_archive = match self.owner {
            _ if identity == 0 => true,
            Some(owner) if owner.identity != identity && owner.archive != archive => true,
            Some(owner) if owner.identity == identity => false,
            known => {
                self.is_to_be_emptied |= known.is_some();
                self.owner = Some(Owner { archive, identity });
                false
            }
        };
        if self.is_to_be_emptied || self.is_to_be_resized {
            self.resize(block);
        }
    }

    /// Tells the smallest size that the peer has offered, or none to empty the table, and then the last (RFC 7541 §4.2).
    fn resize(&mut self, block: &mut Vec<u8>) {
        if self.is_to_be_emptied || self.least < self.used {
            self.least = 0;
        }
        if self.least < self.told {
            self.tell_size(block, self.least);
        }
        if self.least == 0 {
            (self.ordinals, self.count, self.used) = ([0; LINES], 0, 0);
        }
        if self.wanted != self.told {
            self.tell_size(block, self.wanted);
        }
        self.least = self.wanted;
        (self.is_to_be_resized, self.is_to_be_emptied) = (false, false);
    }

    fn tell_size(&mut self, block: &mut Vec<u8>, bytes: u16) {
        super::integer::put(block, 0x20, 5, bytes.into());
        self.told = bytes;
    }

    /// Appends a line of the archive that the block was begun for.
    #[inline]
    pub fn put_archive_line(&mut self, block: &mut Vec<u8>, line: HpackLine<'_>) {
        // The server's numbers are none of an archive's.
        let id = usize::from(line.id);
        let is_numbered = id < usize::from(LINE_IDS) && !self.is_other_archive;
        self.put_numbered(block, line, if is_numbered { id } else { LINES });
    }

    /// Appends one of the server's own lines, which are the same for all archives.
    #[inline]
    pub fn put_server_line(&mut self, block: &mut Vec<u8>, line: HpackLine<'_>) {
        self.put_numbered(block, line, usize::from(line.id));
    }

    #[inline]
    fn put_numbered(&mut self, block: &mut Vec<u8>, line: HpackLine<'_>, id: usize) {
        if line.size == 0 {
            // What is no index of the static table is of a damaged archive.
            return block.push(0x80 | line.static_index & 0x3f);
        }
        match self.ordinals.get(id) {
            None => put_literal(block, line),
            Some(0) => self.put_new(block, line, id),
            // The last one that was put in stands behind the static table.
            Some(ordinal) => block.push(0x80 | (FIRST_INDEX + self.count - ordinal)),
        }
    }

    /// Appends a line as a literal, which the peer is told to keep if there is room.
    #[cold]
    fn put_new(&mut self, block: &mut Vec<u8>, line: HpackLine<'_>, id: usize) {
        let Some(used) = self.used.checked_add(line.size).filter(|used| *used <= self.told) else {
            return put_literal(block, line);
        };
        self.used = used;
        self.count += 1;
        self.ordinals[id] = self.count;
        block.push(0x40 | line.static_index & 0x3f);
        block.extend_from_slice(line.literal);
    }
}

/// The index of the field that was put in last (RFC 7541 §2.3.3).
#[allow(clippy::cast_possible_truncation, reason = "asserted above")]
const FIRST_INDEX: u8 = STATIC_FIELDS as u8 + 1;

/// Appends a line that nobody is to keep (RFC 7541 §6.2.2).
fn put_literal(block: &mut Vec<u8>, line: HpackLine<'_>) {
    put_name_index(block, line.static_index & 0x3f);
    block.extend_from_slice(line.literal);
}

/// Appends the beginning of a literal that nobody is to keep, whose name the static table has; or, with 0, whose name
/// follows.
#[inline]
pub(crate) fn put_name_index(block: &mut Vec<u8>, static_index: u8) {
    if static_index < 0x0f {
        block.push(static_index);
    } else {
        block.extend_from_slice(&[0x0f, static_index - 0x0f]);
    }
}

impl Default for EncoderTable {
    fn default() -> Self {
        EncoderTable::new()
    }
}

#[cfg(test)]
mod tests {
    use cannery_archive::{NO_LINE_ID, NewHpackLine};
    use proptest::prelude::*;

    use super::*;
    use crate::hpack::{Decoder, Field, encode_line};

    /// A peer: its decoder, with a table that it was told to make smaller, and what it has read.
    struct Peer {
        table: EncoderTable,
        decoder: Decoder,
    }

    impl Peer {
        fn new() -> Peer {
            Peer { table: EncoderTable::new(), decoder: Decoder::new() }
        }

        /// Sends lines of an archive, and one of the server's; gives back the block, after comparing what is read.
        fn send(
            &mut self,
            archive: u16,
            identity: u64,
            lines: &[NewHpackLine],
            own: &[NewHpackLine],
        ) -> Vec<u8> {
            let mut block = Vec::new();
            self.table.begin_block(&mut block, archive, identity);
            lines.iter().for_each(|line| self.table.put_archive_line(&mut block, line.as_line()));
            own.iter().for_each(|line| self.table.put_server_line(&mut block, line.as_line()));
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
    fn what_was_sent_once_is_a_byte() {
        let mut peer = Peer::new();
        let own = [encode_line(56, "referrer-policy", b"no-referrer")];
        let first = peer.send(0, 7, &lines(), &own);
        assert_eq!(first[..2], [0x88, 0x40 | 59]);
        let again = peer.send(0, 7, &lines(), &own);
        assert_eq!(again, b"\x88\xc0\xbf\0\x03x-b\x012\xbe");
        assert_eq!(peer.send(0, 7, &lines()[2..3], &[]), [0xbf]);
    }

    #[test]
    fn another_archive_in_its_place_begins_anew() {
        let mut peer = Peer::new();
        peer.send(0, 7, &lines(), &[]);
        let block = peer.send(0, 8, &[encode_line(0, "vary", b"Cookie")], &[]);
        assert_eq!(
            block[..5],
            [0x20, 0x3f, 0xe1, 0x1f, 0x40 | 59],
            "empty, 4096 bytes, and the line is put in"
        );
        assert_eq!(peer.send(0, 8, &[encode_line(0, "vary", b"Cookie")], &[]), [0xbe]);
    }

    #[test]
    fn an_archive_in_another_place_is_sent_in_literals() {
        let mut peer = Peer::new();
        let own = [encode_line(56, "referrer-policy", b"no-referrer")];
        peer.send(0, 7, &lines(), &own);
        let other = [encode_line(0, "vary", b"Cookie")];
        assert_eq!(peer.send(1, 8, &other, &own), peer.send(1, 8, &other, &own), "nothing was put in");
        assert_eq!(*peer.send(1, 8, &other, &own).last().unwrap(), 0xbe, "the server's lines are the same");
        assert_eq!(peer.send(1, 0, &[], &own), [0xbe], "no archive at all");
        assert_eq!(peer.send(0, 7, &lines()[1..2], &[]), [0xc0], "the first is still known");
    }

    #[test]
    fn a_smaller_table_is_obeyed_before_the_next_field() {
        let mut peer = Peer::new();
        peer.send(0, 7, &lines(), &[]);
        peer.table.set_size_max(100, 100);
        // 51 and 36 bytes are in it.
        assert_eq!(
            peer.send(0, 7, &lines()[1..3], &[]),
            [0x3f, 69, 0xbf, 0xbe],
            "all that is in it still fits"
        );
        peer.table.set_size_max(60, 80);
        let block = peer.send(0, 7, &lines()[1..3], &[]);
        assert_eq!(block[..4], [0x20, 0x3f, 49, 0x40 | 59], "begun anew, with 80 bytes");
        assert_eq!(peer.send(0, 7, &lines()[1..3], &[]), b"\xbe\0\x03x-a\x011", "the second has no room");
        peer.table.set_size_max(0, 0);
        assert_eq!(peer.send(0, 7, &lines()[1..2], &[])[..3], [0x20, 0x0f, 44], "a literal");
        assert_eq!(peer.send(0, 7, &lines()[1..2], &[])[..2], [0x0f, 44], "told once");
        peer.table.set_size_max(65_536, 65_536);
        assert_eq!(
            peer.send(0, 7, &lines()[1..2], &[])[..4],
            [0x3f, 0xe1, 0x1f, 0x40 | 59],
            "4096 and no more"
        );
    }

    #[test]
    fn a_size_that_was_smaller_for_a_while_is_told() {
        // RFC 7541 §4.2: the smallest, then the last.
        let mut peer = Peer::new();
        peer.table.set_size_max(10, 4096);
        assert_eq!(peer.send(0, 7, &[], &[]), [0x2a, 0x3f, 0xe1, 0x1f]);
        peer.table.set_size_max(4096, 4096);
        assert_eq!(peer.send(0, 7, &[], &[]), b"");
    }

    #[test]
    fn numbers_of_a_damaged_archive_do_no_harm() {
        let mut table = EncoderTable::new();
        let mut block = Vec::new();
        table.begin_block(&mut block, 0, 7);
        for id in 0..=u8::MAX {
            for (static_index, size) in [(0, 33), (255, 33), (255, 0), (62, 65_535)] {
                table.put_archive_line(&mut block, HpackLine { id, static_index, size, literal: b"\x01a\0" });
            }
        }
        assert!(table.count <= LINE_IDS && table.used <= table.told);
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
        fn a_peer_reads_what_was_meant(operations in prop::collection::vec(operation(), 0..60)) {
            let mut peer = Peer::new();
            let mut offered = 4096;
            for operation in operations {
                match operation {
                    Operation::Settings { least, last } => {
                        peer.table.set_size_max(least, last);
                        offered = last;
                    }
                    Operation::Send { archive, identity, ids, own } => {
                        // What a number stands for depends on the archive.
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
}
