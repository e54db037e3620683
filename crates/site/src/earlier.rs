//! Keeps some files of earlier releases, so that pages loaded before the current release will still work.
//!
//! Only resources with `Cache-Control: immutable` qualify because their content never changes. Exact paths of the current release
//! override them; they in turn override patterns and fallback pages of the current release.
//!
//! If the current release does not have a site for a host, we do not use earlier releases either: the site was taken down on
//! purpose.

use std::sync::Arc;

use cannery_archive::{Archive, Corrupt, Key, Origin, Record, Resource};

use crate::answer::{Answer, Reason};
use crate::lookup::Lookup;
use crate::request::target::Target;
use crate::request::{Method, Request};
use crate::site::{RequestBuffers, Scratch, Site};
use crate::sites::{Place, Sites};
use crate::steps::deliver::{Delivery, HeadKind};
use crate::steps::immutable::is_immutable;
use crate::steps::resolve::{self, Search};

impl Site {
    /// Returns the answer from this release or an earlier one.
    ///
    /// For an earlier release, also returns its index in `earlier`.
    #[inline]
    pub fn answer_with_earlier<'a>(
        &'a self,
        earlier: &'a [Arc<Site>],
        request: &Request<'a>,
        scratch: &'a mut Scratch,
    ) -> (Answer<'a>, Option<usize>) {
        let Scratch { current, earlier: buffers, now } = scratch;
        let answer = self.answer_in(request, current, *now);
        let is_exact = !matches!(
            answer.reason,
            Reason::NotFound | Reason::MissingAsset | Reason::Rule(_) | Reason::Fallback(_)
        );

        if is_exact || !matches!(request.method, Method::Get | Method::Head) {
            return (answer, None);
        }

        let releases = EarlierReleases { current: self, releases: earlier };
        match releases.answer(answer.reason, request, buffers, *now) {
            Some((index, found)) => (found, Some(index)),
            None => (answer, None),
        }
    }
}

/// Releases before the current one.
struct EarlierReleases<'a> {
    current: &'a Site,
    /// Newest first.
    releases: &'a [Arc<Site>],
}

impl<'a> EarlierReleases<'a> {
    /// Finds the first release with an immutable file at this path and returns its index and the answer.
    ///
    /// `reason` is from the current release's answer.
    #[inline(never)]
    fn answer(
        &self,
        reason: Reason,
        request: &Request<'a>,
        buffers: &'a mut RequestBuffers,
        now: u64,
    ) -> Option<(usize, Answer<'a>)> {
        let RequestBuffers { key, buffers, header_rules } = buffers;
        let target = Target::parse(request.target)?;
        let host = if self.current.has_hosts { target.host(request.host) } else { None };
        let place = Place { host, key: target.key(key).ok()?, is_path: true };
        if matches!(reason, Reason::Rule(_)) && self.has_forced_rule(place, &mut buffers.search) {
            return None;
        }

        let (index, resource) = self.find(place)?;
        let lookup = Lookup { archive: &self.releases[index].archive, place, query: None, request, now };
        let delivery = Delivery::new(Reason::Path(Origin::Carried));
        let answer = lookup.deliver(resource, delivery, &mut buffers.parts);
        Some((index, lookup.finish(answer, header_rules, HeadKind::Complete)))
    }

    /// Returns `true` if the current release has a matching rule that overrides exact paths, or if its rules are corrupt.
    fn has_forced_rule(&self, place: Place<'a>, search: &mut Search) -> bool {
        let archive = &self.current.archive;
        archive.facts().forced_rules
            && Sites::new(archive, place.host)
                .filter_map(Result::ok)
                .any(|host| resolve::has_forced_rule(archive, host, place.key, search).unwrap_or(true))
    }

    /// Finds the first release with an immutable file at this path, and returns its index.
    fn find(&self, place: Place<'_>) -> Option<(usize, Resource<'a>)> {
        self.releases.iter().enumerate().find_map(|(index, site)| {
            let mut hosts = Sites::new(&self.current.archive, place.host).filter_map(Result::ok);
            let found = hosts.find_map(|host| immutable_file(&site.archive, host, place.key).ok().flatten());
            Some((index, found?))
        })
    }
}

/// Returns the file at this path if it is immutable.
fn immutable_file<'a>(
    archive: &'a Archive,
    host: Option<&[u8]>,
    key: Key<'_>,
) -> Result<Option<Resource<'a>>, Corrupt> {
    let Some(Record::Resource(resource)) = archive.path(host, key)? else { return Ok(None) };
    Ok(is_immutable(archive, &resource)?.then_some(resource))
}
