//! Recognizes hashes in file names, and the shapes of names that build tools use.

use std::ops::Range;

/// Lengths of hashes in names.
const HASH_LENGTHS: std::ops::RangeInclusive<usize> = 8..=64;

/// Length of the base64url hashes of Vite, Rollup and esbuild.
pub(super) const BASE64URL_LENGTH: usize = 8;

/// Minimum length of a hash that is the whole name.
const WHOLE_NAME_LENGTH_MIN: usize = 16;

/// Looks for the part of a file name that looks like a hash rather than a word.
///
/// It must be preceded by a separator and followed by a dot.
pub(super) fn hash_in(name: &[u8]) -> Option<Range<usize>> {
    let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(end, _)| end);
    ends.filter(|end| *end > 0).find_map(|end| {
        let plain = name[..end].iter().rposition(is_separator).map_or(0, |before| before + 1)..end;
        if looks_hashed(&name[plain.clone()]) {
            return Some(plain);
        }

        // `-` and `_` are also base64url digits. We only consider this if there is a name before the hash.
        let start = end.checked_sub(BASE64URL_LENGTH).filter(|start| *start > 1)?;
        let token = &name[start..end];
        let letters: Vec<u8> = token.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
        let is_hash = is_token(token) && letters.len() >= 6 && is_mixed(&letters) && !is_word_or_date(token);
        (is_hash && is_separator(&name[start - 1])).then_some(start..end)
    })
}

fn is_separator(byte: &u8) -> bool {
    matches!(byte, b'.' | b'-' | b'_')
}

/// Returns `true` if all bytes are base64url digits, of which all other encodings use a subset.
pub(super) fn is_token(token: &[u8]) -> bool {
    token.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Whether letters and digits are probably a hash, i.e. not a word, number, date or version.
fn looks_hashed(token: &[u8]) -> bool {
    let is_alphanumeric = token.iter().all(u8::is_ascii_alphanumeric);
    let is_base32 = || token.len() == 8 && token.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7'));
    is_alphanumeric
        && HASH_LENGTHS.contains(&token.len())
        && !is_number(token)
        && (is_mixed(token) || is_base32())
        && !is_word_or_date(token)
}

/// Returns `true` for numbers and for dimensions of an image such as `1920x1080`.
fn is_number(token: &[u8]) -> bool {
    token.split(|byte| *byte == b'x').count() <= 2
        && token.iter().all(|byte| byte.is_ascii_digit() || *byte == b'x')
}

/// Whether letters and digits alternate more often than in words, as in `3c2a7e1f` or `DKwAzefS`, unlike
/// `chapter12` or `GettingStarted`.
pub(super) fn is_mixed(token: &[u8]) -> bool {
    let turns = token.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    if turns >= 2 {
        return true;
    }

    let letters: Vec<u8> = token.iter().copied().filter(u8::is_ascii_alphabetic).collect();
    let capitals = letters.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    if capitals == 0 || capitals == letters.len() {
        // If all letters have the same case, the token may be hexadecimal, unless its digits are just a number at
        // the end.
        let digits = token.len() - letters.len();
        return turns == 1 && token.iter().all(u8::is_ascii_hexdigit) && digits >= 2;
    }

    // In camel case, a word starts at each capital, and words have three or more letters on
    // average.
    let begins_words =
        letters.windows(2).all(|pair| !pair[0].is_ascii_uppercase() || pair[1].is_ascii_lowercase())
            && letters.last().is_some_and(u8::is_ascii_lowercase);
    let words = capitals + usize::from(letters.first().is_some_and(u8::is_ascii_lowercase));
    !begins_words || letters.len() < 3 * words
}

/// Returns `false` if letters or digits are combined in a way that does not occur in words or
/// dates.
pub(super) fn is_word_or_date(token: &[u8]) -> bool {
    if token.iter().all(u8::is_ascii_digit) {
        let number = |range: Range<usize>| std::str::from_utf8(&token[range]).ok()?.parse::<u16>().ok();
        return token.len() == 8
            && matches!(number(0..4), Some(1900..=2099))
            && matches!(number(4..6), Some(1..=12))
            && matches!(number(6..8), Some(1..=31));
    }

    let is_separator = |byte: &u8| matches!(byte, b'-' | b'_');
    let has_odd_separator = token.first().is_some_and(is_separator)
        || token.last().is_some_and(is_separator)
        || token.windows(2).any(|pair| pair.iter().all(is_separator));

    // Each capital is the start of a word. This includes the last capital of an abbreviation.
    let words = || {
        token.chunk_by(|one, next| {
            one.is_ascii_alphabetic() && next.is_ascii_lowercase()
                || one.is_ascii_uppercase() && next.is_ascii_uppercase()
                || one.is_ascii_digit() && next.is_ascii_digit()
        })
    };

    // Words and numbers have three or more characters on average, e.g. `registerSW` and `XMas2024`.
    let count = words().filter(|word| !is_separator(&word[0])).count();
    // `iPhone`, for example, counts as one.
    let has_prefix = matches!(token, [a, b, c, ..] if a.is_ascii_lowercase() && b.is_ascii_uppercase() && c.is_ascii_lowercase());
    let is_chopped = token.len() < 3 * (count - usize::from(has_prefix));

    !has_odd_separator
        && !is_chopped
        && words().filter(|word| word[0].is_ascii_alphabetic()).all(is_pronounceable)
}

/// Returns `false` if a word has no vowel, too many consonants in a row, or a `q` that is not
/// followed by `u`.
fn is_pronounceable(word: &[u8]) -> bool {
    let capitals = word.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    // The last capital of an abbreviation belongs to the next word.
    let word = if capitals < word.len() { &word[capitals.saturating_sub(1)..] } else { word };
    let is_vowel = |byte: &u8| b"aeiouy".contains(&byte.to_ascii_lowercase());
    let longest = word.split(is_vowel).map(<[u8]>::len).max().unwrap_or(0);
    let first = word.iter().take_while(|byte| !is_vowel(byte)).count();
    let has_lone_q = word.windows(2).any(|pair| pair[0] == b'q' && pair[1] != b'u');
    longest < 6 && first < 4 && !has_lone_q
}

/// Angular's names for entry points.
const ANGULAR_ENTRIES: [&[u8]; 4] = [b"main", b"polyfills", b"scripts", b"styles"];

/// Returns `true` for hashes of Angular and esbuild, which (just like some words) can consist of capitals
/// only.
pub(super) fn is_base32(token: &[u8]) -> bool {
    token.len() == BASE64URL_LENGTH && token.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7'))
}

/// Finds the hash in one of Angular's entry points, such as `main-ABCDEFGH.js`. It may look like anything.
pub(super) fn angular_hash(path: &[u8]) -> Option<Range<usize>> {
    let name_at = folder_of(path).len();
    let name = &path[name_at..];
    let stem = name.strip_suffix(b".js").or_else(|| name.strip_suffix(b".css"))?;
    let start = stem.len().checked_sub(BASE64URL_LENGTH)?;
    let entry = stem[..start].strip_suffix(b"-")?;
    let is_entry = ANGULAR_ENTRIES.contains(&entry) && is_base32(&stem[start..]);
    is_entry.then(|| name_at + start..name_at + stem.len())
}

/// Kinds of files, which differ in the evidence needed for a hash in their name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Scripts and styles, which build tools write.
    Code,
    /// Images, fonts and media, which are copied by build tools, but may also have been named by people
    /// after the number of an article.
    Media,
    /// Documents and data. To trust their names, we need a tool's own folder or manifest.
    Other,
}

impl Family {
    pub(super) fn of(path: &[u8]) -> Family {
        match suffix_of(path).to_ascii_lowercase().as_slice() {
            b"js" | b"mjs" | b"cjs" | b"css" | b"wasm" | b"map" => Family::Code,
            b"avif" | b"eot" | b"gif" | b"ico" | b"jpeg" | b"jpg" | b"jxl" | b"mp3" | b"mp4" | b"ogg"
            | b"otf" | b"png" | b"ttf" | b"wav" | b"webm" | b"webp" | b"woff" | b"woff2" => Family::Media,
            _ => Family::Other,
        }
    }
}

fn suffix_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'.').next().unwrap_or_default()
}

/// Whether a name below a tool's folder contains a hash, or is in a folder named by a hash (e.g. builds by Next).
pub(super) fn has_tool_hash(path: &[u8]) -> bool {
    let name = &path[folder_of(path).len()..];
    let is_build =
        |folder: &[u8]| folder.len() >= WHOLE_NAME_LENGTH_MIN && is_token(folder) && !is_word_or_date(folder);
    hash_in(name).is_some()
        || name.split(|byte| *byte == b'.').any(has_base64url_end_or_start)
        || folder_of(path).split(|byte| *byte == b'/').any(is_build)
}

/// Returns `true` if a part of a name ends or begins with a hash, e.g. Astro's `logo.DHY2EjBc_Z1abCd.webp` or Next's
/// `e4af272ccee01ff0-s.p.woff2`.
fn has_base64url_end_or_start(part: &[u8]) -> bool {
    let is_hash = |token: &[u8]| is_token(token) && !is_word_or_date(token);
    let first = part.split(|byte| *byte == b'-').next().unwrap_or_default();
    if first.len() >= WHOLE_NAME_LENGTH_MIN && looks_hashed(first) {
        return true;
    }
    let at_start = part
        .split_at_checked(BASE64URL_LENGTH)
        .is_some_and(|(token, rest)| matches!(rest, [] | [b'_' | b'-', ..]) && is_hash(token));
    at_start || has_base64url_end(part)
}

/// Whether a part of a name ends with something that has the length of a hash and isn't a word.
pub(super) fn has_base64url_end(part: &[u8]) -> bool {
    let start = part.len().checked_sub(BASE64URL_LENGTH);
    start.is_some_and(|start| {
        let is_separated = start == 0 || start > 1 && matches!(part[start - 1], b'-' | b'_');
        is_separated && is_token(&part[start..]) && !is_word_or_date(&part[start..])
    })
}

/// Folder, separator, length and suffix of the hashed names of a build tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    folder: Vec<u8>,
    /// `/` if the hash is the whole name.
    separator: u8,
    length: usize,
    /// The part after the last full stop.
    suffix: Vec<u8>,
}

impl Shape {
    /// Returns the shape of a path with a hash at this range.
    pub(super) fn of(path: &[u8], hash: &Range<usize>) -> Option<Shape> {
        let is_whole_name = hash.start == folder_of(path).len();
        let separator = match path[..hash.start].last() {
            // Names such as `3c2a7e1f9b0d4e5f.png`. A short hash may well be an identifier chosen by the content's
            // author.
            _ if is_whole_name && hash.len() < WHOLE_NAME_LENGTH_MIN => return None,
            _ if is_whole_name => b'/',
            byte => *byte.filter(|byte| is_separator(byte))?,
        };
        let suffix = path.rsplit(|byte| *byte == b'.').next()?;
        Some(Shape {
            folder: folder_of(path).to_vec(),
            separator,
            length: hash.len(),
            suffix: suffix.to_vec(),
        })
    }

    /// Whether a name with another suffix has the same shape as a tool's scripts.
    pub(super) fn agrees_with(&self, code: &Shape) -> bool {
        (&self.folder, self.separator, self.length) == (&code.folder, code.separator, code.length)
    }

    /// The range in which a path would have a hash of this shape.
    pub(super) fn range_in(&self, path: &[u8]) -> Option<Range<usize>> {
        if folder_of(path) != self.folder || path.rsplit(|byte| *byte == b'.').next() != Some(&self.suffix) {
            return None;
        }
        let name_at = self.folder.len();
        let ends =
            path.iter().enumerate().skip(name_at).filter(|(_, byte)| **byte == b'.').map(|(end, _)| end);
        ends.filter_map(|end| end.checked_sub(self.length).map(|start| start..end)).find(|range| {
            let is_at_separator = match self.separator {
                b'/' => range.start == name_at,
                separator => range.start > name_at && path[range.start - 1] == separator,
            };
            is_at_separator && is_token(&path[range.clone()])
        })
    }
}

/// The digits of an encoding, as far as names show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Digits(u8);

impl Digits {
    pub(super) fn of(token: &[u8]) -> Digits {
        let class = |byte: &u8| match byte {
            b'0'..=b'9' => 1,
            b'a'..=b'f' => 2,
            b'g'..=b'z' => 4,
            b'A'..=b'Z' => 8,
            _ => 16,
        };
        let digits = token.iter().map(class).fold(0, |all, class| all | class);
        // Base32 and base36 have one case. If there are two, it must be base62 or base64url, which require all the
        // others too. Hexadecimal hashes can consist of letters or digits only.
        Digits(match digits {
            _ if digits & 6 > 0 && digits & 8 > 0 || digits & 16 > 0 => 31,
            _ if digits & 4 > 0 => 7,
            _ if digits & 8 > 0 => 9,
            _ => 3,
        })
    }

    pub(super) fn and(self, other: Digits) -> Digits {
        Digits(self.0 | other.0)
    }

    pub(super) fn contain(self, token: &[u8]) -> bool {
        Digits::of(token).0 & !self.0 == 0
    }

    /// Whether all hashes consist of capitals and digits, in which case one with capitals only is allowed
    /// to look like a word.
    pub(super) fn are_base32(self) -> bool {
        self == Digits::of(b"AAAAAAAA")
    }
}

pub(super) fn folder_of(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)]
}

/// Splits a path at its hash into the folder and name before it, the hash itself, and the rest.
pub(super) fn split(path: &[u8]) -> Option<(&[u8], Range<usize>, &[u8])> {
    let name_at = folder_of(path).len();
    let hash = hash_in(&path[name_at..])?;
    let hash = name_at + hash.start..name_at + hash.end;
    Some((&path[..hash.start], hash.clone(), &path[hash.end..]))
}
