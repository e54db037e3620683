//! Archive statistics. We only need a single pass over the records, and never read the bodies themselves.

use std::collections::{BTreeSet, HashMap};

use cannery_archive::{
    Archive, Coding, Corrupt, Extent, Origin, Record, RecordKind, Resource, ScopeEntry, split_host,
};
use serde::Serialize;

use super::key_display;

/// Maximum length of the list of largest bodies.
const LARGEST_MAX: usize = 10;

/// Numbers and sizes of everything in an archive.
///
/// The names of the fields must not be changed, because they are used in the JSON output.
#[derive(Debug, Serialize)]
pub(super) struct ArchiveStats {
    /// Container format: `cdb` or `cdb64`.
    pub(super) format: String,
    /// Release number. It grows with each release.
    pub(super) serial: u64,
    /// Hexadecimal digest of the archive.
    pub(super) digest: String,
    /// File length in bytes.
    pub(super) archive_bytes: u64,
    pub(super) paths: Paths,
    /// Folders with rules, error pages or fallback pages.
    pub(super) scopes: u64,
    /// Pages that answer if a path has no record.
    pub(super) fallback_pages: u64,
    /// Error pages. If several folders have one, each of them counts.
    pub(super) error_pages: u64,
    /// Rules with patterns.
    pub(super) pattern_rules: u64,
    /// Distinct response heads.
    pub(super) heads: u64,
    /// Source files without a path.
    pub(super) sources: u64,
    /// Hosts that have paths or rules.
    pub(super) hosts: BTreeSet<String>,
    /// Distinct bodies by coding. Unused codings are omitted.
    pub(super) codings: Vec<CodingCount>,
    /// Bytes of padding. Large bodies are aligned to pages, so they may need padding in front of them.
    pub(super) padding_bytes: u64,
    /// Bytes that the bodies of files would take if equal ones were not shared.
    pub(super) unshared_bytes: u64,
    /// The largest bodies.
    pub(super) biggest: Vec<LargeBody>,
    /// The manifest as written by the archiver.
    pub(super) manifest: Option<serde_json::Value>,
}

/// Number of paths by origin.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Paths {
    pub(super) files: u64,
    pub(super) aliases: u64,
    pub(super) generated: u64,
    pub(super) rules: u64,
    /// Files of earlier releases.
    pub(super) carried: u64,
}

/// Distinct bodies with the same coding.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct CodingCount {
    pub(super) coding: &'static str,
    pub(super) bodies: u64,
    pub(super) bytes: u64,
}

/// One of the largest bodies, with one of its paths.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct LargeBody {
    pub(super) path: String,
    pub(super) coding: &'static str,
    pub(super) bytes: u64,
    /// Number of paths with this body, including aliases.
    pub(super) paths: u64,
}

/// Counts an archive's records and bytes.
pub(super) fn collect(archive: &Archive) -> Result<ArchiveStats, Corrupt> {
    let mut counter = Counter { archive, stats: empty(archive)?, bodies: HashMap::new() };
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
    stats: ArchiveStats,
    /// Distinct bodies by position. This is unique, except that empty bodies can share a position with
    /// another one.
    bodies: HashMap<u64, Body<'a>>,
}

struct Body<'a> {
    coding: Coding,
    bytes: u64,
    key: &'a [u8],
    paths: u64,
}

impl<'a> Counter<'a> {
    fn entry(&mut self, entry: &cannery_archive::Entry<'a>) -> Result<(), Corrupt> {
        match entry.kind() {
            RecordKind::Head(_) => self.stats.heads += 1,
            RecordKind::Path(key) => {
                self.host(key);
                match self.archive.decode_path(entry)? {
                    Record::Resource(resource) => self.resource(key, resource)?,
                    Record::Redirect(_) | Record::Rewrite(_) => self.stats.paths.rules += 1,
                }
            }
            RecordKind::Scope(key) => {
                self.host(key);
                self.stats.scopes += 1;
                for entry in self.archive.decode_scope(entry)?.entries() {
                    self.scope_entry(key, entry?)?;
                }
            }
            // Clients are not able to request this path, so it should not count as a path of the body.
            RecordKind::Source(path) => {
                self.stats.sources += 1;
                let body = self.archive.decode_source(entry)?;
                self.body(path, Coding::Identity, body, 0);
                self.stats.unshared_bytes += body.length;
            }
            RecordKind::Padding(_) => self.stats.padding_bytes += entry.end() - entry.position,
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
            self.stats.hosts.insert(String::from_utf8_lossy(host).into_owned());
        }
    }

    fn resource(&mut self, key: &'a [u8], resource: Resource<'a>) -> Result<(), Corrupt> {
        let paths = &mut self.stats.paths;
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
            // By design, an alias has the same bodies as its file. If it were counted here, the savings from sharing
            // would be exaggerated.
            if matches!(resource.origin, Origin::File | Origin::Carried) {
                self.stats.unshared_bytes += representation.body.length;
            }
        }
        Ok(())
    }

    fn scope_entry(&mut self, key: &'a [u8], entry: ScopeEntry<'a>) -> Result<(), Corrupt> {
        let record = match entry {
            ScopeEntry::Fallback { record, .. } => {
                self.stats.fallback_pages += 1;
                record
            }
            ScopeEntry::ErrorPage { record, .. } => {
                self.stats.error_pages += 1;
                record
            }
            ScopeEntry::Rule(rule) => {
                self.stats.pattern_rules += 1;
                rule.record
            }
            ScopeEntry::HeaderRule(_) => return Ok(()),
        };

        // These bodies answer paths that are not known here, so they should not count as paths.
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
                self.stats.codings.push(CodingCount { coding: coding.name(), bodies, bytes });
            }
        }

        let mut bodies: Vec<_> = self.bodies.into_values().collect();
        bodies.sort_unstable_by_key(|body| (std::cmp::Reverse(body.bytes), body.key));
        self.stats.biggest = bodies.iter().take(LARGEST_MAX).map(Body::to_large).collect();
        self.stats
    }
}

impl Body<'_> {
    fn to_large(&self) -> LargeBody {
        LargeBody {
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
    fn every_record_is_counted_once() {
        let sample = Sample::write();
        let stats = collect(&sample.open()).unwrap();
        assert_eq!(stats.paths, Paths { files: 4, aliases: 1, generated: 0, rules: 1, carried: 0 });
        assert_eq!((stats.scopes, stats.error_pages, stats.pattern_rules), (2, 1, 1));
        assert_eq!((stats.heads, stats.sources, stats.fallback_pages), (3, 2, 0));
        assert_eq!(stats.hosts.into_iter().collect::<Vec<_>>(), ["h.test"]);
        assert_eq!(stats.manifest.unwrap()["tool"], "sample");
    }

    #[test]
    fn shared_bodies_count_once() {
        let sample = Sample::write();
        let stats = collect(&sample.open()).unwrap();
        let identity = &stats.codings[0];
        assert_eq!((identity.coding, identity.bodies), ("identity", 3));
        assert_eq!(identity.bytes, (INDEX.len() + NOT_FOUND.len() + REDIRECTS.len()) as u64);
        let stored: u64 = stats.codings.iter().map(|coding| coding.bytes).sum();
        assert_eq!(
            stats.unshared_bytes - stored,
            2 * INDEX.len() as u64,
            "three files have the content of the index page"
        );
        let index = stats.biggest.iter().find(|body| body.bytes == INDEX.len() as u64).unwrap();
        assert_eq!(index.paths, 4);
    }
}
