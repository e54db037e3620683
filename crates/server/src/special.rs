//! Pages that the server has of its own, below `/__/`: a heartbeat for those who watch, and what this is.
//!
//! A site that has such a path itself comes first. Never says more than that the server is there and what it
//! is made of.

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
    /// The page at a path: its media type, and its bytes.
    pub(crate) fn at(&self, path: &[u8]) -> Option<(&'static str, &str)> {
        const TEXT: &str = "text/plain; charset=utf-8";
        Some(match path {
            b"/__/heartbeat" | b"/__/heartbeat/" => (TEXT, "OK\n"),
            b"/__/cannery/about" | b"/__/cannery/" => (TEXT, &self.about),
            b"/__/cannery/version" => (TEXT, &self.version),
            b"/__/cannery/manual" => (TEXT, &self.manual),
            b"/__/cannery/sbom" => ("application/json", &self.sbom),
            _ => return None,
        })
    }
}
