//! The sites that one server answers for, and which of them a request is for.
//!
//! Found by host: the exact one, else the nearest wildcard, else the default. Where there is nothing but the
//! default, nothing is looked at. Never allocates to answer.

use std::sync::Arc;

use cannery_site::{Method, Request, Site, Target};

use crate::config::HostPattern;
use crate::pages::{BuiltinPages, Page};

/// The sites that one server answers for.
#[derive(Debug)]
pub(crate) struct Sites {
    all: Vec<Entry>,
    /// Earlier releases of all entries, whose numbers follow those of the entries.
    earlier: Vec<Arc<Site>>,
    /// Which of them answers for hosts that no other one does.
    default: Option<usize>,
    builtin_pages: BuiltinPages,
}

/// A site, and whom it answers for.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Nothing for the default.
    pub(crate) host: Option<HostPattern>,
    pub(crate) site: Arc<Site>,
    /// Other releases of it, the newest first: they answer immutable paths that `site` lacks.
    pub(crate) earlier: Vec<Arc<Site>>,
}

impl Sites {
    pub(crate) fn new(all: Vec<Entry>, builtin_pages: BuiltinPages) -> Sites {
        let default = all.iter().position(|entry| entry.host.is_none());
        let earlier = all.iter().flat_map(|entry| entry.earlier.iter().cloned()).collect();
        Sites { all, earlier, default, builtin_pages }
    }

    /// The same server with other releases.
    pub(crate) fn with(&self, entries: Vec<Entry>) -> Sites {
        Sites::new(entries, self.builtin_pages.clone())
    }

    /// The page of the server's own at the target of a request, if it has one there.
    #[inline]
    pub(super) fn builtin_page(&self, request: &Request<'_>) -> Option<Page<'_>> {
        if !BuiltinPages::may_have(request.target) {
            return None;
        }
        self.builtin_pages.at(Target::parse(request.target)?.path)
    }

    /// The same for a host that no site answers for: an authority may ask for a certificate's names one after the other.
    #[cold]
    pub(crate) fn challenge(&self, request: &Request<'_>) -> Option<Page<'_>> {
        let is_read = matches!(request.method, Method::Get | Method::Head);
        self.builtin_pages.challenge(Target::parse(request.target)?.path).filter(|_| is_read)
    }

    /// The site that a request is for, and its number; nothing if no site answers for its host.
    #[inline]
    pub(crate) fn of(&self, request: &Request<'_>) -> Option<(u16, &Entry)> {
        let place = match (self.default, self.all.len()) {
            (Some(default), 1) => default,
            _ => self.by_host(request)?,
        };
        Some((u16::try_from(place).ok()?, self.all.get(place)?))
    }

    /// The number of an earlier release, by its place among those of an entry, and its site.
    #[cold]
    pub(crate) fn earlier(&self, number: u16, place: usize) -> Option<(u16, &Site)> {
        let before = self.all.get(..usize::from(number))?;
        let number = self.all.len() + before.iter().map(|entry| entry.earlier.len()).sum::<usize>() + place;
        let number = u16::try_from(number).ok()?;
        Some((number, self.get(number)?))
    }

    /// The site that answers for hosts that no other one does, and its number.
    pub(crate) fn default(&self) -> Option<(u16, &Site)> {
        let place = self.default?;
        Some((u16::try_from(place).ok()?, self.all.get(place)?.site.as_ref()))
    }

    // Most servers have one site: what looks at hosts stands aside.
    #[inline(never)]
    fn by_host(&self, request: &Request<'_>) -> Option<usize> {
        // What has no form at all is for the default, which says so.
        let host = Target::parse(request.target).map_or(request.host, |target| target.host(request.host));
        let Some(host) = host else { return self.default };
        let matching = self
            .all
            .iter()
            .enumerate()
            .filter_map(|(place, entry)| Some((entry.host.as_ref()?.matches(host)?, place)));
        matching.max_by_key(|(nearness, _)| *nearness).map(|(_, place)| place).or(self.default)
    }

    /// The site of a number that [`Sites::of`] or [`Sites::earlier`] gave.
    #[inline]
    pub(crate) fn get(&self, number: u16) -> Option<&Site> {
        let number = usize::from(number);
        match self.all.get(number) {
            Some(entry) => Some(entry.site.as_ref()),
            None => self.earlier.get(number - self.all.len()).map(Arc::as_ref),
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.all
    }
}
