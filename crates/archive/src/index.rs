//! The hash tables: built and searched side by side, as D. J. Bernstein's page says.
//!
//! A key's hash picks one of 256 tables by its low byte, and by the rest the slot where the search
//! begins; it goes on slot by slot until it meets the key or an empty slot. Tables are twice as large as
//! their entries, so a search that finds nothing ends soon. `find` never allocates.

use crate::Corrupt;
use crate::layout::entry::Entry;
use crate::layout::format::{Format, TABLES};
use crate::layout::hash::Hash;

/// Finds the record whose key `matches`, among those with this hash.
///
/// Searches one table at most; each number read on the way is checked against the file.
#[inline]
pub(crate) fn find<'a>(
    file: &'a [u8],
    format: Format,
    hash: Hash,
    matches: impl Fn(&[u8]) -> bool,
) -> Result<Option<Entry<'a>>, Corrupt> {
    let wanted = format.stored_hash(hash);
    let table_at = (wanted & 0xff) * 2 * format.quantity_bytes();
    let corrupt_table = Corrupt { what: "the header", offset: table_at };
    let (table, slots) = format.pair(file, table_at).ok_or(corrupt_table)?;
    if slots == 0 {
        return Ok(None);
    }
    // One check for the whole table, so that no sum below can overflow.
    let table_bytes = slots.checked_mul(format.slot_bytes()).ok_or(corrupt_table)?;
    let table_end = table.checked_add(table_bytes).ok_or(corrupt_table)?;
    if table_end > file.len() as u64 {
        return Err(corrupt_table);
    }
    let mut slot = (wanted >> 8) % slots;
    for _ in 0..slots {
        let slot_at = table + slot * format.slot_bytes();
        let (stored, record) = format.pair(file, slot_at).ok_or(corrupt_table)?;
        if record == 0 {
            return Ok(None);
        }
        if stored == wanted {
            let entry = Entry::at(file, format, record)?;
            if matches(entry.key) {
                return Ok(Some(entry));
            }
        }
        slot += 1;
        if slot == slots {
            slot = 0;
        }
    }
    Ok(None)
}

/// What the writer remembers of each record: where it stands and under which hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// As the format stores it.
    pub(crate) hash: u64,
    /// Where the record stands, in bytes from the start of the file. Never 0: the header is there.
    pub(crate) position: u64,
}

/// Bytes that the tables of so many records take: each record has two slots.
pub(crate) fn tables_bytes(format: Format, records: u64) -> u64 {
    records * 2 * format.slot_bytes()
}

/// Lays out the 256 tables of `slots`, one after the other from `position` on, hands each one's bytes to
/// `write`, and returns the header.
pub(crate) fn build<E>(
    format: Format,
    mut slots: Vec<Slot>,
    mut position: u64,
    mut write: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    // A stable sort: within a table the records keep their order in the file, as other writers do it.
    slots.sort_by_key(|slot| slot.hash & 0xff);
    let mut header = Vec::new();
    let mut rest = slots.as_slice();
    let mut bytes = Vec::new();
    for table in 0..TABLES as u64 {
        let count = rest.partition_point(|slot| slot.hash & 0xff == table);
        let (entries, others) = rest.split_at(count);
        rest = others;
        let filled = fill(entries);
        format.put(&mut header, position);
        format.put(&mut header, filled.len() as u64);
        bytes.clear();
        for slot in &filled {
            format.put(&mut bytes, slot.hash);
            format.put(&mut bytes, slot.position);
        }
        write(&bytes)?;
        position += bytes.len() as u64;
    }
    Ok(header)
}

/// One table: twice as many slots as entries, each entry in the first free slot from where its hash points.
fn fill(entries: &[Slot]) -> Vec<Slot> {
    let length = 2 * entries.len();
    let mut filled = vec![Slot { hash: 0, position: 0 }; length];
    for entry in entries {
        let mut at = ((entry.hash >> 8) % length as u64) as usize;
        while filled[at].position != 0 {
            at = (at + 1) % length;
        }
        filled[at] = *entry;
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_collide_stand_in_the_next_free_slots() {
        let slot = |position| Slot { hash: 0x300, position };
        let filled = fill(&[slot(10), slot(20), slot(30)]);
        let positions: Vec<u64> = filled.iter().map(|slot| slot.position).collect();
        assert_eq!(positions, [0, 0, 0, 10, 20, 30]);
    }
}
