//! Document encodings, as far as we need to know them to add a script.

/// Encoding of ASCII characters in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As one byte each. This is true for UTF-8 and nearly all other encodings.
    Ascii,
    Utf16Le,
    Utf16Be,
}

impl Encoding {
    /// Detects the encoding of a document with this `Content-Type`. A byte order mark takes precedence
    /// (WHATWG Encoding, §6).
    pub(super) fn of(document: &[u8], media_type: &[u8]) -> Encoding {
        match document {
            [0xff, 0xfe, ..] => return Encoding::Utf16Le,
            [0xfe, 0xff, ..] => return Encoding::Utf16Be,
            [0xef, 0xbb, 0xbf, ..] => return Encoding::Ascii,
            _ => {}
        }
        match label_of(media_type).as_slice() {
            b"utf-16" | b"utf-16le" | b"unicode" | b"ucs-2" | b"iso-10646-ucs-2" | b"csunicode"
            | b"unicodefeff" => Encoding::Utf16Le,
            b"utf-16be" | b"unicodefffe" => Encoding::Utf16Be,
            // Without a label, UTF-16 can be recognized by the first character.
            b"" => match document {
                [first, 0, ..] if *first != 0 => Encoding::Utf16Le,
                [0, first, ..] if *first != 0 => Encoding::Utf16Be,
                _ => Encoding::Ascii,
            },
            _ => Encoding::Ascii,
        }
    }

    pub(super) fn unit_bytes(self) -> usize {
        if self == Encoding::Ascii { 1 } else { 2 }
    }

    pub(super) fn encode(self, text: &str) -> Vec<u8> {
        let units = text.encode_utf16();
        match self {
            Encoding::Ascii => text.as_bytes().to_vec(),
            Encoding::Utf16Le => units.flat_map(u16::to_le_bytes).collect(),
            Encoding::Utf16Be => units.flat_map(u16::to_be_bytes).collect(),
        }
    }

    /// Returns where a document contains an ASCII text, ignoring case. Offsets are in bytes.
    pub(super) fn offsets(self, document: &[u8], text: &str) -> impl DoubleEndedIterator<Item = usize> {
        let text = self.encode(text);
        let step = self.unit_bytes();
        let count = (document.len() + 1).saturating_sub(text.len()).div_ceil(step);
        (0..count)
            .map(move |number| number * step)
            .filter(move |start| document[*start..][..text.len()].eq_ignore_ascii_case(&text))
    }
}

/// Extracts the label of the encoding from a `Content-Type`, in lower case. Without a label, this is empty.
pub(super) fn label_of(media_type: &[u8]) -> Vec<u8> {
    let lower = media_type.to_ascii_lowercase();
    let label = lower.split(|byte| *byte == b';').find_map(|part| {
        Some(part.trim_ascii().strip_prefix(b"charset")?.trim_ascii().strip_prefix(b"=")?.trim_ascii())
    });
    let label = label.unwrap_or_default();
    label.strip_prefix(b"\"").and_then(|label| label.strip_suffix(b"\"")).unwrap_or(label).to_vec()
}
