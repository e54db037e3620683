//! Virtual hosts: which sites we search for a host.
//!
//! The host's own site comes first, then matching wildcards from longest to shortest, and finally the default site. The search
//! stops at a site that is complete (`own_site`).

use cannery_archive::{Archive, Corrupt, Key};

/// Maximum length of a DNS name, in bytes (RFC 1035 §2.3.4). We do not try wildcards when the name is longer.
const NAME_BYTES_MAX: usize = 253;

/// Host and path of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The host. `None` is the default site.
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) key: Key<'a>,
    /// Whether the request has a valid path. Otherwise, `key` is the root.
    pub(crate) is_path: bool,
}

impl Place<'_> {
    /// We know neither host nor path.
    pub(crate) const UNKNOWN: Place<'static> = Place { host: None, key: Key::ROOT, is_path: false };
}

/// Iterates over the sites to search for a host. Items are hosts for [`Archive::path`], where `None` is the default site and a dot
/// at the start means a wildcard.
pub struct Sites<'a> {
    archive: &'a Archive,
    next: Next<'a>,
}

enum Next<'a> {
    /// A host. A dot at the start means a wildcard.
    Host(&'a [u8]),
    Default,
    None,
}

impl<'a> Sites<'a> {
    /// Returns the sites for a host, or for a request without one (`None`).
    #[must_use]
    pub fn new(archive: &'a Archive, host: Option<&'a [u8]>) -> Sites<'a> {
        // A host in a request must never match as a wildcard, even if it looks like one.
        let host = host.filter(|host| !host.starts_with(b"."));
        Sites { archive, next: host.map_or(Next::Default, Next::Host) }
    }

    /// Returns the wildcard to try after this host, that is, the next shorter suffix. Suffixes with more labels than any wildcard
    /// in the archive are skipped.
    fn after(&self, host: &'a [u8]) -> Next<'a> {
        if host.len() > NAME_BYTES_MAX {
            return Next::Default;
        }

        let labels_max = usize::from(self.archive.facts().wildcard_labels_max);
        let dots = host.iter().enumerate().skip(1).rev().filter(|(_, byte)| **byte == b'.');
        dots.take(labels_max).last().map_or(Next::Default, |(dot, _)| Next::Host(&host[dot..]))
    }

    /// Returns the next site that is for a host, if there is another one.
    fn next_host(&mut self) -> Option<Result<Option<&'a [u8]>, Corrupt>> {
        while let Next::Host(host) = self.next {
            self.next = self.after(host);
            // If the archive has this host, there must be a scope at its root.
            match self.archive.scopes(Some(host), Key::ROOT).next() {
                Some(Ok((_, root))) => {
                    if root.own_site {
                        self.next = Next::None;
                    }
                    return Some(Ok(Some(host)));
                }
                Some(Err(corrupt)) => return Some(Err(corrupt)),
                None => {}
            }
        }
        None
    }
}

impl<'a> Iterator for Sites<'a> {
    type Item = Result<Option<&'a [u8]>, Corrupt>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.next, Next::Host(_))
            && let Some(site) = self.next_host()
        {
            return Some(site);
        }

        match std::mem::replace(&mut self.next, Next::None) {
            Next::Default => Some(Ok(None)),
            Next::Host(_) | Next::None => None,
        }
    }
}
