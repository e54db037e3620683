//! The hash tables: built and searched side by side, as D. J. Bernstein's page says.
//!
//! A key's hash picks one of 256 tables by its low byte, and by the rest the slot where the search
//! begins; it goes on slot by slot until it meets the key or an empty slot. Tables are twice as large as
//! their entries, so a search that finds nothing ends soon. `find` never allocates.

use crate::error::{Corrupt, WriteError};
use crate::layout::entry::Entry;
use crate::layout::format::{Format, TABLES};
use crate::layout::hash::Hash;

/// Slots that a search looks at before it gives up, and how far from its first slot an entry may stand.
///
/// Without a bound, one lookup in a file made to that end would read all of it. A table with no more
/// entries than this cannot reach the bound, however bad the hash; in an archive of 16 million records, the
/// average table has as many.
const PROBES_MAX: u64 = 1 << 16;

/// Finds the record whose key `matches`, among those with this hash.
///
/// Searches one table at most; each number read on the way is checked against the file.
// A step of every request: see `Archive::path`.
#[inline(always)]
pub(crate) fn find<'a>(
    file: &'a [u8],
    format: Format,
    hash: Hash,
    matches: impl Fn(&[u8]) -> bool,
) -> Result<Option<Entry<'a>>, Corrupt> {
    // Told apart once, so that no step of the search does it again, and 32 bits are known to be no more.
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
    let wanted = format.stored_hash(hash);
    let table = Table::of(file, format, wanted & 0xff)?;
    if table.slots == 0 {
        return Ok(None);
    }
    let mut at = (wanted >> 8) % table.slots;
    for _ in 0..table.slots.min(PROBES_MAX) {
        let slot = table.slot(at)?;
        if slot.position == 0 {
            return Ok(None);
        }
        if slot.hash == wanted {
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

/// Reads every table once and returns the slots that are taken, sorted by position.
///
/// Each stands where a search for its hash comes by. So if no two records share a key, and each record's
/// slot is among these, then each record is found: this takes one pass, where a lookup of each key could
/// take time with the square of the records in a file made to that end.
pub(crate) fn taken_slots(file: &[u8], format: Format) -> Result<Vec<Slot>, Corrupt> {
    let mut taken = Vec::new();
    for number in 0..TABLES as u64 {
        Table::of(file, format, number)?.collect_taken(number, &mut taken)?;
    }
    taken.sort_unstable_by_key(|slot| slot.position);
    Ok(taken)
}

/// A table that lies within the file.
#[derive(Clone, Copy)]
struct Table<'a> {
    file: &'a [u8],
    format: Format,
    /// Where its first slot stands. `start + slots * slot_bytes <= file.len()`, so that no sum overflows.
    start: u64,
    slots: u64,
}

impl<'a> Table<'a> {
    /// The table of this number, which is less than 256.
    #[inline]
    fn of(file: &'a [u8], format: Format, number: u64) -> Result<Self, Corrupt> {
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

    /// Goes round the table once, from an empty slot to the same, and appends the slots that are taken.
    fn collect_taken(&self, number: u64, taken: &mut Vec<Slot>) -> Result<(), Corrupt> {
        if self.slots == 0 {
            return Ok(());
        }
        let empty = self.first_empty()?;
        // How many taken slots stand directly before this one: as far back may its search have begun.
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
            taken.push(slot);
            run += 1;
        }
        Ok(())
    }

    /// An empty slot, which every table has that is not empty itself: half of its slots are.
    fn first_empty(&self) -> Result<u64, Corrupt> {
        for at in 0..self.slots {
            if self.slot(at)?.position == 0 {
                return Ok(at);
            }
        }
        Err(self.corrupt(0))
    }
}

/// A slot: where a record stands and under which hash. The writer remembers one for each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// As the format stores it.
    pub(crate) hash: u64,
    /// Where the record stands, in bytes from the start of the file. 0 in an empty
    /// slot: no record stands there, the header does.
    pub(crate) position: u64,
}

/// Bytes that the tables of so many records take: each record has two slots. More than any file holds, if
/// the sum overflows.
pub(crate) fn tables_bytes(format: Format, records: u64) -> u64 {
    records.saturating_mul(2 * format.slot_bytes())
}

/// Lays out the 256 tables of `slots`, one after the other from `position` on, hands each one's bytes to
/// `write`, and returns the header.
pub(crate) fn build(
    format: Format,
    mut slots: Vec<Slot>,
    mut position: u64,
    mut write: impl FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<Vec<u8>, WriteError> {
    // A stable sort: within a table the records keep their order in the file, as other writers do it.
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

/// One table: twice as many slots as entries, each entry in the first free slot from where its hash points.
/// Nothing if that is `probes_max` slots away, where no search would come.
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
    fn entries_that_collide_stand_in_the_next_free_slots() {
        let filled = fill(&[slot(10), slot(20), slot(30)], PROBES_MAX).unwrap();
        let positions: Vec<u64> = filled.iter().map(|slot| slot.position).collect();
        assert_eq!(positions, [0, 0, 0, 10, 20, 30]);
    }

    #[test]
    fn no_entry_is_put_where_no_search_comes() {
        assert!(fill(&[slot(10), slot(20)], 2).is_some());
        assert!(fill(&[slot(10), slot(20), slot(30)], 2).is_none());
    }
}
