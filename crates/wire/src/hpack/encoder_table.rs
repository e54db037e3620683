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
mod tests;
