//! Pages that the server generates: built-in pages below `/__/`, ACME challenges, and admin pages.
//!
//! Built-in pages and challenges have the same addresses as sites, and paths of the site take precedence. Admin
//! pages have their own listener.

// Metrics and statistics for programs, and a page for operators.
pub(crate) mod admin;

// Pages below `/__/`: information about the server, and the state of a folder that is being edited.
mod builtin;
mod live;

// Files that prove to a certificate authority that we control a host.
pub(crate) mod challenges;

// A page: status, fields and body.
mod page;

pub(crate) use challenges::Challenges;
pub(crate) use live::{add_script, fields, is_document};
pub(crate) use page::{OwnResponse, Page};

use std::sync::Arc;

use cannery_site::Target;
use cannery_wire::RequestHead;

use crate::config::{LiveFolder, SpecialPages};
use challenges::LookupResult;

const PREFIX: &[u8] = b"/__/";

/// Pages that do not belong to any site.
#[derive(Debug, Clone, Default)]
pub(crate) struct BuiltinPages {
    pub(crate) special: Option<Arc<SpecialPages>>,
    pub(crate) live: Option<LiveFolder>,
    pub(crate) challenges: Option<Arc<Challenges>>,
}

impl BuiltinPages {
    /// Returns `false` if there is not such a page for a request target.
    #[inline]
    pub(crate) fn may_have(target: &[u8]) -> bool {
        // Nearly all requests have the origin form, and these comparisons are sufficient for that.
        target.first() != Some(&b'/') || target.starts_with(PREFIX) || target.starts_with(challenges::PREFIX)
    }

    /// Returns the page for a request with this target.
    #[cold]
    pub(crate) fn at(&self, target: &Target<'_>, head: &RequestHead<'_>) -> Option<Page<'_>> {
        self.challenge(target.path)
            .or_else(|| self.special.as_ref()?.at(target.path))
            .or_else(|| self.live.as_ref()?.at(target, head))
    }

    /// Returns the page at a path, if any host may have it because it does not say anything about a site.
    #[cold]
    pub(crate) fn of_any_host(&self, path: &[u8]) -> Option<Page<'_>> {
        self.challenge(path).or_else(|| self.special.as_ref()?.heartbeat(path))
    }

    /// Returns the ACME challenge at a path.
    #[cold]
    fn challenge(&self, path: &[u8]) -> Option<Page<'static>> {
        let challenges = self.challenges.as_ref()?;
        let token = challenges::token(path)?;
        // See RFC 8555 §8.3.
        let page = |status, media_type, body| Page { status, media_type, body, fields: &[] };
        match challenges.find(token) {
            LookupResult::File(file) => Some(page(200, "application/octet-stream", file.into())),
            LookupResult::Missing => None,
            LookupResult::Unavailable => {
                let message = b"The directory of ACME challenges cannot be read now.\n".as_slice();
                Some(page(503, "text/plain; charset=utf-8", message.into()))
            }
        }
    }
}
