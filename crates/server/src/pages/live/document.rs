//! The script of live reload, and the documents that get it.
//!
//! Scripts that fetch a page get it as it is in production: a fragment of a document has no script of its own.

use cannery_wire::RequestHead;

/// Returns `true` if the response to a request becomes a document of a browser: a page, or one in a frame.
///
/// Browsers say so in `Sec-Fetch-Dest`, except to servers without TLS that are not on the same machine.
pub(crate) fn is_document(head: &RequestHead<'_>) -> bool {
    // Fields of libraries that fetch documents and take them apart.
    const SCRIPT_FIELDS: [&[u8]; 8] = [
        b"x-requested-with",
        b"hx-request",
        b"turbo-frame",
        b"x-turbo-request-id",
        b"x-up-version",
        b"x-pjax",
        b"x-barba",
        b"x-fetch",
    ];

    let mut destination = None;
    let mut is_prefetch = false;
    let mut accepted = None;
    let mut is_by_script = false;
    for (name, value) in fields(head.field_lines) {
        if name.eq_ignore_ascii_case(b"sec-fetch-dest") {
            destination = Some(value);
        } else if name.eq_ignore_ascii_case(b"sec-purpose") {
            is_prefetch = value.starts_with(b"prefetch");
        } else if name.eq_ignore_ascii_case(b"accept") {
            *accepted.get_or_insert(false) |= contains(value, b"text/html");
        } else {
            is_by_script |= SCRIPT_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field));
        }
    }
    match destination {
        // A page that is prefetched by a link is shown from the cache.
        Some(destination) => {
            is_prefetch && destination == b"empty"
                || matches!(destination, b"document" | b"iframe" | b"frame")
        }
        None => !is_by_script && accepted != Some(false),
    }
}

/// Iterates over field lines in the syntax of HTTP/1.
pub(crate) fn fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// How the bytes of a document encode ASCII characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// One byte each, as in UTF-8 and nearly all other encodings.
    Ascii,
    Utf16Le,
    Utf16Be,
}

impl Encoding {
    /// Returns the encoding of a document with this `Content-Type`. A byte order mark takes precedence (WHATWG Encoding, §6).
    fn of(document: &[u8], media_type: &[u8]) -> Encoding {
        match document {
            [0xff, 0xfe, ..] => return Encoding::Utf16Le,
            [0xfe, 0xff, ..] => return Encoding::Utf16Be,
            [0xef, 0xbb, 0xbf, ..] => return Encoding::Ascii,
            _ => {}
        }
        let lower = media_type.to_ascii_lowercase();
        let label = lower.split(|byte| *byte == b';').find_map(|part| {
            Some(part.trim_ascii().strip_prefix(b"charset")?.trim_ascii().strip_prefix(b"=")?.trim_ascii())
        });
        let label = label.unwrap_or_default();
        match label.strip_prefix(b"\"").and_then(|label| label.strip_suffix(b"\"")).unwrap_or(label) {
            b"utf-16" | b"utf-16le" | b"unicode" | b"ucs-2" | b"iso-10646-ucs-2" | b"csunicode"
            | b"unicodefeff" => Encoding::Utf16Le,
            b"utf-16be" | b"unicodefffe" => Encoding::Utf16Be,
            _ => Encoding::Ascii,
        }
    }

    fn unit_bytes(self) -> usize {
        if self == Encoding::Ascii { 1 } else { 2 }
    }

    fn encode(self, text: &str) -> Vec<u8> {
        let units = text.encode_utf16();
        match self {
            Encoding::Ascii => text.as_bytes().to_vec(),
            Encoding::Utf16Le => units.flat_map(u16::to_le_bytes).collect(),
            Encoding::Utf16Be => units.flat_map(u16::to_be_bytes).collect(),
        }
    }

    /// Returns the byte offsets of an ASCII text in a document, in any letter case.
    fn offsets(self, document: &[u8], text: &str) -> impl DoubleEndedIterator<Item = usize> {
        let text = self.encode(text);
        let step = self.unit_bytes();
        let count = (document.len() + 1).saturating_sub(text.len()).div_ceil(step);
        (0..count)
            .map(move |number| number * step)
            .filter(move |start| document[*start..][..text.len()].eq_ignore_ascii_case(&text))
    }
}

/// Adds the script at an absolute path to a document: before its last `</body>`, or at its end.
///
/// `origin` is that of the document.
pub(crate) fn add_script(document: &mut Vec<u8>, media_type: &[u8], path: &str, origin: Option<&str>) {
    let encoding = Encoding::of(document, media_type);
    let element = {
        // `<base>` may name another origin, against which the browser resolves the path.
        let has_base = encoding.offsets(document, "<base").next().is_some();
        let origin = origin.filter(|_| has_base).unwrap_or_default();
        encoding.encode(&format!("<script src=\"{origin}{path}\" defer></script>"))
    };

    // A unit that is cut off would combine with the script.
    let whole = document.len() - document.len() % encoding.unit_bytes();
    // The text may be in a script or in a comment, which continues after it.
    let continues = |end: usize| {
        let rest = &document[end..];
        ["</script", "</style", "</textarea", "</title", "-->"]
            .iter()
            .any(|text| encoding.offsets(rest, text).next().is_some())
    };
    let end = encoding.offsets(document, "</body").next_back().filter(|end| !continues(*end));
    let position = end.unwrap_or(whole);
    document.splice(position..position, element);
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELEMENT: &str = "<script src=\"/live.js\" defer></script>";

    fn is_document_with(lines: &str) -> bool {
        is_document(&RequestHead { field_lines: lines.as_bytes(), ..RequestHead::EMPTY })
    }

    #[test]
    fn browsers_name_the_destination() {
        for destination in ["document", "iframe", "frame"] {
            assert!(is_document_with(&format!("Accept: */*\r\nSec-Fetch-Dest: {destination}\r\n")));
        }
        for destination in ["empty", "script", "object", "embed", "image"] {
            assert!(!is_document_with(&format!("Accept: text/html\r\nsec-fetch-dest: {destination}\r\n")));
        }
        assert!(is_document_with("Sec-Fetch-Dest: empty\r\nSec-Purpose: prefetch\r\n"));
        assert!(!is_document_with("Sec-Fetch-Dest: script\r\nSec-Purpose: prefetch\r\n"));
    }

    #[test]
    fn without_a_destination_the_accepted_types_decide() {
        assert!(is_document_with(""));
        assert!(is_document_with("Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n"));
        assert!(!is_document_with("Accept: */*\r\n"));
        for field in ["HX-Request: true", "X-Requested-With: XMLHttpRequest", "Turbo-Frame: a"] {
            assert!(!is_document_with(&format!("Accept: text/html, */*\r\n{field}\r\n")), "{field}");
        }
    }

    fn added(page: &str) -> String {
        let mut bytes = page.as_bytes().to_vec();
        add_script(&mut bytes, b"text/html; charset=utf-8", "/live.js", Some("http://a.test:80"));
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn script_precedes_the_end_of_the_body() {
        let page = "<body><pre>&lt;/body></pre></BODY></html>";
        assert_eq!(added(page), format!("<body><pre>&lt;/body></pre>{ELEMENT}</BODY></html>"));
        assert_eq!(added("</body>1</body>2"), format!("</body>1{ELEMENT}</body>2"));
    }

    #[test]
    fn page_without_an_end_gets_the_script_at_its_end() {
        for page in ["<h1>A", "", "<script>a = '</body>'</script>", "<p><!-- </body> -->"] {
            assert_eq!(added(page), format!("{page}{ELEMENT}"));
        }
    }

    #[test]
    fn script_is_of_the_origin_of_a_page_with_a_base() {
        let page = "<BASE href=//b.test><p>";
        assert_eq!(added(page), format!("{page}<script src=\"http://a.test:80/live.js\" defer></script>"));
    }

    #[test]
    fn script_has_the_encoding_of_the_page() {
        /// Serializes a code unit in one of the two byte orders.
        type BytesOf = fn(u16) -> [u8; 2];
        let utf16 =
            |text: &str, bytes_of: BytesOf| -> Vec<u8> { text.encode_utf16().flat_map(bytes_of).collect() };
        let cases: [(BytesOf, &str, &str); 4] = [
            (u16::to_le_bytes, "\u{feff}", "text/html; charset=utf-8"),
            (u16::to_be_bytes, "\u{feff}", "text/html"),
            (u16::to_le_bytes, "", "text/html; charset=\"UTF-16\""),
            (u16::to_be_bytes, "", "text/html;charset=utf-16be"),
        ];
        for (bytes_of, mark, media_type) in cases {
            let mut page = utf16(&format!("{mark}<p>ä</BODY>"), bytes_of);
            add_script(&mut page, media_type.as_bytes(), "/live.js", None);
            assert_eq!(page, utf16(&format!("{mark}<p>ä{ELEMENT}</BODY>"), bytes_of), "{media_type}");
        }
        // A half unit stays at the end.
        let mut page = [utf16("\u{feff}a", u16::to_le_bytes), vec![b'b']].concat();
        add_script(&mut page, b"text/html", "/live.js", None);
        assert_eq!(page, [utf16(&format!("\u{feff}a{ELEMENT}"), u16::to_le_bytes), vec![b'b']].concat());
    }
}
