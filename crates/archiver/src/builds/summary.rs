//! Fills in the [`Report`] of a build.

use std::collections::BTreeMap;

use cannery_archive::{Coding, Format, WriteReport};

use crate::contents::content::Content;
use crate::contents::encode::Tally;
use crate::contents::read::Outcome;
use crate::ground::report::{BigFile, CacheUse, CodingTotal, PreviousRelease, Report, SkippedGroup};
use crate::records::emit::Emitted;
use crate::releases::carryover::Carryover;
use crate::releases::manifest::Release;
use crate::routes::Routes;
use crate::sources::source::Sources;
use crate::tree::walk::Skipped;

/// Results of all pipeline stages.
pub(crate) struct Results<'a> {
    pub(crate) sources: &'a Sources,
    pub(crate) routes: &'a Routes,
    pub(crate) read: &'a Outcome,
    pub(crate) tally: &'a Tally,
    pub(crate) emitted: &'a Emitted,
}

impl Report {
    /// Adds the numbers of files, paths, contents and codings.
    pub(crate) fn add_counts(&mut self, results: &Results<'_>) {
        let Results { sources, routes, read, tally, emitted } = results;
        self.files = sources.files.len() as u64;
        self.folders = sources.folders.len() as u64;
        self.bytes_in = sources.files.iter().map(|file| file.stamp.version.size).sum();
        self.contents = read.contents.all.len() as u64;
        self.paths = routes.paths.len() as u64;
        self.aliases = emitted.aliases;
        self.redirects = emitted.redirects;
        self.rules = routes.scopes.values().map(|scope| scope.rules.len() as u64).sum();
        self.heads = emitted.heads;
        self.codings = codings(read);
        self.biggest = biggest(sources, read);
        self.caches = CacheUse {
            files_known: read.found_in_cache,
            files_read: sources.files.len() as u64 - read.found_in_cache,
            encodings_found: tally.found,
            encodings_made: tally.made,
            // Links are checked later.
            pages_known: 0,
        };
    }

    /// Adds the paths carried over from earlier releases.
    pub(crate) fn add_carried(&mut self, serial: u64, carried: &Carryover) {
        let release = |release: &Release| PreviousRelease {
            serial: release.serial,
            digest: release.digest.clone(),
            carried: release.carried.len() as u64,
        };
        self.serial = serial;
        self.carried = carried.paths.len() as u64;
        self.paths += self.carried;
        self.previous = carried.releases.iter().map(release).collect();
    }

    /// Adds the facts that are known once the archive is finished.
    pub(crate) fn add_archive(&mut self, written: &WriteReport) {
        self.padding_bytes = written.padding_bytes;
        self.archive_bytes = written.facts.file_bytes;
        self.digest = written.facts.digest.to_string();
        self.format = match written.format {
            Format::Cdb => "cdb",
            Format::Cdb64 => "cdb64",
        };
    }
}

/// Groups skipped names by rule, the most frequent rule first.
pub(super) fn skipped(skipped: &[Skipped]) -> Vec<SkippedGroup> {
    let mut groups: BTreeMap<String, (u64, Vec<String>)> = BTreeMap::new();
    for one in skipped {
        let group = groups.entry(one.reason.to_string()).or_default();
        group.0 += 1;
        if group.1.len() < Report::EXAMPLES_MAX {
            group.1.push(String::from_utf8_lossy(&one.path).into_owned());
        }
    }
    let group = |(reason, (count, examples))| SkippedGroup { reason, count, examples };
    let mut groups: Vec<SkippedGroup> = groups.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

fn codings(read: &Outcome) -> Vec<CodingTotal> {
    let total = |coding: Coding| {
        let mut total = CodingTotal { coding: coding.name(), count: 0, bytes: 0, identity_bytes: 0 };
        for content in &read.contents.all {
            if let Some(form) = content.forms.iter().find(|form| form.coding == coding) {
                total.count += 1;
                total.bytes += form.length;
                total.identity_bytes += content.length;
            }
        }
        total
    };
    Coding::ALL.into_iter().map(total).filter(|total| total.count > 0).collect()
}

fn biggest(sources: &Sources, read: &Outcome) -> Vec<BigFile> {
    let mut contents: Vec<_> = read.contents.all.iter().collect();
    contents.sort_by_key(|content| (std::cmp::Reverse(content.length), content.first));
    let file = |content: &&Content| BigFile {
        path: String::from_utf8_lossy(sources.path(content.first)).into_owned(),
        bytes: content.length,
        codings: content.forms.iter().map(|form| (form.coding.name(), form.length)).collect(),
    };
    contents.iter().take(Report::BIGGEST_MAX).map(file).collect()
}
