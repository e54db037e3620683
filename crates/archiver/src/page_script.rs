//! A script that is added to each HTML page, for previews.

use crate::classify::{MediaTypes, essence};

/// A script and the media types that tell which sources are pages.
#[derive(Debug, Clone)]
pub(crate) struct PageScript {
    element: Vec<u8>,
    media_types: MediaTypes,
}

impl PageScript {
    /// Creates a script at an absolute path of the site, which may only have characters that HTML doesn't escape.
    pub(crate) fn new(path: &str, media_types: &MediaTypes) -> PageScript {
        let element = format!("<script src=\"{path}\" defer></script>").into_bytes();
        PageScript { element, media_types: media_types.clone() }
    }

    /// Returns the number of bytes that are added to a source.
    pub(crate) fn length(&self, path: &[u8]) -> usize {
        if self.is_page(path) { self.element.len() } else { 0 }
    }

    /// Adds the script to a source if it is a page: before its last `</body`, or at its end.
    pub(crate) fn add(&self, path: &[u8], page: &mut Vec<u8>) {
        if !self.is_page(path) {
            return;
        }
        const END: &[u8] = b"</body";
        let end = page.windows(END.len()).rposition(|window| window.eq_ignore_ascii_case(END));
        let position = end.unwrap_or(page.len());
        page.splice(position..position, self.element.iter().copied());
    }

    /// Returns `true` if a source is a page, which has the script.
    pub(crate) fn is_page(&self, path: &[u8]) -> bool {
        essence(self.media_types.of(path).text) == "text/html"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELEMENT: &str = "<script src=\"/live.js\" defer></script>";

    fn added(path: &str, page: &str) -> String {
        let script = PageScript::new("/live.js", &MediaTypes::default());
        let mut bytes = page.as_bytes().to_vec();
        script.add(path.as_bytes(), &mut bytes);
        assert_eq!(bytes.len(), page.len() + script.length(path.as_bytes()));
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn script_precedes_the_end_of_the_body() {
        let page = "<body><pre>&lt;/body></pre></BODY></html>";
        assert_eq!(added("a.html", page), format!("<body><pre>&lt;/body></pre>{ELEMENT}</BODY></html>"));
        assert_eq!(added("a.html", "</body>1</body>2"), format!("</body>1{ELEMENT}</body>2"));
    }

    #[test]
    fn page_without_an_end_gets_the_script_at_its_end() {
        assert_eq!(added("a.html", "<h1>A"), format!("<h1>A{ELEMENT}"));
        assert_eq!(added("a.html", ""), ELEMENT);
    }

    #[test]
    fn other_sources_stay() {
        assert_eq!(added("a.js", "</body>"), "</body>");
        assert_eq!(added("_headers", "</body>"), "</body>");
    }
}
