//! Finds certificates by DNS name, considering exact names first and then wildcards for one label
//! (RFC 6125 §6.4.3).
//!
//! The choice between several certificates for a name depends on the client and is therefore left to the
//! caller.

use std::collections::HashMap;

/// Positions in the list of certificates by name, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct NameIndex {
    exact: HashMap<Box<str>, Vec<usize>>,
    /// The key is the part after the asterisk, including the dot: `.example.com`.
    wildcard: HashMap<Box<str>, Vec<usize>>,
}

impl NameIndex {
    /// Adds a name of the certificate at `position`, for example `www.example.com` or `*.example.com`.
    pub(super) fn add(&mut self, name: &str, position: usize) {
        let name = name.to_ascii_lowercase();
        let positions = match name.strip_prefix('*') {
            Some(suffix) => self.wildcard.entry(suffix.into()).or_default(),
            None => self.exact.entry(name.into()).or_default(),
        };
        if !positions.contains(&position) {
            positions.push(position);
        }
    }

    /// Adds all names of `other`. In the combined list, its certificates begin at `start`.
    pub(super) fn append(&mut self, other: Self, start: usize) {
        for (ours, theirs) in [(&mut self.exact, other.exact), (&mut self.wildcard, other.wildcard)] {
            for (name, positions) in theirs {
                ours.entry(name).or_default().extend(positions.iter().map(|position| position + start));
            }
        }
    }

    /// Returns the positions of the certificates for a server name, which must be in lower case.
    pub(super) fn find(&self, name: &str) -> &[usize] {
        let exact = self.exact.get(name);
        let found = exact.or_else(|| self.wildcard.get(&name[name.find('.')?..]));
        found.map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests;
