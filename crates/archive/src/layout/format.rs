//! The container is D. J. Bernstein's constant database, in two widths.
//!
//! In `cdb` (<https://cr.yp.to/cdb/cdb.txt>), all quantities are 32-bit, little-endian. A file starts with a header of 256
//! (position, length) pairs, followed by the records (key length, data length, key, data) and by 256 hash tables, whose slots are
//! (hash, position) pairs. `cdb64` is the same with 64-bit quantities and a 64-bit hash.

use super::hash::Hash;

/// The two widths of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// 32-bit quantities. Files can have up to 4 GiB, and any CDB tool can read them.
    Cdb,
    /// 64-bit quantities.
    Cdb64,
}

/// Number of hash tables in a constant database.
pub(crate) const TABLES: usize = 256;

impl Format {
    /// Returns the size of a quantity (a position, length or hash), in bytes.
    #[must_use]
    pub const fn quantity_bytes(self) -> u64 {
        match self {
            Format::Cdb => 4,
            Format::Cdb64 => 8,
        }
    }

    /// Returns the size of the header, in bytes: a position and a length for each of 256 tables.
    #[must_use]
    pub const fn header_bytes(self) -> u64 {
        2 * self.quantity_bytes() * TABLES as u64
    }

    /// Returns the number of bytes before a record's key, where the key length and the data length are.
    #[must_use]
    pub const fn record_header_bytes(self) -> u64 {
        2 * self.quantity_bytes()
    }

    /// Returns the size of a hash table slot, in bytes. A slot consists of a hash and a position.
    #[must_use]
    pub const fn slot_bytes(self) -> u64 {
        2 * self.quantity_bytes()
    }

    /// Returns the largest position possible.
    #[must_use]
    pub const fn position_max(self) -> u64 {
        match self {
            Format::Cdb => u32::MAX as u64,
            Format::Cdb64 => u64::MAX,
        }
    }

    /// Returns the hash as stored in this width.
    ///
    /// The 32-bit hash is simply the lower half of the 64-bit hash, because carries only go upwards.
    #[must_use]
    #[inline]
    pub(crate) fn stored_hash(self, hash: Hash) -> u64 {
        match self {
            Format::Cdb => hash.value() & u64::from(u32::MAX),
            Format::Cdb64 => hash.value(),
        }
    }

    /// Reads two quantities at `position`: a table reference in the header, the lengths of a record, or a slot.
    ///
    /// Returns `None` if they are not completely inside `bytes`.
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

    /// Appends a quantity. It must not exceed [`Format::position_max`].
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
