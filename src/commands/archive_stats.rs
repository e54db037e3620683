//! What is in an archive, counted in one pass over its records.
//!
//! Never looks at a body's bytes, and never prints.

use std::collections::{BTreeSet, HashMap};

use cannery_archive::{
    Archive, Coding, Corrupt, Extent, Origin, Record, RecordKind, Resource, ScopeEntry, split_host,
};
use serde::Serialize;

use super::key_display;

/// How many of the biggest bodies are named.
const BIGGEST_MAX: usize = 10;

/// What is in an archive.
#[derive(Debug, Serialize)]
pub(super) struct ArchiveStats {
    /// The container: `cdb` or `cdb64`.
    pub(super) format: String,
    /// Which release of the site it is: a number that grows.
    pub(super) serial: u64,
    /// The digest of the whole, in hexadecimal.
    pub(super) digest: String,
    /// Length of the file in bytes.
    pub(super) archive_bytes: u64,
    pub(super) paths: Paths,
    /// Folders with something that holds below them.
    pub(super) scopes: u64,
    /// Pages that answer what finds nothing better.
    pub(super) fallback_pages: u64,
    /// Bodies of error answers, a count for each folder that has one.
    pub(super) error_pages: u64,
    /// Rules with a pattern.
    pub(super) pattern_rules: u64,
    /// Distinct response heads.
    pub(super) heads: u64,
    /// Source files that are kept and answer nothing under their own name.
    pub(super) sources: u64,
    /// Hosts with paths or rules of their own.
    pub(super) hosts: BTreeSet<String>,
    /// Distinct bodies by coding; no row for a coding that is not used.
    pub(super) codings: Vec<CodingCount>,
    /// Bytes of padding before large bodies, which begin with a page.
    pub(super) padding_bytes: u64,
    /// Bytes that the bodies of the files would take if none were shared.
    pub(super) unshared_bytes: u64,
    /// The biggest bodies, each with one path that is answered from it.
    pub(super) biggest: Vec<BigBody>,
    /// The manifest, as the archiver wrote it.
    pub(super) manifest: Option<serde_json::Value>,
}

/// Paths by where they come from.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Paths {
    pub(super) files: u64,
    pub(super) aliases: u64,
    pub(super) generated: u64,
    pub(super) rules: u64,
    /// Files of earlier releases.
    pub(super) carried: u64,
}

/// The distinct bodies of one coding.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct CodingCount {
    pub(super) coding: &'static str,
    pub(super) bodies: u64,
    pub(super) bytes: u64,
}

/// One of the biggest bodies.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct BigBody {
    pub(super) path: String,
    pub(super) coding: &'static str,
    pub(super) bytes: u64,
    /// How many paths, aliases included, are answered from it.
    pub(super) paths: u64,
}

/// Counts.
pub(super) fn take(archive: &Archive) -> Result<ArchiveStats, Corrupt> {
    let mut counter = Counter { archive, census: empty(archive)?, bodies: HashMap::new() };
    for entry in archive.entries() {
        counter.entry(&entry?)?;
    }
    Ok(counter.finish())
}

fn empty(archive: &Archive) -> Result<ArchiveStats, Corrupt> {
    let facts = archive.facts();
    Ok(ArchiveStats {
        format: archive.format().to_string(),
        serial: facts.serial,
        digest: facts.digest.to_string(),
        archive_bytes: facts.file_bytes,
        paths: Paths::default(),
        scopes: 0,
        fallback_pages: 0,
        error_pages: 0,
        pattern_rules: 0,
        heads: 0,
        sources: 0,
        hosts: BTreeSet::new(),
        codings: Vec::new(),
        padding_bytes: 0,
        unshared_bytes: 0,
        biggest: Vec::new(),
        manifest: archive.manifest()?.and_then(|json| serde_json::from_slice(json).ok()),
    })
}

struct Counter<'a> {
    archive: &'a Archive,
    census: ArchiveStats,
    /// By position, which no two bodies share unless both are empty.
    bodies: HashMap<u64, Body<'a>>,
}

/// A body that has been seen.
struct Body<'a> {
    coding: Coding,
    bytes: u64,
    key: &'a [u8],
    paths: u64,
}

impl<'a> Counter<'a> {
    fn entry(&mut self, entry: &cannery_archive::Entry<'a>) -> Result<(), Corrupt> {
        match entry.kind() {
            RecordKind::Head(_) => self.census.heads += 1,
            RecordKind::Path(key) => {
                self.host(key);
                match self.archive.decode_path(entry)? {
                    Record::Resource(resource) => self.resource(key, resource)?,
                    Record::Redirect(_) | Record::Rewrite(_) => self.census.paths.rules += 1,
                }
            }
            RecordKind::Scope(key) => {
                self.host(key);
                self.census.scopes += 1;
                for entry in self.archive.decode_scope(entry)?.entries() {
                    self.scope_entry(key, entry?)?;
                }
            }
            RecordKind::Source(path) => {
                self.census.sources += 1;
                let body = self.archive.decode_source(entry)?;
                self.body(path, Coding::Identity, body, 0);
                self.census.unshared_bytes += body.length;
            }
            RecordKind::Padding(_) => self.census.padding_bytes += entry.end() - entry.position,
            RecordKind::Facts
            | RecordKind::Manifest
            | RecordKind::Body(_)
            | RecordKind::PlainHead(_)
            | RecordKind::Unknown => {}
        }
        Ok(())
    }

    fn host(&mut self, key: &[u8]) {
        if let (Some(host), _) = split_host(key) {
            self.census.hosts.insert(String::from_utf8_lossy(host).into_owned());
        }
    }

    fn resource(&mut self, key: &'a [u8], resource: Resource<'a>) -> Result<(), Corrupt> {
        let paths = &mut self.census.paths;
        match resource.origin {
            Origin::File => paths.files += 1,
            Origin::Alias => paths.aliases += 1,
            Origin::Generated => paths.generated += 1,
            Origin::Rule => paths.rules += 1,
            Origin::Carried => paths.carried += 1,
        }
        for representation in resource.representations() {
            let representation = representation?;
            self.body(key, representation.coding, representation.body, 1);
            if matches!(resource.origin, Origin::File | Origin::Carried) {
                self.census.unshared_bytes += representation.body.length;
            }
        }
        Ok(())
    }

    fn scope_entry(&mut self, key: &'a [u8], entry: ScopeEntry<'a>) -> Result<(), Corrupt> {
        let record = match entry {
            ScopeEntry::Fallback { record, .. } => {
                self.census.fallback_pages += 1;
                record
            }
            ScopeEntry::ErrorPage { record, .. } => {
                self.census.error_pages += 1;
                record
            }
            ScopeEntry::Rule(rule) => {
                self.census.pattern_rules += 1;
                rule.record
            }
            ScopeEntry::HeaderRule(_) => return Ok(()),
        };
        let Record::Resource(resource) = record else { return Ok(()) };
        for representation in resource.representations() {
            let representation = representation?;
            self.body(key, representation.coding, representation.body, 0);
        }
        Ok(())
    }

    fn body(&mut self, key: &'a [u8], coding: Coding, extent: Extent, paths: u64) {
        let new = Body { coding, bytes: extent.length, key, paths: 0 };
        self.bodies.entry(extent.position).or_insert(new).paths += paths;
    }

    fn finish(mut self) -> ArchiveStats {
        for coding in Coding::ALL {
            let of_coding = self.bodies.values().filter(|body| body.coding == coding);
            let (bodies, bytes) = of_coding.fold((0, 0), |(count, sum), body| (count + 1, sum + body.bytes));
            if bodies > 0 {
                self.census.codings.push(CodingCount { coding: coding.name(), bodies, bytes });
            }
        }
        let mut bodies: Vec<_> = self.bodies.into_values().collect();
        bodies.sort_unstable_by_key(|body| (std::cmp::Reverse(body.bytes), body.key));
        self.census.biggest = bodies.iter().take(BIGGEST_MAX).map(Body::shown).collect();
        self.census
    }
}

impl Body<'_> {
    fn shown(&self) -> BigBody {
        BigBody {
            path: key_display::display(self.key),
            coding: self.coding.name(),
            bytes: self.bytes,
            paths: self.paths,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::sample::{INDEX, NOT_FOUND, REDIRECTS, Sample};

    #[test]
    fn everything_is_counted_once() {
        let sample = Sample::write();
        let census = take(&sample.open()).unwrap();
        assert_eq!(census.paths, Paths { files: 4, aliases: 1, generated: 0, rules: 1, carried: 0 });
        assert_eq!((census.scopes, census.error_pages, census.pattern_rules), (2, 1, 1));
        assert_eq!((census.heads, census.sources, census.fallback_pages), (3, 2, 0));
        assert_eq!(census.hosts.into_iter().collect::<Vec<_>>(), ["h.test"]);
        assert_eq!(census.manifest.unwrap()["tool"], "sample");
    }

    #[test]
    fn bodies_that_are_shared_count_once() {
        let sample = Sample::write();
        let census = take(&sample.open()).unwrap();
        let identity = &census.codings[0];
        assert_eq!((identity.coding, identity.bodies), ("identity", 3));
        assert_eq!(identity.bytes, (INDEX.len() + NOT_FOUND.len() + REDIRECTS.len()) as u64);
        let stored: u64 = census.codings.iter().map(|coding| coding.bytes).sum();
        assert_eq!(
            census.unshared_bytes - stored,
            2 * INDEX.len() as u64,
            "the index page lies there three times"
        );
        let index = census.biggest.iter().find(|body| body.bytes == INDEX.len() as u64).unwrap();
        assert_eq!(index.paths, 4);
    }
}
