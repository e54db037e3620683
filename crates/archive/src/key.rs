//! The one normal form of a path, made from a source file's name or from a request's target.
//!
//! A key begins with `/`, is percent-decoded once, and has neither empty nor dot segments (RFC 3986
//! §5.2.4, §6.2.2). A path ends with `/` exactly if its key does. It is never made in any other way, so
//! that all spellings of one path find the same record, on every protocol.
//!
//! The one surprise: an encoded slash (`%2F`) is data, not a separator, and no file name can hold it;
//! it is kept as the byte 0, which no file name can hold either and a request may not send.

use cannery_base::swar::{WORD_BYTES, first_eq_mask, first_lt_mask, repeat};

/// The longest key, in bytes: as long as the longest request target that the server reads.
pub const KEY_BYTES_MAX: usize = 8 * 1024;

/// Stands in a key for an encoded slash.
const ENCODED_SLASH: u8 = 0;

/// A path in its normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key<'a>(&'a [u8]);

/// Why a target is not a path. The fault is the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not begin with `/`.
    #[error("the path does not begin with `/`")]
    NotAbsolute,
    /// A `%` without two hexadecimal digits behind it.
    #[error("a `%` is not followed by two hexadecimal digits")]
    Escape,
    /// It holds the byte 0, encoded or not.
    #[error("the path holds the byte 0")]
    Nul,
    /// Longer than [`KEY_BYTES_MAX`].
    #[error("the path is longer than {KEY_BYTES_MAX} bytes")]
    TooLong,
}

/// Room for one key, made once and used again for each request that needs it.
pub struct KeyBuffer(Box<[u8; KEY_BYTES_MAX]>);

impl KeyBuffer {
    /// Room for one key.
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
    /// The key of the site's root.
    pub const ROOT: Key<'static> = Key(b"/");

    /// The key that a request's target is as it stands. Nothing says nothing: see [`Key::from_target`] for what stands
    /// before `?`. Most targets are keys.
    #[must_use]
    #[inline(always)]
    pub fn from_plain_target(target: &'a [u8]) -> Option<Key<'a>> {
        let is_key = target.first() == Some(&b'/') && target.len() <= KEY_BYTES_MAX && is_plain(target);
        is_key.then_some(Key(target))
    }

    /// The key of a request target's path: what stands before `?`.
    ///
    /// Most targets are in normal form already and are borrowed; the others are written into `buffer`.
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

    /// The key of a source file or folder: its path in the source folder, `/` between the names, no `/`
    /// before the first. A folder's ends with `/`.
    pub fn from_file(path: &[u8], buffer: &'a mut KeyBuffer) -> Result<Key<'a>, PathError> {
        let room = buffer.0.get_mut(..=path.len()).ok_or(PathError::TooLong)?;
        if path.contains(&0) {
            return Err(PathError::Nul);
        }
        room[0] = b'/';
        room[1..].copy_from_slice(path);
        Ok(Key(room))
    }

    /// A key made of parts that were keys: what a rule puts together from its captures.
    ///
    /// The captures of a path are decoded already, so nothing is decoded again; segments are resolved.
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

    /// The bytes of the key.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether the path names a folder.
    #[must_use]
    pub fn is_directory(self) -> bool {
        self.0.ends_with(b"/")
    }

    /// The other spelling: `/folder` for `/folder/`, nothing for the root.
    #[must_use]
    pub fn without_slash(self) -> Option<Key<'a>> {
        self.0.strip_suffix(b"/").filter(|rest| !rest.is_empty()).map(Key)
    }

    /// The last segment: a file's name, empty for a folder.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// The bytes as a URL's path spells them (RFC 3986 §3.3), one piece at a time.
    pub fn percent_encode(self) -> impl Iterator<Item = UrlPiece<'a>> {
        percent_encode(self.0)
    }
}

/// A piece of a spelled path: a run of bytes that stand for themselves, or one that is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlPiece<'a> {
    /// These bytes.
    Plain(&'a [u8]),
    /// `%` and two digits.
    Escaped([u8; 3]),
}

impl UrlPiece<'_> {
    /// The bytes of the piece.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            UrlPiece::Plain(run) => run,
            UrlPiece::Escaped(escape) => escape,
        }
    }
}

/// The bytes of a key, or of a part of one, as a URL's path spells them.
pub fn percent_encode(bytes: &[u8]) -> impl Iterator<Item = UrlPiece<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (first, others) = rest.split_first()?;
        let plain = rest.iter().take_while(|byte| stands_for_itself(**byte)).count();
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

/// The `pchar`s of RFC 3986 §3.3 and the separator.
fn stands_for_itself(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte)
}

/// Whether a path is a key as it stands and holds nothing that means something in a target, eight bytes at a time.
///
/// What is doubtful is looked at by whoever knows what it is: bytes before `&`, of which `%`, `#` and 0 mean something and
/// few others occur, and `?`.
#[inline]
fn is_plain(path: &[u8]) -> bool {
    let (words, _) = path.as_chunks::<WORD_BYTES>();
    let Some(last) = path.last_chunk::<WORD_BYTES>() else { return is_plain_bytewise(path) };
    let mut slash_before = 0;
    let mut doubtful = 0;
    // The last word overlaps those before it, so that no byte is left. Of its first byte and the one before it, all
    // is known by then.
    for (number, word) in words.iter().chain([last]).enumerate() {
        let word = u64::from_le_bytes(*word);
        // A flag that is wrong stands above one that is right, and only where a dot follows the slash.
        let slashes = first_eq_mask(word, b'/');
        // The two differ in their lowest bit alone.
        let slashes_and_dots = first_eq_mask(word | repeat(1), b'/');
        let before = if number < words.len() { slash_before } else { 0 };
        doubtful |= (slashes << u8::BITS | before) & slashes_and_dots;
        doubtful |= first_lt_mask(word, b'&') | first_eq_mask(word, b'?');
        slash_before = slashes >> (u64::BITS - u8::BITS);
    }
    doubtful == 0
}

/// The same for any path, byte by byte.
#[inline]
fn is_plain_bytewise(path: &[u8]) -> bool {
    let mut before = 0;
    for byte in path {
        let is_doubtful = match byte {
            b'/' | b'.' => before == b'/',
            b'?' => true,
            byte => *byte < b'&',
        };
        if is_doubtful {
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

/// Puts a key together segment by segment, resolving those that are empty or dots.
struct Builder<'b> {
    room: &'b mut [u8],
    length: usize,
    /// Where the segment that is being written began: just behind a `/`. `segment_at <= length`.
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

    /// Drops the segment if it is `.` or `..` (and with the latter the one before it).
    fn resolve_dots(&mut self) {
        match &self.room[self.segment_at..self.length] {
            b"." => self.length = self.segment_at,
            b".." => {
                let parents = &self.room[..self.segment_at - 1];
                let parent_at = parents.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at);
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(target: &[u8]) -> Result<Vec<u8>, PathError> {
        Key::from_target(target, &mut KeyBuffer::new()).map(|key| key.bytes().to_vec())
    }

    #[test]
    fn every_spelling_of_a_path_has_one_key() {
        for spelling in [
            "/a/b.html",
            "//a/b.html",
            "/./a/b.html",
            "/a/../a/b.html",
            "/%61/b%2Ehtml",
            "/x/%2e%2E/a//./b.html",
            "/../a/b.html",
        ] {
            assert_eq!(key(spelling.as_bytes()).unwrap(), b"/a/b.html", "{spelling}");
        }
    }

    proptest! {
        #[test]
        fn what_is_plain_is_so_by_words_and_by_bytes(path in "[/.%?#!&0a\\x00-]{0,40}") {
            prop_assert_eq!(is_plain(path.as_bytes()), is_plain_bytewise(path.as_bytes()));
        }

        #[test]
        fn a_plain_target_is_the_key_that_its_normal_form_is(target in "/[/.%?#!a\\x00-]{0,40}") {
            if let Some(plain) = Key::from_plain_target(target.as_bytes()) {
                let mut room = [0; KEY_BYTES_MAX];
                prop_assert_eq!(Ok(plain), normalize(target.as_bytes(), &mut room));
            }
        }
    }

    #[test]
    fn what_is_not_plain_is_found_in_every_place() {
        for length in 2..40 {
            for place in 1..length {
                for fault in ["//", "/.", "%", "?", "#", "\0"] {
                    let mut path = vec![b'a'; length];
                    path[0] = b'/';
                    path.splice(place.., fault.bytes().chain([b'b'; 9])).for_each(drop);
                    assert!(!is_plain(&path[..place + fault.len()]), "{fault:?} at the end, {place}");
                    assert!(!is_plain(&path), "{fault:?} at {place}");
                }
            }
        }
    }

    #[test]
    fn folders_keep_their_slash() {
        for (target, expected) in [
            ("/", "/"),
            ("/..", "/"),
            ("/.", "/"),
            ("//", "/"),
            ("/a/", "/a/"),
            ("/a/.", "/a/"),
            ("/a//", "/a/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../", "/a/"),
            ("/a/b/../c", "/a/c"),
            ("/...", "/..."),
            ("/.a", "/.a"),
        ] {
            assert_eq!(key(target.as_bytes()).unwrap(), expected.as_bytes(), "{target}");
        }
    }

    #[test]
    fn an_encoded_slash_separates_nothing() {
        assert_eq!(key(b"/a%2Fb").unwrap(), b"/a\0b");
        assert_eq!(key(b"/a%2f..%2fb").unwrap(), b"/a\0..\0b");
        let mut buffer = KeyBuffer::new();
        let spelled: Vec<u8> = Key::from_target(b"/a%2Fb", &mut buffer)
            .unwrap()
            .percent_encode()
            .flat_map(|piece| piece.bytes().to_vec())
            .collect();
        assert_eq!(spelled, b"/a%2Fb");
    }

    #[test]
    fn a_path_is_decoded_once() {
        assert_eq!(key(b"/100%2525").unwrap(), b"/100%25");
    }

    #[test]
    fn what_is_no_path_is_refused() {
        assert_eq!(key(b""), Err(PathError::NotAbsolute));
        assert_eq!(key(b"a"), Err(PathError::NotAbsolute));
        assert_eq!(key(b"/%"), Err(PathError::Escape));
        assert_eq!(key(b"/%4"), Err(PathError::Escape));
        assert_eq!(key(b"/%4g"), Err(PathError::Escape));
        assert_eq!(key(b"/a%00b"), Err(PathError::Nul));
        assert_eq!(key(&[b"/".as_slice(), &[b'a'; KEY_BYTES_MAX]].concat()), Err(PathError::TooLong));
    }

    #[test]
    fn the_longest_key_fits() {
        let longest = [b"/".as_slice(), &[b'a'; KEY_BYTES_MAX - 1]].concat();
        assert_eq!(key(&longest).unwrap(), longest);
        let long_escaped = [b"/%61".as_slice(), &[b'a'; KEY_BYTES_MAX - 4]].concat();
        assert_eq!(key(&long_escaped).unwrap().len(), KEY_BYTES_MAX - 2);
    }

    /// The slow twin: splits, decodes and joins with vectors.
    fn plain_key(target: &[u8]) -> Vec<u8> {
        let mut decoded = Vec::new();
        let mut bytes = target.iter().copied();
        while let Some(byte) = bytes.next() {
            if byte == b'%' {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                let value = u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap();
                decoded.push(if value == b'/' { 0 } else { value });
            } else {
                decoded.push(byte);
            }
        }
        let mut segments: Vec<&[u8]> = Vec::new();
        let parts: Vec<&[u8]> = decoded.split(|byte| *byte == b'/').skip(1).collect();
        let folder = matches!(parts.last(), Some(&(b"" | b"." | b"..")));
        for part in parts {
            match part {
                b"" | b"." => {}
                b".." => drop(segments.pop()),
                part => segments.push(part),
            }
        }
        let mut path = [b"/".as_slice(), &segments.join(&b'/')].concat();
        if folder && !segments.is_empty() {
            path.push(b'/');
        }
        path
    }

    proptest! {
        #[test]
        fn agrees_with_the_slow_twin(target in "/([/.ab]|%2e|%2F|%41|\\.\\./){0,24}") {
            prop_assert_eq!(key(target.as_bytes()).unwrap(), plain_key(target.as_bytes()));
        }

        #[test]
        fn a_key_is_its_own_key(target in "/[ -~]{0,40}") {
            if let Ok(once) = key(target.as_bytes()) {
                let spelled: Vec<u8> = percent_encode(&once).flat_map(|piece| piece.bytes().to_vec()).collect();
                prop_assert_eq!(key(&spelled).unwrap(), once);
            }
        }

        #[test]
        fn any_bytes_are_a_key_or_refused(target in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(key) = key(&target) {
                prop_assert!(key.starts_with(b"/"));
                prop_assert!(!key.windows(2).any(|pair| pair == b"//"));
            }
        }
    }
}
