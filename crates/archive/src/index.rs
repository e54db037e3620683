//! The container's hash tables, as specified by D. J. Bernstein.
//!
//! There are 256 tables. The low byte of a key's hash selects a table, and the other bits select the slot where the lookup starts.
//! From there, we probe slot by slot (linear probing) until we find either the key or an empty slot. It should not take long to
//! find out that a key is missing, since half of the slots are empty. Lookups do not allocate.

use crate::error::{Corrupt, WriteError};
use crate::layout::entry::Entry;
use crate::layout::format::{Format, TABLES};
use crate::layout::hash::Hash;

/// Maximum number of slots that a lookup will probe. The writer makes sure that no entry is further from its first slot.
///
/// A lookup in a crafted file could otherwise end up reading all of it. Tables with up to 65,536 entries (the average in an archive
/// with 16 million records) cannot reach the bound, no matter how they hash.
const PROBES_MAX: u64 = 1 << 16;

/// Finds the record with this hash and a key that `matches`.
// Part of every request: see `Archive::path`.
#[inline(always)]
pub(crate) fn find<'a>(
    file: &'a [u8],
    format: Format,
    hash: Hash,
    matches: impl Fn(&[u8]) -> bool,
) -> Result<Option<Entry<'a>>, Corrupt> {
    // Branch on the width once. This allows the compiler to specialize the probe loop for each width.
    match format {
        Format::Cdb => find_in(file, Format::Cdb, hash, matches),
        Format::Cdb64 => find_in(file, Format::Cdb64, hash, matches),
    }
}

#[inline(always)]
fn find_in<'a>(
    file: &'a [u8],
    format: Format,
    hash: Hash,
    matches: impl Fn(&[u8]) -> bool,
) -> Result<Option<Entry<'a>>, Corrupt> {
    let stored = format.stored_hash(hash);
    let table = Table::at(file, format, stored & 0xff)?;
    if table.slots == 0 {
        return Ok(None);
    }

    let mut at = (stored >> 8) % table.slots;
    for _ in 0..table.slots.min(PROBES_MAX) {
        let slot = table.slot(at)?;
        if slot.position == 0 {
            return Ok(None);
        }
        // Compare the hashes first, since reading the key means a cache miss.
        if slot.hash == stored {
            let entry = Entry::at(file, format, slot.position)?;
            if matches(entry.key) {
                return Ok(Some(entry));
            }
        }
        at += 1;
        if at == table.slots {
            at = 0;
        }
    }
    Ok(None)
}

/// Reads all tables and returns their occupied slots sorted by position.
///
/// All of these slots are reachable by a lookup. Therefore, if there is a slot for each record and no two records have the same
/// key, every lookup will succeed. This takes a single pass, whereas looking up each key could take quadratic time in a crafted
/// file.
///
/// # Errors
/// Returns [`Corrupt`] if a slot cannot be reached by a lookup of its hash.
pub(crate) fn occupied_slots(file: &[u8], format: Format) -> Result<Vec<Slot>, Corrupt> {
    let mut occupied = Vec::new();
    for number in 0..TABLES as u64 {
        Table::at(file, format, number)?.collect_occupied(number, &mut occupied)?;
    }
    occupied.sort_unstable_by_key(|slot| slot.position);
    Ok(occupied)
}

/// A hash table, completely inside the file.
#[derive(Clone, Copy)]
struct Table<'a> {
    file: &'a [u8],
    format: Format,
    /// Position of the first slot. Invariant: `start + slots * slot_bytes <= file.len()`, which ensures that no sum overflows.
    start: u64,
    slots: u64,
}

impl<'a> Table<'a> {
    /// Reads the reference to table `number` (less than 256).
    #[inline]
    fn at(file: &'a [u8], format: Format, number: u64) -> Result<Self, Corrupt> {
        let offset = number * 2 * format.quantity_bytes();
        let corrupt = Corrupt { what: "the header", offset };
        let (start, slots) = format.pair(file, offset).ok_or(corrupt)?;
        let bytes = slots.checked_mul(format.slot_bytes()).ok_or(corrupt)?;
        let end = start.checked_add(bytes).ok_or(corrupt)?;
        if end > file.len() as u64 { Err(corrupt) } else { Ok(Table { file, format, start, slots }) }
    }

    #[inline]
    fn slot(&self, at: u64) -> Result<Slot, Corrupt> {
        let offset = self.start + at * self.format.slot_bytes();
        let (hash, position) = self.format.pair(self.file, offset).ok_or_else(|| self.corrupt(at))?;
        Ok(Slot { hash, position })
    }

    #[cold]
    fn corrupt(&self, at: u64) -> Corrupt {
        Corrupt { what: "a hash table", offset: self.start + at * self.format.slot_bytes() }
    }

    /// Appends the occupied slots, starting after an empty one to avoid cutting a run of occupied slots in two.
    fn collect_occupied(&self, number: u64, occupied: &mut Vec<Slot>) -> Result<(), Corrupt> {
        if self.slots == 0 {
            return Ok(());
        }

        let empty = self.first_empty()?;
        // Number of occupied slots right before this one. A lookup may have started that far back.
        let mut run = 0;
        for step in 1..self.slots {
            let at = (empty + step) % self.slots;
            let slot = self.slot(at)?;
            if slot.position == 0 {
                run = 0;
                continue;
            }
            let distance = (at + self.slots - (slot.hash >> 8) % self.slots) % self.slots;
            if slot.hash & 0xff != number || distance > run || distance >= PROBES_MAX {
                return Err(self.corrupt(at));
            }
            occupied.push(slot);
            run += 1;
        }
        Ok(())
    }

    /// Finds an empty slot. Every valid table must have one, since half of its slots are empty.
    fn first_empty(&self) -> Result<u64, Corrupt> {
        for at in 0..self.slots {
            if self.slot(at)?.position == 0 {
                return Ok(at);
            }
        }
        Err(self.corrupt(0))
    }
}

/// A hash table slot: the hash and the position of a record. Note that the writer keeps one slot per record in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The hash as the format stores it.
    pub(crate) hash: u64,
    /// Position of the record in the file, in bytes. 0 means that the slot is empty (no record can start there).
    pub(crate) position: u64,
}

/// Returns the size of all tables in bytes, with two slots per record. Saturates on overflow.
pub(crate) fn tables_bytes(format: Format, records: u64) -> u64 {
    records.saturating_mul(2 * format.slot_bytes())
}

/// Builds the 256 tables, passing each one to `write`, and returns the header. The first table starts at `position`.
///
/// # Errors
/// Returns [`WriteError::Crowded`] if some record could not be found by a lookup, and any error from `write`.
pub(crate) fn build(
    format: Format,
    mut slots: Vec<Slot>,
    mut position: u64,
    mut write: impl FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<Vec<u8>, WriteError> {
    // The sort must be stable: like other CDB writers, we keep the records of a table in file order.
    slots.sort_by_key(|slot| slot.hash & 0xff);

    let mut header = Vec::new();
    let mut rest = slots.as_slice();
    let mut bytes = Vec::new();
    for table in 0..TABLES as u64 {
        let count = rest.partition_point(|slot| slot.hash & 0xff == table);
        let (entries, others) = rest.split_at(count);
        rest = others;

        let filled = fill(entries, PROBES_MAX).ok_or(WriteError::Crowded { max: PROBES_MAX })?;
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

/// Builds one table with twice as many slots as entries. Each entry goes to the first free slot from its hash on.
///
/// Returns `None` if an entry would need more than `probes_max` probes.
fn fill(entries: &[Slot], probes_max: u64) -> Option<Vec<Slot>> {
    let length = 2 * entries.len();
    let mut filled = vec![Slot { hash: 0, position: 0 }; length];
    for entry in entries {
        let mut at = ((entry.hash >> 8) % length as u64) as usize;
        let mut probes = 1;
        while filled[at].position != 0 {
            at = (at + 1) % length;
            probes += 1;
            if probes > probes_max {
                return None;
            }
        }
        filled[at] = *entry;
    }
    Some(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(position: u64) -> Slot {
        Slot { hash: 0x300, position }
    }

    #[test]
    fn colliding_entries_use_next_free_slots() {
        let filled = fill(&[slot(10), slot(20), slot(30)], PROBES_MAX).unwrap();
        let positions: Vec<u64> = filled.iter().map(|slot| slot.position).collect();
        assert_eq!(positions, [0, 0, 0, 10, 20, 30]);
    }

    #[test]
    fn entry_beyond_probe_limit_is_refused() {
        assert!(fill(&[slot(10), slot(20)], 2).is_some());
        assert!(fill(&[slot(10), slot(20), slot(30)], 2).is_none());
    }
}
