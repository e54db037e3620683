//! Virtual hosts: the sites of an archive that are searched for a host.
//!
//! These are the site of the host, then the sites of the matching wildcards, the longest first, then the default site. The
//! search ends after a complete site (`own_site`).

use cannery_archive::{Archive, Corrupt, Key};

/// Maximum length of a DNS name in bytes (RFC 1035 §2.3.4). Wildcards are not tried for a longer name.
const NAME_BYTES_MAX: usize = 253;

/// The host and the path of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The host, or `None` for the default site.
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) key: Key<'a>,
    /// `false` if the request has no valid path. `key` is the root then.
    pub(crate) is_path: bool,
}

impl Place<'_> {
    /// The place of a request without a known host and path.
    pub(crate) const UNKNOWN: Place<'static> = Place { host: None, key: Key::ROOT, is_path: false };
}

/// Iterates over the sites that are searched for a host, in order. The items are hosts for [`Archive::path`]: `None` is the
/// default site, and a leading dot marks a wildcard.
pub struct Sites<'a> {
    archive: &'a Archive,
    next: Next<'a>,
}

enum Next<'a> {
    /// A host, or a wildcard with a leading dot.
    Host(&'a [u8]),
    Default,
    None,
}

impl<'a> Sites<'a> {
    /// Returns the sites for a host, or for requests without a host.
    #[must_use]
    pub fn new(archive: &'a Archive, host: Option<&'a [u8]>) -> Sites<'a> {
        // A host in a request must not match a wildcard literally.
        let host = host.filter(|host| !host.starts_with(b"."));
        Sites { archive, next: host.map_or(Next::Default, Next::Host) }
    }

    /// Returns the wildcard after a host: the next shorter suffix of its name that has few enough labels to be in the archive.
    fn after(&self, host: &'a [u8]) -> Next<'a> {
        if host.len() > NAME_BYTES_MAX {
            return Next::Default;
        }
        let labels_max = usize::from(self.archive.facts().wildcard_labels_max);
        let dots = host.iter().enumerate().skip(1).rev().filter(|(_, byte)| **byte == b'.');
        dots.take(labels_max).last().map_or(Next::Default, |(dot, _)| Next::Host(&host[dot..]))
    }
}

impl<'a> Iterator for Sites<'a> {
    type Item = Result<Option<&'a [u8]>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Next::Host(host) = self.next {
            self.next = self.after(host);
            // Each host of an archive has a scope at its root.
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
        match std::mem::replace(&mut self.next, Next::None) {
            Next::Default => Some(Ok(None)),
            Next::Host(_) | Next::None => None,
        }
    }
}
