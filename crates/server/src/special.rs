//! Pages that the server has of its own: below `/__/` a heartbeat for monitors and what this is, and challenges of
//! certificate authorities.
//!
//! A site that has such a path itself comes first. Without being told to, no page has the exact version.

use std::sync::Arc;

use cannery_wire::ServerFields;

use crate::challenges::{self, Challenges, Found};
use crate::own_page::OwnPage;

/// The contents of the pages below `/__/cannery/`.
#[derive(Debug, Clone)]
pub struct SpecialPages {
    /// What this is, in a sentence or two.
    pub about: String,
    /// The manual page as text.
    pub manual: String,
    /// The pages that have the exact version.
    pub exact: Option<ExactPages>,
}

/// Pages that tell the exact version, and so its known faults.
#[derive(Debug, Clone)]
pub struct ExactPages {
    /// The version alone.
    pub version: String,
    /// What the program is made of, as CycloneDX JSON.
    pub sbom: String,
}

const PREFIX: &[u8] = b"/__/";

/// Pages that belong to no site.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnPages {
    pub(crate) special: Option<Arc<SpecialPages>>,
    pub(crate) challenges: Option<Arc<Challenges>>,
}

impl OwnPages {
    /// Whether there can be a page at a path.
    #[inline]
    pub(crate) fn may_have(target: &[u8]) -> bool {
        // Nearly all targets are of the origin form, and go no further than this.
        target.first() != Some(&b'/') || target.starts_with(PREFIX) || target.starts_with(challenges::PREFIX)
    }

    /// The page at a path.
    #[cold]
    pub(crate) fn at(&self, path: &[u8]) -> Option<OwnPage<'_>> {
        self.challenge(path).or_else(|| self.special.as_ref()?.at(path))
    }

    /// The challenge at a path.
    #[cold]
    pub(crate) fn challenge(&self, path: &[u8]) -> Option<OwnPage<'static>> {
        let (challenges, token) = (self.challenges.as_ref()?, challenges::token(path)?);
        // RFC 8555 §8.3.
        let page = |status, media_type, body| OwnPage { status, media_type, body, fields: &[] };
        match challenges.find(token) {
            Found::File(file) => Some(page(200, "application/octet-stream", file.into())),
            Found::Missing => None,
            Found::Unavailable => {
                let words = b"The directory of challenges cannot be read now.\n".as_slice();
                Some(page(503, "text/plain; charset=utf-8", words.into()))
            }
        }
    }
}

impl SpecialPages {
    /// The page at a path.
    pub(crate) fn at(&self, path: &[u8]) -> Option<OwnPage<'_>> {
        const TEXT: &str = "text/plain; charset=utf-8";
        let (media_type, body): (_, &str) = match (path, &self.exact) {
            (b"/__/heartbeat" | b"/__/heartbeat/", _) => (TEXT, "OK\n"),
            (b"/__/cannery/about" | b"/__/cannery/", _) => (TEXT, &self.about),
            (b"/__/cannery/manual", _) => (TEXT, &self.manual),
            (b"/__/cannery/version", Some(exact)) => (TEXT, &exact.version),
            (b"/__/cannery/sbom", Some(exact)) => ("application/json", &exact.sbom),
            _ => return None,
        };
        Some(OwnPage { status: 200, media_type, body: body.as_bytes().into(), fields: &[] })
    }

    /// The response head of the page at a path, with the fields that every response has; `None` if there is no page.
    #[must_use]
    pub fn response_head(&self, path: &[u8], fields: &ServerFields) -> Option<Vec<u8>> {
        Some(self.at(path)?.spell(true, None, fields.lines(0)))
    }
}
