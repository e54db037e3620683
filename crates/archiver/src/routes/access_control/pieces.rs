//! Searches files piece by piece, so that long files need little memory. Configuration is searched as a whole, because a statement
//! may depend on the block around it, which can begin anywhere before. Windows programs often save configuration as UTF-16, which is
//! searched as well.

use std::io::{self, Read};

use super::{Found, Search};

/// Maximum number of bytes to search in a file.
pub(super) const SEARCHED_BYTES_MAX: u64 = 16 << 20;

/// Number of bytes to read at once from configuration: a file of the maximum size is searched as a whole, and a longer one isn't
/// complete.
pub(super) const WHOLE_BYTES: u64 = SEARCHED_BYTES_MAX + 2;

/// Number of bytes to read at once. This must be even because of UTF-16.
pub(super) const PIECE_BYTES: u64 = 1 << 20;

/// Number of bytes to search again in the next piece if a piece has no line end.
const OVERLAP_BYTES: usize = 4096;

/// Which encodings to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encodings {
    All,
    /// Only those that the parsers of rule files don't read.
    Foreign,
}

/// The result of a search.
#[derive(Debug)]
pub(super) enum Outcome {
    Found(Found),
    Nothing,
    /// There is nothing in the first [`SEARCHED_BYTES_MAX`] bytes, but there are more.
    TooLong,
}

/// How characters are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

/// Searches a file in pieces of `piece_bytes` (an even number). Each piece ends with a line if possible.
pub(super) fn search(
    mut file: impl Read,
    search: Search,
    encodings: Encodings,
    piece_bytes: u64,
) -> io::Result<Outcome> {
    let mut encoding = None;
    let mut has_carriage_returns = false;
    let mut bytes = Vec::new();
    let mut text = String::new();
    let mut lines = 0;
    let mut searched_bytes = 0;
    loop {
        bytes.clear();
        let read = file.by_ref().take(piece_bytes).read_to_end(&mut bytes)? as u64;
        searched_bytes += read;
        let excess_bytes = searched_bytes.saturating_sub(SEARCHED_BYTES_MAX);
        let is_too_long = excess_bytes > 0;
        bytes.truncate(bytes.len().saturating_sub(usize::try_from(excess_bytes).unwrap_or(usize::MAX)));

        let is_first = encoding.is_none();
        let encoding = *encoding.get_or_insert_with(|| Encoding::of(&bytes));
        text.push_str(&encoding.decode(&bytes));
        if is_first {
            has_carriage_returns = text.contains('\r') && !text.contains('\n');
            if encodings == Encodings::Foreign && encoding == Encoding::Utf8 && !has_carriage_returns {
                return Ok(Outcome::Nothing);
            }
            if text.starts_with('\u{feff}') {
                text.drain(..'\u{feff}'.len_utf8());
            }
        }
        if has_carriage_returns {
            text = text.replace('\r', "\n");
        }

        let is_end = read < piece_bytes || is_too_long;
        let end = if is_end { text.len() } else { text.rfind('\n').map_or(text.len(), |place| place + 1) };
        if let Some((line, subject)) = search(&text[..end]) {
            return Ok(Outcome::Found((line.saturating_add(lines), subject)));
        }
        if is_too_long {
            return Ok(Outcome::TooLong);
        }
        if is_end {
            return Ok(Outcome::Nothing);
        }
        lines = lines.saturating_add(u32::try_from(text[..end].matches('\n').count()).unwrap_or(u32::MAX));
        let is_line = text[..end].ends_with('\n');
        let start = if is_line { end } else { text.floor_char_boundary(end.saturating_sub(OVERLAP_BYTES)) };
        text.drain(..start);
    }
}

impl Encoding {
    /// Guesses the encoding from the start of a file.
    fn of(bytes: &[u8]) -> Encoding {
        match bytes {
            [0xff, 0xfe, ..] => Encoding::Utf16Le,
            [0xfe, 0xff, ..] => Encoding::Utf16Be,
            // Without a byte order mark, the text begins with ASCII characters.
            [1..=255, 0, 1..=255, 0, ..] => Encoding::Utf16Le,
            [0, 1..=255, 0, 1..=255, ..] => Encoding::Utf16Be,
            _ => Encoding::Utf8,
        }
    }

    fn decode(self, bytes: &[u8]) -> String {
        let unit = match self {
            Encoding::Utf8 => return String::from_utf8_lossy(bytes).into_owned(),
            Encoding::Utf16Le => u16::from_le_bytes,
            Encoding::Utf16Be => u16::from_be_bytes,
        };
        let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str) -> Option<Found> {
        let lines = (1u32..).zip(text.lines());
        lines
            .filter(|(_, line)| line.contains("deny"))
            .map(|(line, text)| (line, text.len().to_string()))
            .next()
    }

    fn line_of(bytes: &[u8]) -> Option<u32> {
        match search(bytes, find, Encodings::All, PIECE_BYTES).unwrap() {
            Outcome::Found((line, _)) => Some(line),
            Outcome::Nothing => None,
            Outcome::TooLong => Some(0),
        }
    }

    #[test]
    fn lines_are_counted_over_pieces() {
        assert_eq!(line_of(b""), None);
        assert_eq!(line_of(b"a\nb\ndeny"), Some(3));
        let lines = b"0123456789\n".repeat(200_000);
        assert_eq!(line_of(&[&lines, &b"deny\n"[..]].concat()), Some(200_001));
        assert_eq!(line_of(&lines), None);
    }

    /// As in minified JSON.
    #[test]
    fn word_across_pieces_is_found() {
        let mut bytes = vec![b'x'; 3 << 20];
        bytes[(1 << 20) - 2..(1 << 20) + 2].copy_from_slice(b"deny");
        assert_eq!(line_of(&bytes), Some(1));
    }

    #[test]
    fn file_beyond_the_limit_is_too_long() {
        let mut bytes = vec![b'\n'; 16 << 20];
        assert_eq!(line_of(&bytes), None);
        bytes.extend(b"deny");
        assert_eq!(line_of(&bytes), Some(0));
        let whole = |bytes: &[u8]| search(bytes, find, Encodings::All, WHOLE_BYTES).unwrap();
        assert!(matches!(whole(&bytes), Outcome::TooLong));
        assert!(matches!(whole(&bytes[..16 << 20]), Outcome::Nothing));
        bytes[1000..1005].copy_from_slice(b"deny\n");
        assert!(matches!(whole(&bytes), Outcome::Found((1001, _))));
    }

    /// The last line is searched together with the block that begins in the first one.
    #[test]
    fn configuration_is_searched_as_a_whole() {
        let find_block = |text: &str| {
            (text.starts_with("begin") && text.contains("end")).then(|| (1, String::from("block")))
        };
        let mut bytes = vec![b'\n'; 16 << 20];
        bytes[..5].copy_from_slice(b"begin");
        let end = bytes.len() - 3;
        bytes[end..].copy_from_slice(b"end");
        let found = search(&bytes[..], find_block, Encodings::All, WHOLE_BYTES).unwrap();
        assert!(matches!(found, Outcome::Found((1, _))));
    }

    #[test]
    fn other_encodings_are_read() {
        let text = "\u{feff}a\r\n\u{1f600} deny";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [&little, &big, &little[2..].to_vec(), &big[2..].to_vec()] {
            assert_eq!(line_of(bytes), Some(2));
            let found = search(&bytes[..], find, Encodings::Foreign, PIECE_BYTES).unwrap();
            assert!(matches!(found, Outcome::Found(_)));
        }
        assert_eq!(line_of(b"a\rdeny"), Some(2), "line ends of old Macs");
        let found = search(&b"deny"[..], find, Encodings::Foreign, PIECE_BYTES).unwrap();
        assert!(matches!(found, Outcome::Nothing));
    }
}
