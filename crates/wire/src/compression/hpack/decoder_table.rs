//! The decoder's dynamic table in HPACK (RFC 7541 §2.3.2, §4) and QPACK (RFC 9204 §3.2).
//!
//! We do not allocate before the first insertion, and never more than twice the size limit. If we know a name, we store it as a
//! [`Name`], without any bytes.

use std::collections::VecDeque;

use super::field::{FIELD_OVERHEAD, Field};
use super::name::Name;
use crate::limits::{HPACK_TABLE_BYTES, QPACK_TABLE_BYTES};

/// The decoder's dynamic table.
#[derive(Debug)]
pub(crate) struct DecoderTable {
    /// Bytes of evicted entries, followed by those of all entries from oldest to newest. Each entry has its name before its value.
    bytes: Vec<u8>,
    /// Total number of bytes removed from the start of `bytes`. Wraps around.
    removed: usize,
    /// Newest first.
    entries: VecDeque<Entry>,
    /// Size as defined by RFC 7541 §4.1. At most `size_max`.
    size: usize,
    size_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Position of its first byte, counted from the very first byte that was inserted. Wraps around.
    start: usize,
    name_bytes: u16,
    value_bytes: u16,
    name: Name,
    is_well_formed: bool,
}

impl DecoderTable {
    /// Creates an empty table. It can get this large, in bytes.
    pub(crate) fn with_size_max(size_max: usize) -> DecoderTable {
        DecoderTable { bytes: Vec::new(), removed: 0, entries: VecDeque::new(), size: 0, size_max }
    }

    /// Returns an entry. 0 is the newest.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<Field<'_>> {
        let entry = self.entries.get(number)?;
        let (name, value) =
            self.bytes.get(self.position(entry)..)?.split_at_checked(entry.stored_name_bytes())?;
        let name_text = if entry.name == Name::Other { name } else { entry.name.as_bytes() };
        let value = value.get(..usize::from(entry.value_bytes))?;
        Some(Field { name: entry.name, name_text, value, is_well_formed: entry.is_well_formed })
    }

    /// Inserts a field. If there is not enough room, we evict the oldest entries first. A field that is larger than the table
    /// evicts all of them (RFC 7541 §4.4).
    pub(crate) fn insert(&mut self, field: &Field<'_>) {
        let size = field.size();
        self.evict_to(self.size_max.saturating_sub(size));
        if size > self.size_max {
            return;
        }

        let (Ok(name_bytes), Ok(value_bytes)) =
            (u16::try_from(field.name_text.len()), u16::try_from(field.value.len()))
        else {
            debug_assert!(false, "lengths of a field that fits the table are two bytes wide");
            return;
        };

        let mut entry = Entry {
            start: 0,
            name_bytes,
            value_bytes,
            name: field.name,
            is_well_formed: field.is_well_formed,
        };
        self.make_room(entry.stored_name_bytes() + field.value.len());

        entry.start = self.removed.wrapping_add(self.bytes.len());
        if field.name == Name::Other {
            self.bytes.extend_from_slice(field.name_text);
        }
        self.bytes.extend_from_slice(field.value);
        self.entries.push_front(entry);
        self.size += size;
    }

    /// Sets the maximum size of the table, evicting the oldest entries until it fits.
    pub(crate) fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict_to(size_max);
    }

    fn evict_to(&mut self, size_max: usize) {
        while self.size > size_max {
            let Some(entry) = self.entries.pop_back() else { break };
            self.size -= usize::from(entry.name_bytes) + usize::from(entry.value_bytes) + FIELD_OVERHEAD;
        }
    }

    /// Makes room for appending this many bytes.
    ///
    /// We remove bytes of evicted entries once they take at least half of the buffer. This means that we move at most one byte for
    /// each byte inserted, and that the buffer stays smaller than twice the size limit.
    fn make_room(&mut self, bytes: usize) {
        if self.bytes.len() + bytes <= self.bytes.capacity() {
            return;
        }

        let evicted = self.entries.back().map_or(self.bytes.len(), |oldest| self.position(oldest));
        if evicted * 2 >= self.bytes.len() {
            self.bytes.drain(..evicted);
            self.removed = self.removed.wrapping_add(evicted);
        }

        let wanted = self.bytes.len() + bytes;
        if wanted > self.bytes.capacity() {
            let capacity = (2 * self.bytes.capacity()).max(wanted).max(FIRST_BYTES);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    /// Returns the memory used by the entries, in bytes.
    #[inline]
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Returns where an entry is in `bytes`.
    #[inline]
    fn position(&self, entry: &Entry) -> usize {
        entry.start.wrapping_sub(self.removed)
    }
}

impl Entry {
    /// Returns the length of the name in `DecoderTable::bytes`.
    #[inline]
    fn stored_name_bytes(&self) -> usize {
        if self.name == Name::Other { usize::from(self.name_bytes) } else { 0 }
    }
}

/// Number of bytes allocated for the first field. A browser's fields typically take about 600.
const FIRST_BYTES: usize = 128;

const _: () = assert!(
    HPACK_TABLE_BYTES <= u16::MAX as usize && QPACK_TABLE_BYTES <= u16::MAX as usize,
    "lengths of names and values are two bytes wide"
);
