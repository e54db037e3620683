//! File layout, byte by byte. `FORMAT.md` specifies the same, and a test compares the two.
//!
//! Each submodule encodes and decodes one structure. Outside this module, offsets should not appear anywhere.

// The container: its two widths, its hash, and records that consist of key and data.
pub(crate) mod coding;
pub(crate) mod entry;
pub(crate) mod format;
pub(crate) mod hash;
pub(crate) mod padding;

// The first record.
pub(crate) mod facts;

// Responses: paths, heads, and patterns and templates used in them.
pub(crate) mod head;
pub(crate) mod hpack;
pub(crate) mod piece;
pub(crate) mod qpack;
pub(crate) mod record;

// Directories: fallback pages, error pages and rules, with an index for the rules.
pub(crate) mod header_rule;
pub(crate) mod rule_index;
pub(crate) mod scope;

/// Keys that are not paths. Since paths start with `/`, the two can never collide.
pub mod name {
    /// Key of the first record, which contains the [`crate::Facts`].
    pub const FACTS: &[u8] = b"cannery";
    /// Key of the manifest, a JSON document for people and tools (never read by the server).
    pub const MANIFEST: &[u8] = b"manifest";
    /// First byte of a body's key, followed by the body's BLAKE3 digest (32 bytes).
    pub const BODY: u8 = b'B';
    /// First byte of a head's key, followed by an ordinal (u32, little-endian).
    pub const HEAD: u8 = b'H';
    /// First byte of a plain head record's key, followed by the ordinal (u32, little-endian) of a head with fields from `_headers`.
    /// The record refers to the same head without these fields.
    pub const PLAIN_HEAD: u8 = b'h';
    /// First byte of a padding record's key, followed by an ordinal (u32, little-endian). Padding aligns the next body to a page.
    pub const PADDING: u8 = b'P';
    /// First byte of a source record's key, followed by the file's path in the source directory. There are source records for files
    /// that are not served under their own name, e.g. `_redirects`.
    pub const SOURCE: u8 = b'S';
}

/// The kind of a record, according to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind<'a> {
    /// The facts. They are the first record.
    Facts,
    /// The manifest.
    Manifest,
    /// A body, with its digest.
    Body(crate::Digest),
    /// A response head, with its ordinal.
    Head(u32),
    /// The position of a head without fields from `_headers`, along with the ordinal of the same head with these fields.
    PlainHead(u32),
    /// Padding before a large body, with its ordinal.
    Padding(u32),
    /// A source file that is not served under its own name, with its path in the source directory.
    Source(&'a [u8]),
    /// A path. This is the complete key, including the host if there is one.
    Path(&'a [u8]),
    /// The scope of a directory. This is the directory's key, which ends with `/`.
    Scope(&'a [u8]),
    /// Not defined in this version of the format.
    Unknown,
}

impl<'a> RecordKind<'a> {
    /// Returns which kind of record has this key.
    #[must_use]
    pub fn from_key(key: &'a [u8]) -> RecordKind<'a> {
        match key {
            name::FACTS => RecordKind::Facts,
            name::MANIFEST => RecordKind::Manifest,
            [b'/', .., b'/', b'/'] | b"//" => RecordKind::Scope(&key[..key.len() - 1]),
            [b'/', ..] => RecordKind::Path(key),
            [name::SOURCE, path @ ..] => RecordKind::Source(path),
            [name::BODY, digest @ ..] => match digest.try_into() {
                Ok(digest) => RecordKind::Body(crate::Digest(digest)),
                Err(_) => RecordKind::Unknown,
            },
            [name::HEAD, ordinal @ ..] => match ordinal.try_into() {
                Ok(ordinal) => RecordKind::Head(u32::from_le_bytes(ordinal)),
                Err(_) => RecordKind::Unknown,
            },
            [name::PLAIN_HEAD, ordinal @ ..] => match ordinal.try_into() {
                Ok(ordinal) => RecordKind::PlainHead(u32::from_le_bytes(ordinal)),
                Err(_) => RecordKind::Unknown,
            },
            [name::PADDING, ordinal @ ..] => match ordinal.try_into() {
                Ok(ordinal) => RecordKind::Padding(u32::from_le_bytes(ordinal)),
                Err(_) => RecordKind::Unknown,
            },
            _ => RecordKind::Unknown,
        }
    }
}

/// Splits the key of a path or scope into host and path. On the default site, there is no host.
#[must_use]
pub fn split_host(key: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(rest) = key.strip_prefix(b"//") else { return (None, key) };
    // Hosts can't be empty: `//` alone is the key of the default site's root scope.
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    if end == 0 { (None, key) } else { (Some(&rest[..end]), &rest[end..]) }
}

/// Length of a body's key, in bytes.
pub(crate) const BODY_KEY_BYTES: usize = 1 + crate::Digest::BYTES;

/// Length of a key that consists of one letter and an ordinal, in bytes.
pub(crate) const ORDINAL_KEY_BYTES: usize = 1 + size_of::<u32>();

pub(crate) fn body_key(digest: &crate::Digest) -> [u8; BODY_KEY_BYTES] {
    let mut key = [name::BODY; BODY_KEY_BYTES];
    key[1..].copy_from_slice(&digest.0);
    key
}

pub(crate) fn head_key(ordinal: u32) -> [u8; ORDINAL_KEY_BYTES] {
    let [a, b, c, d] = ordinal.to_le_bytes();
    [name::HEAD, a, b, c, d]
}

pub(crate) fn plain_head_key(ordinal: [u8; 4]) -> [u8; ORDINAL_KEY_BYTES] {
    let [a, b, c, d] = ordinal;
    [name::PLAIN_HEAD, a, b, c, d]
}

pub(crate) fn padding_key(ordinal: u32) -> [u8; ORDINAL_KEY_BYTES] {
    let [a, b, c, d] = ordinal.to_le_bytes();
    [name::PADDING, a, b, c, d]
}

/// A cursor over the fields of a structure, used to decode all structures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    format: format::Format,
    /// Position of the structure in the file. Only used for errors.
    offset: u64,
    /// Name of the structure. Only used for errors.
    what: &'static str,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8], format: format::Format, offset: u64, what: &'static str) -> Self {
        Fields { rest: bytes, format, offset, what }
    }

    /// Returns the error for an invalid value in this structure.
    pub(crate) fn corrupt(&self) -> crate::Corrupt {
        crate::Corrupt { what: self.what, offset: self.offset }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], crate::Corrupt> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.corrupt())?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], crate::Corrupt> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| self.corrupt())?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, crate::Corrupt> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, crate::Corrupt> {
        Ok(u16::from_le_bytes(*self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, crate::Corrupt> {
        Ok(u32::from_le_bytes(*self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, crate::Corrupt> {
        Ok(u64::from_le_bytes(*self.array()?))
    }

    /// Reads a position or length, whose size depends on the format.
    pub(crate) fn quantity(&mut self) -> Result<u64, crate::Corrupt> {
        match self.format {
            format::Format::Cdb => Ok(u64::from(u32::from_le_bytes(*self.array()?))),
            format::Format::Cdb64 => Ok(u64::from_le_bytes(*self.array()?)),
        }
    }

    /// Reads three quantities with a single bounds check.
    #[inline]
    pub(crate) fn quantities(&mut self) -> Result<[u64; 3], crate::Corrupt> {
        match self.format {
            format::Format::Cdb => {
                let (quantities, _) = self.array::<12>()?.as_chunks();
                Ok(std::array::from_fn(|index| u32::from_le_bytes(quantities[index]).into()))
            }
            format::Format::Cdb64 => {
                let (quantities, _) = self.array::<24>()?.as_chunks();
                Ok(std::array::from_fn(|index| u64::from_le_bytes(quantities[index])))
            }
        }
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn skip_rest(&mut self) {
        self.rest = &[];
    }

    pub(crate) fn length(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn part(&mut self, length: usize) -> Result<Fields<'a>, crate::Corrupt> {
        Ok(Fields { rest: self.take(length)?, ..*self })
    }
}

/// Appends a 16-bit length and then the bytes. Read them with [`Fields::u16`] and [`Fields::take`].
pub(crate) fn put_bytes_u16(
    out: &mut Vec<u8>,
    what: &'static str,
    bytes: &[u8],
) -> Result<(), crate::WriteError> {
    out.extend_from_slice(&length_u16(what, bytes.len())?.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

pub(crate) fn length_u16(what: &'static str, length: usize) -> Result<u16, crate::WriteError> {
    let max = usize::from(u16::MAX);
    u16::try_from(length).map_err(|_| crate::WriteError::TooLong { what, max, got: length })
}

pub(crate) fn length_u8(what: &'static str, length: usize) -> Result<u8, crate::WriteError> {
    let max = usize::from(u8::MAX);
    u8::try_from(length).map_err(|_| crate::WriteError::TooLong { what, max, got: length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_split_into_host_and_path() {
        assert_eq!(split_host(b"/a/b"), (None, b"/a/b".as_slice()));
        assert_eq!(split_host(b"//h/a"), (Some(b"h".as_slice()), b"/a".as_slice()));
        assert_eq!(split_host(b"//h"), (Some(b"h".as_slice()), b"".as_slice()));
        assert_eq!(split_host(b"//"), (None, b"//".as_slice()));
        assert_eq!(split_host(b"/"), (None, b"/".as_slice()));
    }
}
