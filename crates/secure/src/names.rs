//! Which certificates a name has: exact names first, then wildcards of one label (RFC 6125 §6.4.3).
//!
//! Never decides among the certificates of a name: that depends on what a client can verify.

use std::collections::HashMap;

/// Places in the list of certificates by name, each list in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Names {
    exact: HashMap<Box<str>, Vec<usize>>,
    /// By what follows the star, with its dot: `.example.com`.
    wildcard: HashMap<Box<str>, Vec<usize>>,
}

impl Names {
    /// Adds a name of a certificate: `www.example.com` or `*.example.com`.
    pub(crate) fn add(&mut self, name: &str, place: usize) {
        let name = name.to_ascii_lowercase();
        let places = match name.strip_prefix('*') {
            Some(rest) => self.wildcard.entry(rest.into()).or_default(),
            None => self.exact.entry(name.into()).or_default(),
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }

    /// Adds all of `others`, whose certificates stand in the list from `start` on.
    pub(crate) fn append(&mut self, others: Self, start: usize) {
        for (mine, theirs) in [(&mut self.exact, others.exact), (&mut self.wildcard, others.wildcard)] {
            for (name, places) in theirs {
                mine.entry(name).or_default().extend(places.iter().map(|place| place + start));
            }
        }
    }

    /// The certificates for a name that a client asked for, which is in lower case already. Empty where there is none.
    pub(crate) fn find(&self, name: &str) -> &[usize] {
        let exact = self.exact.get(name);
        let found = exact.or_else(|| self.wildcard.get(&name[name.find('.')?..]));
        found.map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests;
