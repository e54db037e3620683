//! The sites within one archive that a request is looked for in, by its host.
//!
//! The host's own, then those of all hosts below a part of its name, the longest first, then the default one; until
//! one is a whole site. Never looks at a path.

use cannery_archive::{Archive, Corrupt, Key};

/// A longer name is no name of the DNS (RFC 1035 §2.3.4), and is not looked for label by label.
const NAME_BYTES_MAX: usize = 253;

/// Where an answer is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The host, if it counts.
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) key: Key<'a>,
    /// Whether the request names a path at all, and the key is its.
    pub(crate) is_path: bool,
}

/// The sites that a host's requests are looked for in, in order, as [`Archive::path`] names them: nothing is the
/// default one.
pub struct Sites<'a> {
    archive: &'a Archive,
    next: Next<'a>,
}

enum Next<'a> {
    /// A host, or all below one.
    Host(&'a [u8]),
    Default,
    None,
}

impl<'a> Sites<'a> {
    /// The sites for a host; for requests without one if there is none.
    #[must_use]
    pub fn of(archive: &'a Archive, host: Option<&'a [u8]>) -> Sites<'a> {
        // No host begins with a dot: to an archive that means all hosts below.
        let host = host.filter(|host| !host.starts_with(b"."));
        Sites { archive, next: host.map_or(Next::Default, Next::Host) }
    }

    /// What comes behind a host: all below the next shorter part of its name that is short enough to be in the archive.
    fn behind(&self, host: &'a [u8]) -> Next<'a> {
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
            self.next = self.behind(host);
            // A host is known by what holds below its root.
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
