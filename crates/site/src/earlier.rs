//! Paths of earlier releases: answered for pages that were loaded from them, where the current release has nothing.
//!
//! Only what clients may keep for good (`Cache-Control: immutable`), because such a name never stands for other bytes.
//! Looked for after everything that the current release has for just this path, and before its patterns and fallback
//! pages. Never looks on a host that has no site in the current release: a site that was taken down stays down.

use std::sync::Arc;

use cannery_archive::{Archive, Corrupt, Head, Key, Origin, Record, Resource};

use crate::answer::{Answer, Reason};
use crate::request::{Method, Request};
use crate::resolve::{self, Search};
use crate::sites::{Place, Sites};
use crate::target::Target;
use crate::{Buffers, Scratch, Site};

impl Site {
    /// Returns the answer to a request, and the place in `earlier` of the release that gives it, unless it is this one.
    #[inline]
    pub fn answer_with_earlier<'a>(
        &'a self,
        earlier: &'a [Arc<Site>],
        request: &Request<'a>,
        scratch: &'a mut Scratch,
    ) -> (Answer<'a>, Option<usize>) {
        let Scratch { current, earlier: buffers, now } = scratch;
        let answer = self.answer_in(request, current, *now);
        let is_own = !matches!(
            answer.reason,
            Reason::NotFound | Reason::MissingAsset | Reason::Rule(_) | Reason::Fallback(_)
        );
        if is_own || !matches!(request.method, Method::Get | Method::Head) {
            return (answer, None);
        }
        match self.earlier_answer(earlier, answer.reason, request, buffers, *now) {
            Some((place, found)) => (found, Some(place)),
            None => (answer, None),
        }
    }

    #[inline(never)]
    fn earlier_answer<'a>(
        &self,
        earlier: &'a [Arc<Site>],
        reason: Reason,
        request: &Request<'a>,
        buffers: &'a mut Buffers,
        now: u64,
    ) -> Option<(usize, Answer<'a>)> {
        let Buffers { key, room, ruling } = buffers;
        let target = Target::parse(request.target)?;
        let host = if self.hosts { target.host(request.host) } else { None };
        let place = Place { host, key: target.key(key).ok()?, is_path: true };
        if matches!(reason, Reason::Rule(_)) && self.is_forced(place, &mut room.search) {
            return None;
        }
        let (number, resource) = self.find_earlier(earlier, place)?;
        let site = &earlier[number];
        let reason = Reason::Path(Origin::Carried);
        let answer = site.deliver(resource, None, request, &mut room.parts, now, reason, false);
        Some((number, site.finish(answer, place, request, ruling, false)))
    }

    /// Whether a rule that counts before files is for a path.
    fn is_forced<'a>(&'a self, place: Place<'a>, search: &mut Search) -> bool {
        self.archive.facts().forced_rules
            && Sites::of(&self.archive, place.host)
                .filter_map(Result::ok)
                .any(|host| resolve::is_forced(&self.archive, host, place.key, search).unwrap_or(true))
    }

    /// Finds the first release that has a path, as a file that may be kept for good.
    fn find_earlier<'a>(&self, earlier: &'a [Arc<Site>], place: Place<'_>) -> Option<(usize, Resource<'a>)> {
        earlier.iter().enumerate().find_map(|(number, site)| {
            let mut hosts = Sites::of(&self.archive, place.host).filter_map(Result::ok);
            let found = hosts.find_map(|host| immutable(&site.archive, host, place.key).ok().flatten());
            Some((number, found?))
        })
    }
}

/// The file at a path, if clients may keep it for good.
fn immutable<'a>(
    archive: &'a Archive,
    host: Option<&[u8]>,
    key: Key<'_>,
) -> Result<Option<Resource<'a>>, Corrupt> {
    let Some(Record::Resource(resource)) = archive.path(host, key)? else { return Ok(None) };
    Ok(is_immutable(archive, &resource)?.then_some(resource))
}

/// Whether a resource is a file whose name never stands for other bytes, because clients were told that they may keep
/// it for good.
///
/// # Errors
/// The archive is damaged.
pub fn is_immutable(archive: &Archive, resource: &Resource<'_>) -> Result<bool, Corrupt> {
    if !matches!(resource.origin, Origin::File | Origin::Carried) || resource.status != 200 {
        return Ok(false);
    }
    let Some(representation) = resource.representations().next().transpose()? else { return Ok(false) };
    Ok(has_immutable(&archive.head(representation.head)?))
}

/// Whether a head has `Cache-Control` with `immutable` (RFC 8246 §2).
fn has_immutable(head: &Head<'_>) -> bool {
    let mut lines = head.resource().split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], &line[colon + 1..]))
    });
    lines.any(|(name, value)| {
        let mut directives = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        name.eq_ignore_ascii_case(b"cache-control")
            && directives.any(|directive| directive.eq_ignore_ascii_case(b"immutable"))
    })
}
