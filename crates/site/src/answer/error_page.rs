//! Built-in error pages, for sites that do not have an error page for the status.
//!
//! They are small, support light and dark mode, and do not mention the server. The text for each status is a constant. To avoid
//! allocating, we escape the requested path or host while we send the page.

/// Maximum length of the requested path or host in the page, in bytes.
const SUBJECT_BYTES_MAX: usize = 300;

const SUBJECT_START: &[u8] = b"<p><code>";
const SUBJECT_END: &[u8] = b"</code></p>";
const ELLIPSIS: &[u8] = "…".as_bytes();
const HOME: &[u8] = b"<p><a href=\"/\">Go to the start page</a></p>";
const END: &[u8] = b"</main></html>\n";

/// Not a real status (which is 400 in this case). It selects the page for a plain HTTP request that comes in on a TLS port. nginx
/// uses the same number.
pub const PLAIN_HTTP: u16 = 497;

/// A built-in page, showing a text for the status and the requested path or host (if known).
#[derive(Debug, Clone, Copy)]
pub struct ErrorPage<'a> {
    text: &'static [u8],
    /// The requested path (or for a 421, the requested host). Empty if unknown.
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
    /// Returns the page for a status. `None` if there is not one.
    pub(crate) const fn new(status: u16) -> Option<ErrorPage<'a>> {
        let text = text(status);
        if text.is_empty() {
            return None;
        }

        let links_home = matches!(status, 404 | 405 | 406 | 410 | 412 | 413 | 414 | 416 | 417);
        Some(ErrorPage { text, subject: b"", links_home })
    }

    /// Adds the requested path or host.
    pub(crate) fn with_subject(self, subject: &'a [u8]) -> ErrorPage<'a> {
        ErrorPage { subject, ..self }
    }

    /// Returns the length of the page, in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no page is empty")]
    pub fn len(&self) -> usize {
        let mut length = 0;
        self.for_each_piece(&mut |piece| length += piece.len());
        length
    }

    /// Calls `put` with each piece of the page.
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

/// Escapes a byte for HTML. Non-ASCII and control characters are replaced (the request may not be UTF-8).
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

/// Returns the start of the page for a status, or nothing when there is no such page.
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
mod tests;
