//! The client's purpose for the response, as far as we can tell.
//!
//! A client that wants a script must not be answered with a fallback page, whatever the path looks like. On the other hand, if a
//! browser navigates to `/blog/node.js`, this may well be a page. Browsers send `Accept` and (except over plain HTTP) also
//! `Sec-Fetch-Dest`, see Fetch Metadata.
//!
//! Responses that depend on this still do not need `Vary`: errors are `no-store` and fallback pages are `no-cache`, so caches will
//! ask again with the fields of the next request. If a site allows a longer lifetime for its fallback pages, the archiver adds
//! `Vary`.
//!
//! To keep this cheap, the parsers reduce both fields to a single byte each. Nearly all requests find a file and never need them.

/// `Sec-Fetch-Dest` and `Accept`. They tell us whether the client can use a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intent {
    destination: Destination,
    accept: Accept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// There is no such field, or it does not tell (e.g. with `fetch()`).
    Any,
    /// A document in a window or frame.
    Document,
    /// A part of a page, for example a script or image.
    Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accept {
    /// There is no such field, or it is empty.
    Absent,
    /// No media type in the list can be a page.
    NoPage,
    /// Pages are as welcome as other responses.
    Any,
    /// The list starts with pages, as it does in all browsers when they navigate.
    Page,
}

/// Whether a page is a suitable response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageUse {
    Wanted,
    Useless,
    /// It depends on the path.
    Unknown,
}

impl Intent {
    /// Neither field was sent.
    pub const UNKNOWN: Intent = Intent { destination: Destination::Any, accept: Accept::Absent };

    /// Sets the value of `Sec-Fetch-Dest`.
    #[inline]
    pub fn take_destination(&mut self, value: &[u8]) {
        self.destination = match value {
            b"document" | b"iframe" | b"frame" | b"fencedframe" => Destination::Document,
            // Scripts may fetch pages, and these elements can show pages, images and PDF files alike.
            b"" | b"empty" | b"embed" | b"object" => Destination::Any,
            _ => Destination::Part,
        };
    }

    /// Adds a value of `Accept`. There may be several lines.
    #[inline]
    pub fn take_accept(&mut self, value: &[u8]) {
        // Browsers send these for parts of a page and for pages.
        let accept = match value {
            b"*/*" => Accept::Any,
            [b't', b'e', b'x', b't', b'/', b'h', b't', b'm', b'l', b',', ..] => Accept::Page,
            _ => Accept::of(value),
        };
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

/// Returns `true` if an element of `Accept` is one of these media types with a weight other than 0.
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
        // Sent by Chromium.
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
