//! HPACK encoder state: the lines of ours that a peer's dynamic table holds (RFC 7541 §2.3.2, §6).
//!
//! A line is inserted when it is first sent, as long as there is room, and stays: we never let the peer evict
//! single entries, but empty the whole table. So one byte for each line is enough to find a line's index,
//! without a search or an allocation.

use cannery_archive::{HpackLine, LINE_IDS};

use super::integer;
use super::static_table::STATIC_FIELDS;
use crate::limits::HPACK_TABLE_BYTES;
use crate::table_owner::{LINE_SLOTS, Ownership, TableOwner, slot_of_server_line};

/// ID of the first line of the server's own. Lower IDs are those of an archive's lines.
pub const FIRST_SERVER_LINE_ID: u8 = LINE_IDS;

const _: () = assert!(STATIC_FIELDS + LINE_SLOTS < 0x7f, "the index of every line must fit its byte");
const _: () = assert!(HPACK_TABLE_BYTES <= u16::MAX as usize, "sizes must fit 16 bits");

/// The largest table that we use, whatever the peer allows. It is also the size of every table before the
/// first SETTINGS (RFC 9113 §6.5.2).
#[allow(clippy::cast_possible_truncation, reason = "asserted above")]
const TABLE_BYTES_MAX: u16 = HPACK_TABLE_BYTES as u16;

/// Index of the entry that was inserted last (RFC 7541 §2.3.3).
#[allow(clippy::cast_possible_truncation, reason = "asserted above")]
const NEWEST_INDEX: u8 = STATIC_FIELDS as u8 + 1;

/// Encoder state of one connection.
#[derive(Debug)]
pub struct EncoderTable {
    /// Insertion order of the line in each slot, starting at 1; 0 if the line is not in the table.
    insertions: [u8; LINE_SLOTS],
    /// Number of lines in the table, at most [`LINE_SLOTS`].
    count: u8,
    /// Size of these lines (RFC 7541 §4.1), in bytes: `used <= size_max`.
    used: u16,
    /// Maximum size of the table, as last sent to the peer or known to it from the start.
    size_max: u16,
    /// The change of `size_max` that the next block begins with.
    size_update: Option<SizeUpdate>,
    /// The archive that the line IDs in the table belong to.
    owner: TableOwner,
}

/// A change of the table's maximum size (RFC 7541 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SizeUpdate {
    /// To this size.
    One(u16),
    /// To the smallest size that the peer allowed since the last block, then to the last one.
    Two(u16, u16),
}

impl EncoderTable {
    /// Creates the state of a new connection: an empty table of the initial size.
    #[must_use]
    pub fn new() -> EncoderTable {
        EncoderTable {
            insertions: [0; LINE_SLOTS],
            count: 0,
            used: 0,
            size_max: TABLE_BYTES_MAX,
            size_update: None,
            owner: TableOwner::default(),
        }
    }

    /// Handles SETTINGS_HEADER_TABLE_SIZE. `smallest` and `last` are the smallest and the last value of a
    /// SETTINGS frame.
    pub fn set_size_max(&mut self, smallest: u32, last: u32) {
        let clamp = |bytes: u32| u16::try_from(bytes).unwrap_or(u16::MAX).min(TABLE_BYTES_MAX);
        let last = clamp(last);
        let smallest = clamp(smallest).min(match self.size_update {
            Some(SizeUpdate::One(size)) => size.min(self.size_max),
            Some(SizeUpdate::Two(smallest, _)) => smallest,
            None => self.size_max,
        });

        self.size_update = if smallest < self.size_max && smallest < last {
            Some(SizeUpdate::Two(smallest, last))
        } else if last != self.size_max {
            Some(SizeUpdate::One(last))
        } else {
            None
        };
    }

    /// Begins a block of lines of this archive. `identity` is the beginning of its digest, or 0 if there is
    /// no archive.
    ///
    /// If another archive took the owner's place, the table is emptied. An archive in another place gets literals.
    #[inline]
    pub fn begin_block(&mut self, block: &mut Vec<u8>, archive: u16, identity: u64) {
        let must_empty = self.owner.begin_section(archive, identity) == Ownership::Replaced;
        if must_empty || self.size_update.is_some() {
            self.put_size_updates(block, must_empty);
        }
    }

    /// Appends the pending changes of the table's size (RFC 7541 §4.2), and a change to 0 if the table has to
    /// be emptied.
    #[cold]
    fn put_size_updates(&mut self, block: &mut Vec<u8>, must_empty: bool) {
        let (smallest, last) = match self.size_update.take() {
            Some(SizeUpdate::One(size)) => (size.min(self.size_max), size),
            Some(SizeUpdate::Two(smallest, last)) => (smallest, last),
            None => (self.size_max, self.size_max),
        };

        // If not all lines fit the smallest size, none is kept.
        let smallest = if must_empty || smallest < self.used { 0 } else { smallest };
        if smallest < self.size_max {
            self.put_size_update(block, smallest);
        }
        if smallest == 0 {
            self.insertions = [0; LINE_SLOTS];
            self.count = 0;
            self.used = 0;
        }
        if last != self.size_max {
            self.put_size_update(block, last);
        }
    }

    fn put_size_update(&mut self, block: &mut Vec<u8>, bytes: u16) {
        integer::put(block, 0x20, 5, bytes.into());
        self.size_max = bytes;
    }

    /// Appends a line of the archive that the block was begun for.
    #[inline]
    pub fn put_archive_line(&mut self, block: &mut Vec<u8>, line: HpackLine<'_>) {
        self.put_line(block, line, self.owner.slot_of_archive_line(line.id));
    }

    /// Appends a line of the server's own.
    #[inline]
    pub fn put_server_line(&mut self, block: &mut Vec<u8>, line: HpackLine<'_>) {
        self.put_line(block, line, slot_of_server_line(line.id));
    }

    /// Appends a line. Without a slot it's in no table.
    #[inline]
    fn put_line(&mut self, block: &mut Vec<u8>, line: HpackLine<'_>, slot: Option<usize>) {
        if line.size == 0 {
            // An entry of the static table. The mask matters only for a damaged archive.
            return block.push(0x80 | line.static_index & 0x3f);
        }
        let Some(slot) = slot else { return put_literal(block, line) };
        match self.insertions[slot] {
            0 => self.put_first(block, line, slot),
            insertion => block.push(0x80 | (NEWEST_INDEX + self.count - insertion)),
        }
    }

    /// Appends a line as a literal, which the peer inserts into its table if there is room (RFC 7541 §6.2.1).
    #[cold]
    fn put_first(&mut self, block: &mut Vec<u8>, line: HpackLine<'_>, slot: usize) {
        let Some(used) = self.used.checked_add(line.size).filter(|used| *used <= self.size_max) else {
            return put_literal(block, line);
        };
        self.used = used;
        self.count += 1;
        self.insertions[slot] = self.count;
        block.push(0x40 | line.static_index & 0x3f);
        block.extend_from_slice(line.literal);
    }
}

impl Default for EncoderTable {
    fn default() -> Self {
        EncoderTable::new()
    }
}

/// Appends a line as a literal without indexing (RFC 7541 §6.2.2).
fn put_literal(block: &mut Vec<u8>, line: HpackLine<'_>) {
    put_name_index(block, line.static_index & 0x3f);
    block.extend_from_slice(line.literal);
}

/// Appends the first byte or two of a literal without indexing (RFC 7541 §6.2.2).
///
/// `static_index` is the static entry with the literal's name, or 0 if the name follows.
#[inline]
pub(crate) fn put_name_index(block: &mut Vec<u8>, static_index: u8) {
    if static_index < 0x0f {
        block.push(static_index);
    } else {
        block.extend_from_slice(&[0x0f, static_index - 0x0f]);
    }
}

#[cfg(test)]
mod tests;
