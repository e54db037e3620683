//! The container: D. J. Bernstein's constant database, in its two widths.
//!
//! `cdb` (<https://cr.yp.to/cdb/cdb.txt>): all quantities are 32-bit, little-endian. A header of 256
//! (position, length) pairs; records of key length, data length, key, data; then 256 hash tables of
//! (hash, position) slots. `cdb64` is the same structure with 64-bit quantities and a 64-bit hash.
//! This file never knows what a record means.

use super::hash::Hash;

/// The two widths of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// 32-bit quantities: files up to 4 GiB, readable by every tool that knows CDB.
    Cdb,
    /// 64-bit quantities.
    Cdb64,
}

/// Hash tables of a constant database.
pub(crate) const TABLES: usize = 256;

impl Format {
    /// Bytes of one quantity: a position, a length or a hash.
    #[must_use]
    pub const fn quantity_bytes(self) -> u64 {
        match self {
            Format::Cdb => 4,
            Format::Cdb64 => 8,
        }
    }

    /// Bytes of the header: a position and a length for each of 256 tables.
    #[must_use]
    pub const fn header_bytes(self) -> u64 {
        2 * self.quantity_bytes() * TABLES as u64
    }

    /// Bytes before a record's key: the lengths of key and data.
    #[must_use]
    pub const fn record_header_bytes(self) -> u64 {
        2 * self.quantity_bytes()
    }

    /// Bytes of a hash table's slot: hash and position.
    #[must_use]
    pub const fn slot_bytes(self) -> u64 {
        2 * self.quantity_bytes()
    }

    /// The largest position that a quantity can hold.
    #[must_use]
    pub const fn position_max(self) -> u64 {
        match self {
            Format::Cdb => u32::MAX as u64,
            Format::Cdb64 => u64::MAX,
        }
    }

    /// The hash as this width stores it: the 32-bit one is the 64-bit one's lower half, because each
    /// step of the function carries upwards only.
    #[must_use]
    #[inline]
    pub(crate) fn stored_hash(self, hash: Hash) -> u64 {
        match self {
            Format::Cdb => hash.value() & u64::from(u32::MAX),
            Format::Cdb64 => hash.value(),
        }
    }

    /// Two quantities from the front of `bytes`, if they are there: a table of the header, the header
    /// of a record, or a slot.
    #[inline]
    pub(crate) fn pair(self, bytes: &[u8], position: u64) -> Option<(u64, u64)> {
        let start = usize::try_from(position).ok()?;
        match self {
            Format::Cdb => {
                let (first, rest) = bytes.get(start..)?.split_first_chunk::<4>()?;
                let second = rest.first_chunk::<4>()?;
                Some((u32::from_le_bytes(*first).into(), u32::from_le_bytes(*second).into()))
            }
            Format::Cdb64 => {
                let (first, rest) = bytes.get(start..)?.split_first_chunk::<8>()?;
                let second = rest.first_chunk::<8>()?;
                Some((u64::from_le_bytes(*first), u64::from_le_bytes(*second)))
            }
        }
    }

    /// Appends one quantity. The caller has made sure that it fits (see [`Format::position_max`]).
    pub(crate) fn put(self, out: &mut Vec<u8>, quantity: u64) {
        debug_assert!(quantity <= self.position_max());
        let bytes = quantity.to_le_bytes();
        out.extend_from_slice(match self {
            Format::Cdb => &bytes[..4],
            Format::Cdb64 => &bytes,
        });
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::Cdb => "cdb",
            Format::Cdb64 => "cdb64",
        })
    }
}
