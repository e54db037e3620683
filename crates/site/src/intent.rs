//! The use that a client has for a response, as far as its request shows.
//!
//! A fallback page must not answer a request for a script, whatever the path looks like; and `/blog/node.js` may be a page if
//! a browser navigates there. Browsers tell by `Sec-Fetch-Dest` (Fetch Metadata, not over plain HTTP) and by `Accept`.
//!
//! Responses that depend on it need no `Vary`: an error is `no-store`, and a fallback page is `no-cache`, so that a cache asks
//! again with the fields of the next request. The archiver adds `Vary` where a site gives its fallback page a lifetime.
//!
//! The parsers reduce both fields to a byte each while they read a head, because nearly all requests find a file and never
//! look at them.

/// Whether the client can use a page, by `Sec-Fetch-Dest` and `Accept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intent {
    destination: Destination,
    accept: Accept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// The field is absent, or the destination can be anything, as for `fetch()`.
    Any,
    /// A document of a window or a frame.
    Document,
    /// A script, an image or another part of a page.
    Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accept {
    /// The field is absent or empty.
    Absent,
    /// Nothing that the field names is a page.
    NoPage,
    /// A page is as good as anything else.
    Any,
    /// A page is what the field names first, as for navigations in all browsers.
    Page,
}

/// Whether a page answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageUse {
    Wanted,
    Useless,
    /// The path decides.
    Unknown,
}

impl Intent {
    /// A request without both fields.
    pub const UNKNOWN: Intent = Intent { destination: Destination::Any, accept: Accept::Absent };

    /// Takes the value of a `Sec-Fetch-Dest` field.
    #[inline]
    pub fn take_destination(&mut self, value: &[u8]) {
        self.destination = match value {
            b"document" | b"iframe" | b"frame" | b"fencedframe" => Destination::Document,
            // Scripts fetch pages too, and these elements show pages, images and PDF files.
            b"" | b"empty" | b"embed" | b"object" => Destination::Any,
            _ => Destination::Part,
        };
    }

    /// Takes the value of an `Accept` field. A request may have several.
    #[inline]
    pub fn take_accept(&mut self, value: &[u8]) {
        // Most requests for parts of a page have this value.
        let accept = if value == b"*/*" { Accept::Any } else { Accept::of(value) };
        self.accept = match (self.accept, accept) {
            (Accept::Absent, accept) | (accept, Accept::Absent) => accept,
            (Accept::Page, _) => Accept::Page,
            (Accept::NoPage, Accept::NoPage) => Accept::NoPage,
            _ => Accept::Any,
        };
    }

    pub(crate) fn page_use(self) -> PageUse {
        match (self.destination, self.accept) {
            (Destination::Document, _) | (Destination::Any, Accept::Page) => PageUse::Wanted,
            (Destination::Part, _) | (Destination::Any, Accept::NoPage) => PageUse::Useless,
            (Destination::Any, Accept::Absent | Accept::Any) => PageUse::Unknown,
        }
    }
}

impl Accept {
    fn of(value: &[u8]) -> Accept {
        let mut elements = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let mut elements = elements.by_ref().filter(|element| !element.is_empty()).peekable();
        let Some(first) = elements.peek() else { return Accept::Absent };
        if accepts(first, &PAGE_TYPES) {
            return Accept::Page;
        }
        let accepts_page = |element: &[u8]| accepts(element, &PAGE_TYPES) || accepts(element, &PAGE_RANGES);
        if elements.any(accepts_page) { Accept::Any } else { Accept::NoPage }
    }
}

const PAGE_TYPES: [&[u8]; 2] = [b"text/html", b"application/xhtml+xml"];
const PAGE_RANGES: [&[u8]; 3] = [b"*/*", b"text/*", b"application/*"];

/// Returns `true` if an element of `Accept` names one of these media types, and its weight isn't 0.
fn accepts(element: &[u8], media_types: &[&[u8]]) -> bool {
    let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let is_zero = |part: &[u8]| {
        part.len() > 2
            && part[..2].eq_ignore_ascii_case(b"q=")
            && part[2..].iter().all(|byte| matches!(byte, b'0' | b'.'))
    };
    media_types.iter().any(|known| known.eq_ignore_ascii_case(name)) && !parts.any(is_zero)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_use(destination: Option<&str>, accept: &[&str]) -> PageUse {
        let mut intent = Intent::UNKNOWN;
        if let Some(destination) = destination {
            intent.take_destination(destination.as_bytes());
        }
        accept.iter().for_each(|value| intent.take_accept(value.as_bytes()));
        intent.page_use()
    }

    #[test]
    fn browsers_announce_their_intent() {
        // Chromium's.
        let navigation =
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
        let image = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";
        for (destination, accept, expected) in [
            (Some("document"), navigation, PageUse::Wanted),
            (Some("iframe"), navigation, PageUse::Wanted),
            (None, navigation, PageUse::Wanted),
            (Some("script"), "*/*", PageUse::Useless),
            (Some("serviceworker"), "*/*", PageUse::Useless),
            (Some("image"), image, PageUse::Useless),
            (None, image, PageUse::Unknown),
            (None, "text/css,*/*;q=0.1", PageUse::Unknown),
            (Some("empty"), "*/*", PageUse::Unknown),
            (Some("empty"), "text/html", PageUse::Wanted),
            (Some("empty"), "application/json", PageUse::Useless),
            (Some("embed"), "*/*", PageUse::Unknown),
            // A crawler that looks for `robots.txt`.
            (None, "text/plain,text/html,*/*", PageUse::Unknown),
            (None, "application/json, text/plain, */*", PageUse::Unknown),
            (None, "TEXT/HTML ; q=0.0, application/json", PageUse::Useless),
            (None, "", PageUse::Unknown),
            (None, " , ", PageUse::Unknown),
        ] {
            assert_eq!(page_use(destination, &[accept]), expected, "{destination:?} {accept}");
        }
        assert_eq!(page_use(None, &[]), PageUse::Unknown);
        assert_eq!(page_use(None, &["image/png", "text/html"]), PageUse::Unknown);
        assert_eq!(page_use(None, &["image/png", "image/gif"]), PageUse::Useless);
    }
}
