//! What a peer has put into the dynamic table (RFC 7541 §2.3.2, §4): the fields that it will name by a number.
//!
//! Allocates nothing until the first is put in, then what they take, and never more than twice the limit. Names that
//! requests are made of are kept as a [`Name`] and take no bytes.

use std::collections::VecDeque;

use super::field::{FIELD_OVERHEAD, Field};
use super::name::Name;
use crate::limits::HPACK_TABLE_BYTES;

/// The dynamic table of a decoder.
#[derive(Debug)]
pub(super) struct Table {
    /// Names and values of the entries, each name before its value, the oldest entry's first; and before that what
    /// dropped entries have left.
    bytes: Vec<u8>,
    /// How many bytes were ever thrown away in front of `bytes`.
    gone: usize,
    /// The newest first.
    entries: VecDeque<Entry>,
    /// As RFC 7541 §4.1 counts: `size <= size_max <= HPACK_TABLE_BYTES`.
    size: usize,
    size_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Where its bytes begin, counted from the first byte that was ever put in.
    start: usize,
    name_bytes: u16,
    value_bytes: u16,
    name: Name,
    is_well_formed: bool,
}

impl Table {
    pub(super) fn new() -> Table {
        let (size, size_max) = (0, HPACK_TABLE_BYTES);
        Table { bytes: Vec::new(), gone: 0, entries: VecDeque::new(), size, size_max }
    }

    /// The entry of this number, of which 0 is the newest.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<Field<'_>> {
        let entry = self.entries.get(number)?;
        let (name, value) =
            self.bytes.get(self.place(entry)..)?.split_at_checked(entry.stored_name_bytes())?;
        let name_text = if entry.name == Name::Other { name } else { entry.name.text() };
        let value = value.get(..usize::from(entry.value_bytes))?;
        Some(Field { name: entry.name, name_text, value, is_well_formed: entry.is_well_formed })
    }

    /// Puts a field in, and drops the oldest until there is room; a field larger than the whole table leaves it empty
    /// (RFC 7541 §4.4).
    pub(super) fn insert(&mut self, field: &Field<'_>) {
        let size = field.size();
        self.drop_to(self.size_max.saturating_sub(size));
        let (Ok(name_bytes), Ok(value_bytes)) =
            (field.name_text.len().try_into(), field.value.len().try_into())
        else {
            return;
        };
        if size > self.size_max {
            return;
        }
        let (name, is_well_formed) = (field.name, field.is_well_formed);
        let mut entry = Entry { start: 0, name_bytes, value_bytes, name, is_well_formed };
        self.make_room(entry.stored_name_bytes() + field.value.len());
        entry.start = self.gone.wrapping_add(self.bytes.len());
        if name == Name::Other {
            self.bytes.extend_from_slice(field.name_text);
        }
        self.bytes.extend_from_slice(field.value);
        self.entries.push_front(entry);
        self.size += size;
    }

    /// Sets how much may be in it, and drops the oldest until it is no more.
    pub(super) fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.drop_to(size_max);
    }

    fn drop_to(&mut self, size_max: usize) {
        while self.size > size_max {
            let Some(entry) = self.entries.pop_back() else { break };
            self.size -= usize::from(entry.name_bytes) + usize::from(entry.value_bytes) + FIELD_OVERHEAD;
        }
    }

    /// Makes sure that so many bytes can be appended. What dropped entries have left is given up once it is more than
    /// half: so a byte is moved once for each that is put in, and the buffer stays below twice the limit.
    fn make_room(&mut self, bytes: usize) {
        if self.bytes.len() + bytes <= self.bytes.capacity() {
            return;
        }
        let dead = self.entries.back().map_or(self.bytes.len(), |oldest| self.place(oldest));
        if dead * 2 >= self.bytes.len() {
            self.bytes.drain(..dead);
            self.gone = self.gone.wrapping_add(dead);
        }
        let wanted = self.bytes.len() + bytes;
        if wanted > self.bytes.capacity() {
            let capacity = (2 * self.bytes.capacity()).max(wanted).max(FIRST_BYTES);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    #[cfg(test)]
    pub(super) fn allocated_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Where an entry begins in `bytes`.
    #[inline]
    fn place(&self, entry: &Entry) -> usize {
        entry.start.wrapping_sub(self.gone)
    }
}

impl Entry {
    /// How many bytes of `bytes` the name takes.
    #[inline]
    fn stored_name_bytes(&self) -> usize {
        if self.name == Name::Other { usize::from(self.name_bytes) } else { 0 }
    }
}

/// Bytes that the first field makes room for: a browser's fields take some six hundred.
const FIRST_BYTES: usize = 128;
