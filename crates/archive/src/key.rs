//! Keys: the normal form of paths, whether they come from file names or from request targets.
//!
//! A key starts with `/`, has been percent-decoded *once*, and does not contain empty segments or dot segments (RFC 3986 §5.2.4,
//! §6.2.2). It ends with `/` if and only if the path does. We use this module for all paths to ensure that equivalent URLs find the
//! same record with every protocol.
//!
//! An encoded slash (`%2F`) is data, not a separator. In keys, it is represented by the byte 0. There can be no confusion because
//! file names cannot contain NUL and we refuse requests that do.

use std::fmt;

use cannery_base::swar::{WORD_BYTES, first_eq_mask, first_lt_mask, repeat};

/// Maximum length of a key in bytes. This is also the limit for request targets.
pub const KEY_BYTES_MAX: usize = 8 * 1024;

/// Represents an encoded slash in a key.
const ENCODED_SLASH: u8 = 0;

/// A path in its normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key<'a>(&'a [u8]);

/// The path in a request target is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// The path does not start with `/`.
    NotAbsolute,
    /// A `%` is not followed by two hexadecimal digits.
    Escape,
    /// The path contains the byte 0, encoded or not.
    Nul,
    /// The path is longer than [`KEY_BYTES_MAX`].
    TooLong,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathError::NotAbsolute => f.write_str("the path does not start with `/`"),
            PathError::Escape => f.write_str("a `%` is not followed by two hexadecimal digits"),
            PathError::Nul => f.write_str("the path contains the byte 0"),
            PathError::TooLong => write!(f, "the path is longer than {KEY_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for PathError {}

/// A buffer for one key. Each worker reuses its buffer for many requests.
pub struct KeyBuffer(Box<[u8; KEY_BYTES_MAX]>);

impl KeyBuffer {
    /// Allocates the buffer.
    #[must_use]
    pub fn new() -> KeyBuffer {
        KeyBuffer(Box::new([0; KEY_BYTES_MAX]))
    }
}

impl Default for KeyBuffer {
    fn default() -> Self {
        KeyBuffer::new()
    }
}

impl<'a> Key<'a> {
    /// The key for a site's root.
    pub const ROOT: Key<'static> = Key(b"/");

    /// Returns the key for a request target without a query that is already in normal form, as most targets are.
    ///
    /// If the result is `None`, try [`Key::from_target`].
    #[must_use]
    #[inline(always)]
    pub fn from_plain_target(target: &'a [u8]) -> Option<Key<'a>> {
        let is_key = target.first() == Some(&b'/') && target.len() <= KEY_BYTES_MAX && is_plain(target);
        is_key.then_some(Key(target))
    }

    /// Normalizes the path of a request target, that is, everything before the `?`.
    ///
    /// We can borrow paths that are already in normal form (which is most of them). Others are written to `buffer`.
    ///
    /// # Errors
    /// Returns [`PathError`] if the path is malformed or too long.
    #[inline]
    pub fn from_target(path: &'a [u8], buffer: &'a mut KeyBuffer) -> Result<Key<'a>, PathError> {
        if path.first() != Some(&b'/') {
            return Err(PathError::NotAbsolute);
        }
        if path.len() > KEY_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        if is_plain(path) { Ok(Key(path)) } else { normalize(path, &mut buffer.0[..]) }
    }

    /// Returns the key for a source file or directory.
    ///
    /// `path` should be relative to the source directory, with `/` as a separator. Directories must end with `/`.
    ///
    /// # Errors
    /// Returns [`PathError`] if the path contains the byte 0 or is too long.
    pub fn from_file(path: &[u8], buffer: &'a mut KeyBuffer) -> Result<Key<'a>, PathError> {
        let room = buffer.0.get_mut(..=path.len()).ok_or(PathError::TooLong)?;
        if path.contains(&0) {
            return Err(PathError::Nul);
        }
        room[0] = b'/';
        room[1..].copy_from_slice(path);
        Ok(Key(room))
    }

    /// Joins parts of keys, for example a rule's captures.
    ///
    /// This resolves empty segments and dot segments, but will not decode the parts again.
    ///
    /// # Errors
    /// Returns [`PathError::TooLong`] if the result is too long.
    pub fn from_parts<'p>(
        parts: impl IntoIterator<Item = &'p [u8]>,
        buffer: &'a mut KeyBuffer,
    ) -> Result<Key<'a>, PathError> {
        let mut builder = Builder::new(&mut buffer.0[..]);
        for byte in parts.into_iter().flatten() {
            match *byte {
                b'/' => builder.end_segment(),
                byte => builder.push(byte),
            }
        }
        builder.finish()
    }

    /// Returns the key as bytes.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns `true` if the path ends with `/`.
    #[must_use]
    pub fn is_directory(self) -> bool {
        self.0.ends_with(b"/")
    }

    /// Returns `/directory` when given `/directory/`, and `None` for the root and for keys without a final slash.
    #[must_use]
    pub fn without_slash(self) -> Option<Key<'a>> {
        self.0.strip_suffix(b"/").filter(|rest| !rest.is_empty()).map(Key)
    }

    /// Returns the last segment: the file name, or nothing for a directory.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// Percent-encodes the key for the path of a URL (RFC 3986 §3.3), one piece at a time.
    pub fn percent_encode(self) -> impl Iterator<Item = UrlPiece<'a>> {
        percent_encode(self.0)
    }
}

/// A piece of a percent-encoded path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlPiece<'a> {
    /// Bytes that do not need escaping.
    Plain(&'a [u8]),
    /// An escaped byte, for example `%20`.
    Escaped([u8; 3]),
}

impl UrlPiece<'_> {
    /// Returns the piece as bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            UrlPiece::Plain(run) => run,
            UrlPiece::Escaped(escape) => escape,
        }
    }
}

/// Percent-encodes a key or a part of it, for use in a URL path (RFC 3986 §3.3).
pub fn percent_encode(bytes: &[u8]) -> impl Iterator<Item = UrlPiece<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (first, others) = rest.split_first()?;
        let plain = rest.iter().take_while(|byte| is_path_byte(**byte)).count();
        if plain > 0 {
            let (run, others) = rest.split_at(plain);
            rest = others;
            return Some(UrlPiece::Plain(run));
        }
        rest = others;
        Some(UrlPiece::Escaped(escape(if *first == ENCODED_SLASH { b'/' } else { *first })))
    })
}

fn escape(byte: u8) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// Returns `true` for `pchar` (RFC 3986 §3.3) and for the separator.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte)
}

/// Returns `true` if a path is definitely in normal form, without a query. Looks at eight bytes at a time.
///
/// If it returns `false`, the path only needs a closer look. For simplicity, we reject all bytes below `&`: some of them have a
/// meaning in targets (`%`, `#` and 0), and the others are rare.
#[inline]
fn is_plain(path: &[u8]) -> bool {
    let (words, _) = path.as_chunks::<WORD_BYTES>();
    let Some(last) = path.last_chunk::<WORD_BYTES>() else { return is_plain_bytewise(path) };

    let mut slash_before = 0;
    let mut rejected = 0;
    // Let the last word overlap the one before to avoid handling leftover bytes. The byte before its first byte need not be
    // checked, as previous words have covered this pair.
    for (number, word) in words.iter().chain([last]).enumerate() {
        let word = u64::from_le_bytes(*word);
        // Above the first correct flag, others may be wrong, but only for a dot after a slash. Such paths should be rejected
        // anyway.
        let slashes = first_eq_mask(word, b'/');
        // `/` and `.` only differ in the lowest bit.
        let slashes_and_dots = first_eq_mask(word | repeat(1), b'/');
        let before = if number < words.len() { slash_before } else { 0 };
        rejected |= (slashes << u8::BITS | before) & slashes_and_dots;
        rejected |= first_lt_mask(word, b'&') | first_eq_mask(word, b'?');
        slash_before = slashes >> (u64::BITS - u8::BITS);
    }
    rejected == 0
}

/// Like [`is_plain`], but for paths that are shorter than a word.
#[inline]
fn is_plain_bytewise(path: &[u8]) -> bool {
    let mut before = 0;
    for byte in path {
        let is_rejected = match byte {
            b'/' | b'.' => before == b'/',
            b'?' => true,
            byte => *byte < b'&',
        };
        if is_rejected {
            return false;
        }
        before = *byte;
    }
    true
}

#[cold]
fn normalize<'b>(path: &[u8], room: &'b mut [u8]) -> Result<Key<'b>, PathError> {
    let mut builder = Builder::new(room);
    let mut rest = path;

    while let Some((first, others)) = rest.split_first() {
        rest = others;
        match first {
            b'/' => builder.end_segment(),
            0 => return Err(PathError::Nul),
            b'%' => {
                let (digits, others) = rest.split_first_chunk().ok_or(PathError::Escape)?;
                rest = others;
                builder.push(match unescape(*digits).ok_or(PathError::Escape)? {
                    0 => return Err(PathError::Nul),
                    b'/' => ENCODED_SLASH,
                    byte => byte,
                });
            }
            byte => builder.push(*byte),
        }
    }

    builder.finish()
}

fn unescape([high, low]: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Builds a key segment by segment, resolving empty segments and dot segments.
struct Builder<'b> {
    room: &'b mut [u8],
    length: usize,
    /// Start of the current segment, after a `/`. Invariant: `segment_at <= length`.
    segment_at: usize,
    overflow: bool,
}

impl<'b> Builder<'b> {
    fn new(room: &'b mut [u8]) -> Self {
        let mut builder = Builder { room, length: 0, segment_at: 0, overflow: false };
        builder.push(b'/');
        builder.segment_at = 1;
        builder
    }

    fn push(&mut self, byte: u8) {
        match self.room.get_mut(self.length) {
            Some(place) => {
                *place = byte;
                self.length += 1;
            }
            None => self.overflow = true,
        }
    }

    /// Removes the current segment if it is `.`, and also the one before it if it is `..`.
    fn resolve_dots(&mut self) {
        match &self.room[self.segment_at..self.length] {
            b"." => self.length = self.segment_at,
            b".." => {
                let parents = &self.room[..self.segment_at - 1];
                let parent_at = parents.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                self.length = parent_at + 1;
                self.segment_at = self.length;
            }
            _ => {}
        }
    }

    fn end_segment(&mut self) {
        self.resolve_dots();
        if self.length > self.segment_at {
            self.push(b'/');
            self.segment_at = self.length;
        }
    }

    fn finish(mut self) -> Result<Key<'b>, PathError> {
        self.resolve_dots();
        if self.overflow { Err(PathError::TooLong) } else { Ok(Key(&self.room[..self.length])) }
    }
}

#[cfg(test)]
mod tests;
