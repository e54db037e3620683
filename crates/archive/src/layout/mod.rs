//! The bytes of the file: which structure stands where. `FORMAT.md` says the same in words, and a test
//! holds the two together.
//!
//! Below this module stand the only lines of the project that know an offset. Never any logic beyond
//! encoding and decoding one structure.

pub(crate) mod entry;
pub(crate) mod facts;
pub(crate) mod format;
pub(crate) mod hash;
pub(crate) mod head;
pub(crate) mod header_rule;
pub(crate) mod hpack;
pub(crate) mod padding;
pub(crate) mod piece;
pub(crate) mod record;
pub(crate) mod rule_index;
pub(crate) mod scope;

/// The keys that are not paths. A path begins with `/`, so no path can be one of them.
pub mod name {
    /// Key of the first record: the [`crate::Facts`].
    pub const FACTS: &[u8] = b"cannery";
    /// Key of the manifest: JSON for people and tools, never read by the server.
    pub const MANIFEST: &[u8] = b"manifest";
    /// First byte of a body's key; its BLAKE3 digest follows (32 bytes).
    pub const BODY: u8 = b'B';
    /// First byte of a head's key; its ordinal follows (u32, little-endian).
    pub const HEAD: u8 = b'H';
    /// First byte of the key of the head without the fields of `_headers` that belongs to a head; the ordinal of that head
    /// follows (u32, little-endian).
    pub const PLAIN_HEAD: u8 = b'h';
    /// First byte of the key of padding, zeros that make the body behind them begin with a page; its ordinal follows
    /// (u32, little-endian).
    pub const PADDING: u8 = b'P';
    /// First byte of the key of a source file that is not served under its own name, such as
    /// `_redirects`; its path follows. The value is where its bytes lie.
    pub const SOURCE: u8 = b'S';
}

/// What a record is, told from its key alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind<'a> {
    /// The facts, in the first record.
    Facts,
    /// The manifest.
    Manifest,
    /// A body, under its digest.
    Body(crate::Digest),
    /// A response head, under its ordinal.
    Head(u32),
    /// Where the head is that a head was made from by adding the fields of `_headers`, under the ordinal of the latter.
    PlainHead(u32),
    /// Zeros before a large body, under their ordinal.
    Padding(u32),
    /// A source file that is not served under its own name: the path in the source folder.
    Source(&'a [u8]),
    /// A path: the key, with the host before it if it belongs to one.
    Path(&'a [u8]),
    /// What holds below a folder: the folder's key, which ends with `/`.
    Scope(&'a [u8]),
    /// None of ours.
    Unknown,
}

impl<'a> RecordKind<'a> {
    /// Tells what the record under `key` is.
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

/// The key of a path or a scope taken apart: the host whose site it is of, if any, and the path within.
#[must_use]
pub fn split_host(key: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(rest) = key.strip_prefix(b"//") else { return (None, key) };
    // No host is empty: `//` alone is the name of the default site's root scope.
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    if end == 0 { (None, key) } else { (Some(&rest[..end]), &rest[end..]) }
}

/// Bytes of a body's key.
pub(crate) const BODY_KEY_BYTES: usize = 1 + crate::Digest::BYTES;

/// Bytes of a key that ends with an ordinal.
pub(crate) const ORDINAL_KEY_BYTES: usize = 1 + size_of::<u32>();

/// The key of the body with this digest.
pub(crate) fn body_key(digest: &crate::Digest) -> [u8; BODY_KEY_BYTES] {
    let mut key = [name::BODY; BODY_KEY_BYTES];
    key[1..].copy_from_slice(&digest.0);
    key
}

/// The key of the head with this ordinal.
pub(crate) fn head_key(ordinal: u32) -> [u8; ORDINAL_KEY_BYTES] {
    let [a, b, c, d] = ordinal.to_le_bytes();
    [name::HEAD, a, b, c, d]
}

/// The key under which the plain head of the head with this ordinal is found.
pub(crate) fn plain_head_key(ordinal: [u8; 4]) -> [u8; ORDINAL_KEY_BYTES] {
    let [a, b, c, d] = ordinal;
    [name::PLAIN_HEAD, a, b, c, d]
}

/// The key of the padding with this ordinal.
pub(crate) fn padding_key(ordinal: u32) -> [u8; ORDINAL_KEY_BYTES] {
    let [a, b, c, d] = ordinal.to_le_bytes();
    [name::PADDING, a, b, c, d]
}

/// Reads little-endian numbers off the front of a value; the reading half of every structure here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    format: format::Format,
    /// Where the value's first byte stands in the file: for error messages only.
    offset: u64,
    what: &'static str,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8], format: format::Format, offset: u64, what: &'static str) -> Self {
        Fields { rest: bytes, format, offset, what }
    }

    /// The error to return when what was read makes no sense.
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

    /// A position or a length: as wide as the format's quantities.
    pub(crate) fn quantity(&mut self) -> Result<u64, crate::Corrupt> {
        match self.format {
            format::Format::Cdb => Ok(u64::from(u32::from_le_bytes(*self.array()?))),
            format::Format::Cdb64 => Ok(u64::from_le_bytes(*self.array()?)),
        }
    }

    /// Three of them, with one look at whether they are there.
    #[inline]
    pub(crate) fn quantities(&mut self) -> Result<[u64; 3], crate::Corrupt> {
        match self.format {
            format::Format::Cdb => {
                let (quantities, _) = self.array::<12>()?.as_chunks();
                Ok(std::array::from_fn(|place| u32::from_le_bytes(quantities[place]).into()))
            }
            format::Format::Cdb64 => {
                let (quantities, _) = self.array::<24>()?.as_chunks();
                Ok(std::array::from_fn(|place| u64::from_le_bytes(quantities[place])))
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

    /// A field of its own, of `length` bytes, to be read by the same rules.
    pub(crate) fn part(&mut self, length: usize) -> Result<Fields<'a>, crate::Corrupt> {
        Ok(Fields { rest: self.take(length)?, ..*self })
    }
}

/// Appends a length that must fit 16 bits, then the bytes; the writing half of [`Fields::u16`] + `take`.
pub(crate) fn put_long(out: &mut Vec<u8>, what: &'static str, bytes: &[u8]) -> Result<(), crate::WriteError> {
    out.extend_from_slice(&length_u16(what, bytes.len())?.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

/// `length` as the 16-bit number that the format holds.
pub(crate) fn length_u16(what: &'static str, length: usize) -> Result<u16, crate::WriteError> {
    let max = usize::from(u16::MAX);
    u16::try_from(length).map_err(|_| crate::WriteError::TooLong { what, max, got: length })
}

/// `length` as the 8-bit number that the format holds.
pub(crate) fn length_u8(what: &'static str, length: usize) -> Result<u8, crate::WriteError> {
    let max = usize::from(u8::MAX);
    u8::try_from(length).map_err(|_| crate::WriteError::TooLong { what, max, got: length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_comes_off_a_key() {
        assert_eq!(split_host(b"/a/b"), (None, b"/a/b".as_slice()));
        assert_eq!(split_host(b"//h/a"), (Some(b"h".as_slice()), b"/a".as_slice()));
        assert_eq!(split_host(b"//h"), (Some(b"h".as_slice()), b"".as_slice()));
        assert_eq!(split_host(b"//"), (None, b"//".as_slice()));
        assert_eq!(split_host(b"/"), (None, b"/".as_slice()));
    }
}
