//! Built-in pages below `/__/`, namely a heartbeat for monitors and information about the server.
//!
//! Note that the exact version is only available on request (`--special-pages-version`).

use cannery_wire::ServerFields;

use super::generated::Page;
use crate::config::SpecialPages;

const TEXT: &str = "text/plain; charset=utf-8";

impl SpecialPages {
    /// Returns the heartbeat, if this is the path.
    pub(super) fn heartbeat(&self, path: &[u8]) -> Option<Page<'_>> {
        let is_heartbeat = matches!(path, b"/__/heartbeat" | b"/__/heartbeat/");
        is_heartbeat.then(|| Page { status: 200, media_type: TEXT, body: b"OK\n".into(), fields: &[] })
    }

    /// Returns the page at a path.
    pub(super) fn at(&self, path: &[u8]) -> Option<Page<'_>> {
        if let Some(heartbeat) = self.heartbeat(path) {
            return Some(heartbeat);
        }
        let (media_type, body): (_, &str) = match (path, &self.exact) {
            (b"/__/cannery/about" | b"/__/cannery/", _) => (TEXT, &self.about),
            (b"/__/cannery/manual", _) => (TEXT, &self.manual),
            (b"/__/cannery/version", Some(exact)) => (TEXT, &exact.version),
            (b"/__/cannery/sbom", Some(exact)) => ("application/json", &exact.sbom),
            _ => return None,
        };
        Some(Page { status: 200, media_type, body: body.as_bytes().into(), fields: &[] })
    }

    /// Returns the response head of the page at a path, including the fields of every response, or `None` if
    /// there is no such page.
    #[must_use]
    pub fn response_head(&self, path: &[u8], fields: &ServerFields) -> Option<Vec<u8>> {
        Some(self.at(path)?.head(None, fields.lines(0)))
    }
}
