//! Pages that the server has of its own, below `/__/`: a heartbeat for those who watch, and what this is.
//!
//! A site that has such a path itself comes first. Never says more than that the server is there and what it
//! is made of.

use crate::own_page::OwnPage;

/// What the pages below `/__/cannery/` hold.
#[derive(Debug, Clone)]
pub struct SpecialPages {
    /// What this is, in a sentence or two.
    pub about: String,
    /// The version alone.
    pub version: String,
    /// The manual page as text.
    pub manual: String,
    /// What the program is made of, as CycloneDX JSON.
    pub sbom: String,
}

/// Where they begin.
pub(crate) const PREFIX: &[u8] = b"/__/";

impl SpecialPages {
    /// The page at a path.
    pub(crate) fn at(&self, path: &[u8]) -> Option<OwnPage<'_>> {
        const TEXT: &str = "text/plain; charset=utf-8";
        let (media_type, body): (_, &str) = match path {
            b"/__/heartbeat" | b"/__/heartbeat/" => (TEXT, "OK\n"),
            b"/__/cannery/about" | b"/__/cannery/" => (TEXT, &self.about),
            b"/__/cannery/version" => (TEXT, &self.version),
            b"/__/cannery/manual" => (TEXT, &self.manual),
            b"/__/cannery/sbom" => ("application/json", &self.sbom),
            _ => return None,
        };
        Some(OwnPage { status: 200, media_type, body: body.as_bytes().into(), fields: &[] })
    }
}
