//! The live reload script, and the documents that it is added to.
//!
//! Note that scripts which fetch a page will get it as it is in production because a fragment of a document
//! has no script of its own.

use cannery_wire::RequestHead;

use super::encoding::{Encoding, label_of};
use super::head;

/// Whether the browser will show the response to a request as a document, either as a page or in a frame.
///
/// Browsers announce this in `Sec-Fetch-Dest`, except to servers without TLS that are not on the same
/// machine.
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

/// Adds the script at an absolute path to a document with this origin, at the start of the `<head>`.
///
/// At this position, no construct is open. At the end of a document, on the other hand, the script could
/// become part of an attribute, a comment or a text, and browsers would drop it after a `<frameset>`.
pub(crate) fn add_script(document: &mut Vec<u8>, media_type: &[u8], path: &str, origin: Option<&str>) {
    let encoding = Encoding::of(document, media_type);
    // Since browsers only search the first 1,024 bytes for `<meta charset>`, the script has to follow it if
    // it counts.
    let is_declared = label_of(media_type).is_empty();
    let position = head::script_position(document, encoding, is_declared);
    let element = {
        // `<base>` can name another origin, against which the browser resolves the path.
        let has_base = encoding.offsets(&document[..position], "<base").next().is_some();
        let origin = origin.filter(|_| has_base).unwrap_or_default();
        encoding.encode(&format!("<script src=\"{origin}{path}\" defer></script>"))
    };
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

    /// `@` is the place of the script.
    fn check(page: &str, media_type: &[u8]) {
        let mut bytes = page.replace('@', "").into_bytes();
        add_script(&mut bytes, media_type, "/live.js", Some("http://a.test:80"));
        assert_eq!(String::from_utf8(bytes).unwrap(), page.replace('@', ELEMENT));
    }

    /// The script used to be added before the last `</body`, which can be part of an attribute, a comment or
    /// a text, or else at the end, where any of these can be open.
    #[test]
    fn script_is_at_the_start_of_the_head() {
        for page in [
            "<!DOCTYPE html><html lang=en><head>@<title>t</title></head><body>b</body></html>",
            "\u{feff}\r\n<!-- a --><!doctype HTML PUBLIC \"-//W3C//DTD\">\n<!-- <head> --><HTML data-a='>'><HEAD a=\"<b>\">@",
            "<!DOCTYPE html>@<title>t</title><p>top</p><iframe srcdoc=\"<html><body>inner</body></html>\"></iframe>",
            "@<p id=p title=\"a </body> b\">attr</p>",
            "<!doctype html>@<p title='</body>'>",
            "<html>@<frameset cols=1><frame src=a></frameset></html>",
            "<html><head>@</head><frameset></frameset></html>",
            "@<h1>A",
            "@",
            "@text",
            "  \n@text <head>",
            "@</body>1</body>2",
            "@<template><body>z</body></template>",
            "@<xmp></body></xmp>",
            "<!-- </body> --!>@<p>",
            "<!--><head>@",
            "<!---><head>@",
            "<!-- a --!><head>@",
            "<!-- a -- b ->c--->@<p>",
            "<!---->@<p>",
            "@<!-- open <head>",
            "@<html lang=\"open",
            "<html>@<head class='open",
            "@<bodyguard></bodyguard>",
            "@<header>not the head</header>",
            "<?xml version='1.0'?><html><head\n>@",
            "<![CDATA[a]]><head>@",
            "</p></><head/>@",
            "<html>@</head><p>",
            "@</html>",
            "<html>@&nbsp;<head>",
            "<html>@<<head>",
            "<html a=b\"><head>@",
            "<html a = \">\" b ='>' c=>@<p>",
            "<html a=\"1\"b='>'/><head>@",
            "<html =\"><head>@",
            "@<base href=//b.test><p>",
        ] {
            check(page, b"text/html; charset=utf-8");
        }
    }

    #[test]
    fn script_follows_the_declaration_of_an_encoding_that_counts() {
        for page in [
            "<html><head>\n<meta charset=shift_jis>@<title>t</title>",
            "<!doctype html><meta name=a><META content='text/html; charset=euc-jp' http-equiv=content-type>@<p>",
            "<head><title><meta charset=a></title><meta charset=b>@<link>",
            "<head><script>\"<meta charset=a>\"</script ><style></styles></style><meta charset=b>@",
            // Nothing is declared.
            "<head>@<title>t</title></head><meta charset=b>",
            "<head>@<title>open <meta charset=b>",
            "<head>@<!-- <meta charset=b> --><p><meta charset=b>",
            "@<meta name=viewport><p>",
        ] {
            check(page, b"text/html");
        }
        let late = format!("<head>@<!--{}--><meta charset=b>", " ".repeat(1024));
        check(&late, b"text/html");
        check("<head>@<meta charset=shift_jis>", b"text/html; charset=shift_jis");
    }

    #[test]
    fn script_is_of_the_origin_of_a_page_with_a_base() {
        let mut page = b"<head><BASE href=//b.test><meta charset=big5><p>".to_vec();
        add_script(&mut page, b"text/html", "/live.js", Some("http://a.test:80"));
        let script = "<script src=\"http://a.test:80/live.js\" defer></script>";
        let expected = format!("<head><BASE href=//b.test><meta charset=big5>{script}<p>");
        assert_eq!(String::from_utf8(page).unwrap(), expected);
    }

    #[test]
    fn script_has_the_encoding_of_the_page() {
        /// Serializes a code unit in one of the two byte orders.
        type BytesOf = fn(u16) -> [u8; 2];
        let utf16 =
            |text: &str, bytes_of: BytesOf| -> Vec<u8> { text.encode_utf16().flat_map(bytes_of).collect() };
        let cases: [(BytesOf, &str, &str); 6] = [
            (u16::to_le_bytes, "", "text/html"),
            (u16::to_be_bytes, "", "text/html"),
            (u16::to_le_bytes, "\u{feff}", "text/html; charset=utf-8"),
            (u16::to_be_bytes, "\u{feff}", "text/html"),
            (u16::to_le_bytes, "", "text/html; charset=\"UTF-16\""),
            (u16::to_be_bytes, "", "text/html;charset=utf-16be"),
        ];
        for (bytes_of, mark, media_type) in cases {
            let mut page = utf16(&format!("{mark}<html><head title=ä><p>"), bytes_of);
            add_script(&mut page, media_type.as_bytes(), "/live.js", None);
            let expected = format!("{mark}<html><head title=ä>{ELEMENT}<p>");
            assert_eq!(page, utf16(&expected, bytes_of), "{media_type}");
        }
        // A half unit stays at the end.
        let mut page = [utf16("\u{feff}<head>", u16::to_le_bytes), vec![b'b']].concat();
        add_script(&mut page, b"text/html", "/live.js", None);
        let expected = utf16(&format!("\u{feff}<head>{ELEMENT}"), u16::to_le_bytes);
        assert_eq!(page, [expected, vec![b'b']].concat());
    }
}
