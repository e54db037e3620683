//! The sites of a server, and the selection of one for a request.
//!
//! The exact host is preferred, followed by the nearest wildcard and the default site. With only a
//! default site, we do not look at the host at all. Lookups never allocate any memory.

use std::sync::Arc;

use cannery_site::{Method, Request, Site, Target};
use cannery_wire::RequestHead;

use super::entry::Entry;
use super::hosted::{self, Hosted, HostedSites};
use crate::observe::CertificateHealth;
use crate::pages::{BuiltinPages, Page};
use crate::trusted_hosts::{TrustedHosts, requested_hosts};

/// The sites of a server.
#[derive(Debug)]
pub(crate) struct Sites {
    all: Vec<Entry>,
    /// Earlier releases of all entries. They are numbered after the entries.
    earlier: Vec<Arc<Site>>,
    /// Index of the site for all other hosts.
    default: Option<usize>,
    /// Sites of a site directory.
    hosted: Option<Arc<HostedSites>>,
    builtin_pages: BuiltinPages,
    /// Hosts to respond for in addition to those that a site names. `None` if we respond for any
    /// host.
    trusted_hosts: Option<TrustedHosts>,
}

/// The site for a request.
pub(super) enum Selection<'a> {
    /// The site, and its number.
    Site(u16, &'a Entry),
    /// The site of the host can't be served.
    Unavailable(Unavailable),
    /// The host has no site.
    Unknown,
}

/// Why a site can't be served.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unavailable {
    /// Its archive is damaged, for example.
    Refused,
    /// It can't be opened right now.
    Busy,
}

impl Sites {
    pub(crate) fn new(all: Vec<Entry>, builtin_pages: BuiltinPages) -> Sites {
        let default = all.iter().position(|entry| entry.host.is_none());
        let earlier: Vec<_> = all.iter().flat_map(|entry| entry.earlier.iter().cloned()).collect();
        debug_assert!(
            all.len() + earlier.len() <= usize::from(hosted::FIRST_NUMBER),
            "sites have 16-bit numbers"
        );
        Sites { all, earlier, default, hosted: None, builtin_pages, trusted_hosts: None }
    }

    /// Restricts the hosts that we respond for.
    pub(super) fn trusting(self, trusted_hosts: Option<TrustedHosts>) -> Sites {
        Sites { trusted_hosts, ..self }
    }

    /// Returns sites with other entries, but the same built-in pages and trusted hosts.
    pub(crate) fn with(&self, entries: Vec<Entry>) -> Sites {
        let sites = Sites::new(entries, self.builtin_pages.clone()).trusting(self.trusted_hosts.clone());
        Sites { hosted: self.hosted.clone(), ..sites }
    }

    /// Returns the same sites with other ones of a site directory.
    pub(crate) fn with_hosted(&self, hosted: Arc<HostedSites>) -> Sites {
        Sites { hosted: Some(hosted), ..self.with(self.all.clone()) }
    }

    /// Returns `true` if no host has a site.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.hosted.is_none()
    }

    /// Returns `true` if requests may be for any host.
    pub(super) fn trusts_all_hosts(&self) -> bool {
        self.trusted_hosts.is_none()
    }

    /// If we do not respond for the host of a request (it might be a stranger's name for this machine),
    /// returns the host.
    #[inline]
    pub(super) fn untrusted_host<'r>(&self, request: &Request<'r>) -> Option<&'r [u8]> {
        let trusted = self.trusted_hosts.as_ref()?;
        requested_hosts(request).find(|host| !trusted.includes(host) && !self.has_host(host))
    }

    /// Checks for a site with exactly this host name. A stranger may have a name that matches a
    /// wildcard, so these do not count.
    #[cold]
    fn has_host(&self, host: &[u8]) -> bool {
        let host = host.to_ascii_lowercase();
        self.all.iter().any(|entry| {
            let nearest = cannery_site::Sites::new(entry.site.archive(), Some(&host)).next();
            matches!(nearest, Some(Ok(Some(name))) if name == host)
        })
    }

    /// Returns the path of the script to be added to documents.
    #[inline]
    pub(super) fn document_script(&self) -> Option<&str> {
        self.builtin_pages.live.as_ref()?.0.document_script()
    }

    /// Returns the built-in page for a request (if any).
    #[inline]
    pub(super) fn builtin_page(&self, head: &RequestHead<'_>) -> Option<Page<'_>> {
        let target = head.request.target;
        if !BuiltinPages::may_have(target) {
            return None;
        }
        self.builtin_pages.at(&Target::parse(target)?, head)
    }

    /// Returns the health of the certificates, as the heartbeat reports it.
    pub(super) fn certificate_health(&self) -> Arc<CertificateHealth> {
        Arc::clone(&self.builtin_pages.certificate_health)
    }

    /// Finds the page for a host that does not have a site. This may be a challenge, because a
    /// certificate authority may validate several names of a certificate; or it might be the heartbeat,
    /// because load balancers typically use an address or do not send a host at all.
    #[cold]
    pub(super) fn page_of_any_host(&self, request: &Request<'_>) -> Option<Page<'_>> {
        let is_read = matches!(request.method, Method::Get | Method::Head);
        self.builtin_pages.of_any_host(&Target::parse(request.target)?).filter(|_| is_read)
    }

    /// Selects the site for a request.
    #[inline]
    pub(super) fn of(&self, request: &Request<'_>) -> Selection<'_> {
        match (self.default, self.all.len(), &self.hosted) {
            (Some(default), 1, None) => self.selection(Some(default)),
            _ => self.by_host(request),
        }
    }

    #[inline]
    fn selection(&self, index: Option<usize>) -> Selection<'_> {
        let found = index.and_then(|index| Some((u16::try_from(index).ok()?, self.all.get(index)?)));
        match found {
            Some((_, entry)) if entry.is_withdrawn => Selection::Unavailable(Unavailable::Refused),
            Some((number, entry)) => Selection::Site(number, entry),
            None => Selection::Unknown,
        }
    }

    /// Returns the number and the site of an earlier release. It has this index in entry `number`.
    #[cold]
    pub(super) fn earlier(&self, number: u16, index: usize) -> Option<(u16, &Site)> {
        if number >= hosted::FIRST_NUMBER {
            // These follow their site.
            let number = number.checked_add(u16::try_from(index).ok()?)?.checked_add(1)?;
            return Some((number, self.get(number)?));
        }
        let before = self.all.get(..usize::from(number))?;
        let number = self.all.len() + before.iter().map(|entry| entry.earlier.len()).sum::<usize>() + index;
        let number = u16::try_from(number).ok()?;
        Some((number, self.get(number)?))
    }

    /// Returns the site for all other hosts, and the number. `None` if it can't be served.
    pub(super) fn default(&self) -> Option<(u16, &Site)> {
        let index = self.default?;
        let entry = self.all.get(index).filter(|entry| !entry.is_withdrawn)?;
        Some((u16::try_from(index).ok()?, entry.site.as_ref()))
    }

    // Most servers only have one site, so do not inline this.
    #[inline(never)]
    fn by_host(&self, request: &Request<'_>) -> Selection<'_> {
        // If the target is malformed, fall back to the `Host` field and then to the default site.
        let host = Target::parse(request.target).map_or(request.host, |target| target.host(request.host));
        let Some(host) = host else { return self.selection(self.default) };
        let matching = self
            .all
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| Some((entry.host.as_ref()?.specificity(host)?, index)));
        let best = matching.max_by_key(|(specificity, _)| *specificity);

        // A site that the command line names exactly comes before one of the site directory, and that one before a wildcard.
        if let Some(hosted) = &self.hosted
            && best.is_none_or(|(specificity, _)| specificity < usize::MAX)
        {
            match hosted.find(host) {
                Hosted::Site(number, entry) => return Selection::Site(number, entry),
                Hosted::Refused => return Selection::Unavailable(Unavailable::Refused),
                Hosted::Busy => return Selection::Unavailable(Unavailable::Busy),
                Hosted::Missing => {}
            }
        }
        self.selection(best.map(|(_, index)| index).or(self.default))
    }

    /// Returns the site with a number that came from [`Sites::of`] or [`Sites::earlier`].
    #[inline]
    pub(super) fn get(&self, number: u16) -> Option<&Site> {
        let number = usize::from(number);
        match self.all.get(number) {
            Some(entry) => Some(entry.site.as_ref()),
            None => match self.earlier.get(number - self.all.len()) {
                Some(site) => Some(site.as_ref()),
                None => self.hosted.as_ref()?.get(u16::try_from(number).ok()?),
            },
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.all
    }
}
