//! Built-in pages for errors that the site has no page of its own for.
//!
//! Small, readable in light and dark, and without a word about the server. The text of each status is a constant;
//! what was requested is escaped while the page is sent, so that nothing is allocated.

/// Bytes of the requested path or host that a page shows.
const SUBJECT_BYTES_MAX: usize = 300;

const SUBJECT_START: &[u8] = b"<p><code>";
const SUBJECT_END: &[u8] = b"</code></p>";
const ELLIPSIS: &[u8] = "…".as_bytes();
const HOME: &[u8] = b"<p><a href=\"/\">Go to the start page</a></p>";
const END: &[u8] = b"</main></html>\n";

/// Stands for the page of a 400 that answers a request in the clear on a port for TLS. No status: nginx uses the same
/// number for it.
pub const PLAIN_HTTP: u16 = 497;

/// A built-in page: the text of its status, and what was requested if that is known.
#[derive(Debug, Clone, Copy)]
pub struct ErrorPage<'a> {
    text: &'static [u8],
    /// The path, or for 421 the host. Empty if it is not known.
    subject: &'a [u8],
    links_home: bool,
}

macro_rules! page {
    ($status:literal, $title:literal, $text:literal) => {
        concat!(
            "<!doctype html><html lang=en><meta charset=utf-8>",
            "<meta name=viewport content=\"width=device-width\"><meta name=color-scheme content=\"light dark\">",
            "<title>",
            $status,
            " ",
            $title,
            "</title>",
            "<style>body{font:1.1em/1.5 system-ui,sans-serif;max-width:30em;margin:20vh auto;padding:0 1em}",
            "h1{font-size:1.4em;margin:0}h1 small{font-weight:400;margin-right:.4em}code{overflow-wrap:anywhere}</style>",
            "<main><h1><small>",
            $status,
            "</small>",
            $title,
            "</h1><p>",
            $text,
            "</p>"
        )
        .as_bytes()
    };
}

impl<'a> ErrorPage<'a> {
    /// The page for a status. `None` for a status that has none.
    pub(crate) const fn of(status: u16) -> Option<ErrorPage<'a>> {
        let text = text(status);
        if text.is_empty() {
            return None;
        }
        let links_home = matches!(status, 404 | 405 | 406 | 410 | 412 | 413 | 414 | 416 | 417);
        Some(ErrorPage { text, subject: b"", links_home })
    }

    /// The same page, which shows what was requested.
    pub(crate) fn with_subject(self, subject: &'a [u8]) -> ErrorPage<'a> {
        ErrorPage { subject, ..self }
    }

    /// Its length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no page is empty")]
    pub fn len(&self) -> usize {
        let mut length = 0;
        self.for_each_piece(&mut |piece| length += piece.len());
        length
    }

    /// Hands its bytes to `put`, piece by piece.
    pub fn for_each_piece(&self, put: &mut impl FnMut(&[u8])) {
        put(self.text);
        if !self.subject.is_empty() {
            put(SUBJECT_START);
            let shown = &self.subject[..self.subject.len().min(SUBJECT_BYTES_MAX)];
            for byte in shown {
                put(escaped(byte));
            }
            if shown.len() < self.subject.len() {
                put(ELLIPSIS);
            }
            put(SUBJECT_END);
            if self.links_home && self.subject != b"/" {
                put(HOME);
            }
        }
        put(END);
    }
}

/// A byte of a request as text of an element. Bytes that no URL has are not shown as they are: they need not be UTF-8.
fn escaped(byte: &u8) -> &[u8] {
    match byte {
        b'&' => b"&amp;",
        b'<' => b"&lt;",
        b'>' => b"&gt;",
        b'"' => b"&quot;",
        b'\'' => b"&#39;",
        b' '..=b'~' => std::slice::from_ref(byte),
        _ => "\u{fffd}".as_bytes(),
    }
}

/// The beginning of the page for a status. Empty for a status that has none.
const fn text(status: u16) -> &'static [u8] {
    match status {
        400 => page!("400", "Bad request", "The request cannot be understood."),
        404 => page!("404", "Not found", "There is nothing at this address."),
        405 => page!("405", "Method not allowed", "This address can only be read."),
        406 => page!(
            "406",
            "Not acceptable",
            "This is held only in a content coding that the request does not accept."
        ),
        408 => page!("408", "Request timeout", "The request did not arrive in time."),
        410 => page!("410", "Gone", "What was at this address has been removed."),
        412 => page!(
            "412",
            "Precondition failed",
            "What is at this address is not the version that the request is about."
        ),
        413 => page!("413", "Content too large", "This address takes no content of that size."),
        414 => page!("414", "Address too long", "The address is longer than this server reads."),
        416 => page!("416", "Range not satisfiable", "There is nothing in the requested range."),
        417 => page!("417", "Expectation failed", "The request expects what this server does not do."),
        421 => page!(
            "421",
            "No site for this host",
            "This server has no site for the host name that was requested. If the name is yours, add it to the \
             server's configuration, or point it to another server."
        ),
        431 => page!(
            "431",
            "Request header too large",
            "The header of the request is larger than this server reads."
        ),
        PLAIN_HTTP => {
            page!(
                "400",
                "Plain HTTP on an HTTPS port",
                "This port speaks TLS. Use https:// instead of http:// in the address."
            )
        }
        500 => page!("500", "Internal error", "The server cannot read its own files."),
        501 => page!("501", "Not implemented", "The server does not know this method."),
        503 => page!("503", "Service unavailable", "The server is too busy. Please try again."),
        505 => page!("505", "Version not supported", "This server speaks HTTP/1.0, HTTP/1.1 and HTTP/2."),
        _ => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(page: &ErrorPage<'_>) -> String {
        let mut bytes = Vec::new();
        page.for_each_piece(&mut |piece| bytes.extend_from_slice(piece));
        assert_eq!(bytes.len(), page.len());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_page_shows_status_and_path_and_leads_home() {
        let page = shown(&ErrorPage::of(404).unwrap().with_subject(b"/a/b"));
        for part in ["404", "<main>", "<code>/a/b</code>", "<a href=\"/\">", "</main></html>\n"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!shown(&ErrorPage::of(404).unwrap().with_subject(b"/")).contains("href"));
        assert!(!shown(&ErrorPage::of(421).unwrap().with_subject(b"example.com")).contains("href"));
    }

    #[test]
    fn what_was_requested_cannot_become_markup() {
        let page = shown(&ErrorPage::of(404).unwrap().with_subject(b"/<b>\"'&\xff\n"));
        assert!(page.contains("<code>/&lt;b&gt;&quot;&#39;&amp;\u{fffd}\u{fffd}</code>"), "{page}");
    }

    #[test]
    fn a_long_path_is_cut() {
        let page = shown(&ErrorPage::of(414).unwrap().with_subject(&[b'a'; 5000]));
        assert!(page.len() < 1500 && page.contains("a…</code>"), "{}", page.len());
    }

    #[test]
    fn a_status_without_a_page_has_none() {
        assert!(ErrorPage::of(200).is_none() && ErrorPage::of(204).is_none());
    }
}
