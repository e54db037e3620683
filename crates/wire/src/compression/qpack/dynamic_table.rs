//! The decoder's dynamic table (RFC 9204 §3.2).

use super::error::Fault;
use crate::compression::hpack::{DecoderTable, Field};
use crate::limits::QPACK_TABLE_BYTES;

/// The decoder's dynamic table. It only allocates once there is an insertion.
#[derive(Debug)]
pub(super) struct DynamicTable {
    entries: DecoderTable,
    capacity: usize,
    /// Total number of entries ever inserted (RFC 9204 §2.1.1).
    insert_count: u64,
}

impl DynamicTable {
    /// Creates an empty table with capacity 0. The encoder can increase it.
    pub(super) fn new() -> DynamicTable {
        DynamicTable { entries: DecoderTable::with_size_max(0), capacity: 0, insert_count: 0 }
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.entries.allocated_bytes()
    }

    pub(super) fn insert_count(&self) -> u64 {
        self.insert_count
    }

    /// Sets the capacity, evicting the oldest entries until the table fits (RFC 9204 §3.2.3).
    pub(super) fn set_capacity(&mut self, capacity: u64) -> Result<(), Fault> {
        let capacity = usize::try_from(capacity).ok().filter(|capacity| *capacity <= QPACK_TABLE_BYTES);
        self.capacity = capacity.ok_or(Fault::Capacity)?;
        self.entries.set_size_max(self.capacity);
        Ok(())
    }

    /// Inserts a field. When there is not enough room, this will evict the oldest entries first.
    pub(super) fn insert(&mut self, field: &Field<'_>) -> Result<(), Fault> {
        if field.size() > self.capacity {
            return Err(Fault::EntryTooLarge);
        }

        self.entries.insert(field);
        self.insert_count += 1;
        Ok(())
    }

    /// Returns the entry with this absolute index (RFC 9204 §3.2.4), or an error if it was evicted.
    #[inline]
    pub(super) fn absolute(&self, index: u64) -> Result<Field<'_>, Fault> {
        let newer = self.insert_count.checked_sub(1).and_then(|newest| newest.checked_sub(index));
        let number = newer.and_then(|newer| usize::try_from(newer).ok());
        number.and_then(|number| self.entries.get(number)).ok_or(Fault::Index)
    }

    /// Returns an entry by its index relative to the newest entry, like on the encoder stream (RFC 9204 §3.2.5).
    pub(super) fn relative(&self, index: u64) -> Result<Field<'_>, Fault> {
        let newest = self.insert_count.checked_sub(1);
        self.absolute(newest.and_then(|newest| newest.checked_sub(index)).ok_or(Fault::Index)?)
    }

    #[cfg(test)]
    pub(super) fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        (0..).map_while(|number| self.entries.get(number))
    }
}
