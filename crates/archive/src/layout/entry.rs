//! Container records, consisting of a key and data.
//!
//! We check all numbers against the file before we use them.

use super::RecordKind;
use super::format::Format;
use super::record::Extent;
use crate::Corrupt;

/// A record of the container.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The data.
    pub data: &'a [u8],
    /// Position of the record in the file, in bytes.
    pub position: u64,
    /// Position of its data in the file, in bytes.
    pub data_position: u64,
}

impl<'a> Entry<'a> {
    /// Reads the record at `position`.
    #[inline]
    pub(crate) fn at(file: &'a [u8], format: Format, position: u64) -> Result<Entry<'a>, Corrupt> {
        let corrupt = Corrupt { what: "a record", offset: position };
        let (key_bytes, data_bytes) = format.pair(file, position).ok_or(corrupt)?;
        let key_at = position + format.record_header_bytes();
        let key = slice(file, Extent { position: key_at, length: key_bytes }).ok_or(corrupt)?;
        // This cannot overflow because the key is inside the file.
        let data_position = key_at + key_bytes;
        let data = slice(file, Extent { position: data_position, length: data_bytes }).ok_or(corrupt)?;
        Ok(Entry { key, data, position, data_position })
    }

    /// Returns which kind of record it is.
    #[must_use]
    pub fn kind(&self) -> RecordKind<'a> {
        RecordKind::from_key(self.key)
    }

    /// Returns where the record ends and the next one starts.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.data_position + self.data.len() as u64
    }
}

/// Returns the bytes of an extent, or `None` if it is not completely inside the file.
#[inline]
pub(crate) fn slice(file: &[u8], extent: Extent) -> Option<&[u8]> {
    let start = usize::try_from(extent.position).ok()?;
    let length = usize::try_from(extent.length).ok()?;
    file.get(start..)?.get(..length)
}
