//! Knows which of our lines are in the peer's dynamic table (RFC 7541 §2.3.2, §6).
//!
//! When a line is sent for the first time, it is inserted if there is room. Single entries are never evicted; instead, we empty the
//! whole table if necessary. This way, one byte per line is enough to find the index, without searching or allocating.

use cannery_archive::{HpackLine, LINE_IDS};

use super::integer;
use super::static_table::STATIC_FIELDS;
use crate::compression::table_owner::{LINE_SLOTS, Ownership, TableOwner, slot_of_server_line};
use crate::limits::HPACK_TABLE_BYTES;

/// The first ID for the server's lines. Lower IDs are for an archive's lines.
pub const FIRST_SERVER_LINE_ID: u8 = LINE_IDS;

const _: () = assert!(STATIC_FIELDS + LINE_SLOTS < 0x7f, "the index of every line must fit its byte");
const _: () = assert!(HPACK_TABLE_BYTES <= u16::MAX as usize, "sizes must fit 16 bits");

/// Maximum size of our table, no matter what the peer allows. It is also the initial size before SETTINGS arrive (RFC 9113 §6.5.2).
#[allow(clippy::cast_possible_truncation, reason = "asserted above")]
const TABLE_BYTES_MAX: u16 = HPACK_TABLE_BYTES as u16;

/// The newest entry has this index (RFC 7541 §2.3.3).
#[allow(clippy::cast_possible_truncation, reason = "asserted above")]
const NEWEST_INDEX: u8 = STATIC_FIELDS as u8 + 1;

/// A connection's encoder.
#[derive(Debug)]
pub struct EncoderTable {
    /// For each slot, the number of the insertion that was its line, counted from 1, or 0 if the line is not in the table.
    insertions: [u8; LINE_SLOTS],
    /// Number of lines in the table, at most [`LINE_SLOTS`].
    count: u8,
    /// Total size of these lines (RFC 7541 §4.1), in bytes, at most `size_max`.
    used: u16,
    /// Maximum size of the table: the last size we have sent to the peer, or the initial size.
    size_max: u16,
    /// The change to `size_max` in the next block.
    size_update: Option<SizeUpdate>,
    /// The archive that line IDs in the table refer to.
    owner: TableOwner,
}

/// A change of the maximum table size (RFC 7541 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SizeUpdate {
    /// Change it to this size.
    One(u16),
    /// The peer has changed the size several times since the last block. We need to send the smallest value first and then the last
    /// one.
    Two(u16, u16),
}

impl EncoderTable {
    /// Creates the encoder of a new connection, with an empty table that has its initial size.
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

    /// Handles SETTINGS_HEADER_TABLE_SIZE, which may occur several times in a SETTINGS frame. `smallest` and `last` refer to these
    /// values.
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

    /// Starts a block with lines from this archive. `identity` is the start of its digest, or 0 without an archive.
    ///
    /// When there is a new release, we empty the table. If the archive is for a different host, however, all its lines will be
    /// literals.
    #[inline]
    pub fn begin_block(&mut self, block: &mut Vec<u8>, archive: u16, identity: u64) {
        let must_empty = self.owner.begin_section(archive, identity) == Ownership::Replaced;
        if must_empty || self.size_update.is_some() {
            self.put_size_updates(block, must_empty);
        }
    }

    /// Appends all changes of the table's size that the peer does not know yet (RFC 7541 §4.2). To empty the table, we change the
    /// size to 0 in between.
    #[cold]
    fn put_size_updates(&mut self, block: &mut Vec<u8>, must_empty: bool) {
        let (smallest, last) = match self.size_update.take() {
            Some(SizeUpdate::One(size)) => (size.min(self.size_max), size),
            Some(SizeUpdate::Two(smallest, last)) => (smallest, last),
            None => (self.size_max, self.size_max),
        };

        // If the lines do not fit into the smallest size, don't keep any.
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

    /// Appends one of the archive's lines.
    #[inline]
    pub fn put_archive_line(&mut self, block: &mut Vec<u8>, line: HpackLine<'_>) {
        self.put_line(block, line, self.owner.slot_of_archive_line(line.id));
    }

    /// Appends one of the server's lines.
    #[inline]
    pub fn put_server_line(&mut self, block: &mut Vec<u8>, line: HpackLine<'_>) {
        self.put_line(block, line, slot_of_server_line(line.id));
    }

    /// Appends a line. If it does not have a slot, it is not in any table.
    #[inline]
    fn put_line(&mut self, block: &mut Vec<u8>, line: HpackLine<'_>, slot: Option<usize>) {
        if line.size == 0 {
            // The line is in the static table, so we only need the mask if the archive is damaged.
            return block.push(0x80 | line.static_index & 0x3f);
        }

        let Some(slot) = slot else { return put_literal(block, line) };
        match self.insertions[slot] {
            0 => self.put_first(block, line, slot),
            insertion => block.push(0x80 | (NEWEST_INDEX + self.count - insertion)),
        }
    }

    /// Appends a line as a literal. If there is room, the peer will insert it into its table (RFC 7541 §6.2.1).
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

/// Appends a line as a literal the peer will not insert (RFC 7541 §6.2.2).
fn put_literal(block: &mut Vec<u8>, line: HpackLine<'_>) {
    put_name_index(block, line.static_index & 0x3f);
    block.extend_from_slice(line.literal);
}

/// Appends the start of a literal the peer will not insert (RFC 7541 §6.2.2).
///
/// `static_index` is an entry with the literal's name. If this is 0, you still need to append the name.
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
