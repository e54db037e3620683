//! The sites within one archive that a request is looked for in, by its host.
//!
//! The host's own, if the archive knows it, and then the default one, unless the host has a whole site.
//! Never looks at a path.

use cannery_archive::{Archive, Corrupt, Key};

/// Where an answer is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The host, if it counts.
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) key: Key<'a>,
}

/// The sites that a host's requests are looked for in, in order: nothing is the default one.
pub(crate) struct Sites<'a> {
    archive: &'a Archive,
    next: Next<'a>,
}

enum Next<'a> {
    Host(&'a [u8]),
    Default,
    None,
}

impl<'a> Sites<'a> {
    pub(crate) fn of(archive: &'a Archive, host: Option<&'a [u8]>) -> Sites<'a> {
        Sites { archive, next: host.map_or(Next::Default, Next::Host) }
    }
}

impl<'a> Iterator for Sites<'a> {
    type Item = Result<Option<&'a [u8]>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Next::Host(host) = self.next {
            self.next = Next::Default;
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
