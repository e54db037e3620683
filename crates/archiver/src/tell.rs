//! What a build tells of itself: the report for who runs it, the manifest for who holds the archive.
//!
//! Nothing of the machine goes into the manifest: no clock, no path, no number of threads.

use std::collections::BTreeMap;

use cannery_archive::{Coding, SCHEMA_VERSION, WriteReport};
use serde_json::{Value, json};

use crate::carry::Carried;
use crate::coders;
use crate::emit::Emitted;
use crate::encode::Tally;
use crate::options::Options;
use crate::read::Outcome;
use crate::report::{BigFile, CacheUse, CodingTotal, PreviousRelease, Report, SkippedGroup};
use crate::routes::{Routes, RuleName};
use crate::source::Sources;
use crate::walk::Skipped;

/// What was left out, by rule, the most frequent first.
pub(crate) fn skipped(skipped: &[Skipped]) -> Vec<SkippedGroup> {
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

/// Counts what went in and what came of it.
pub(crate) fn count(
    report: &mut Report,
    sources: &Sources,
    routes: &Routes,
    read: &Outcome,
    tally: &Tally,
    emitted: &Emitted,
) {
    report.files = sources.files.len() as u64;
    report.folders = sources.folders.len() as u64;
    report.bytes_in = sources.files.iter().map(|file| file.stamp.size).sum();
    report.contents = read.contents.all.len() as u64;
    report.paths = routes.paths.len() as u64;
    report.aliases = emitted.aliases;
    report.redirects = emitted.redirects;
    report.rules = routes.scopes.values().map(|scope| scope.rules.len() as u64).sum();
    report.heads = emitted.heads;
    report.codings = codings(read);
    report.biggest = biggest(sources, read);
    report.caches = CacheUse {
        files_known: read.found_in_cache,
        files_read: sources.files.len() as u64 - read.found_in_cache,
        encodings_found: tally.found,
        encodings_made: tally.made,
    };
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
    let file = |content: &&crate::content::Content| BigFile {
        path: String::from_utf8_lossy(sources.path(content.first)).into_owned(),
        bytes: content.length,
        codings: content.forms.iter().map(|form| (form.coding.name(), form.length)).collect(),
    };
    contents.iter().take(Report::BIGGEST_MAX).map(file).collect()
}

/// What earlier releases have given.
pub(crate) fn carried(report: &mut Report, serial: u64, carried: &Carried) {
    let told = |release: &crate::previous::Release| PreviousRelease {
        serial: release.serial,
        digest: release.digest.clone(),
        carried: release.carried.len() as u64,
    };
    report.serial = serial;
    report.carried = carried.paths.len() as u64;
    report.paths += report.carried;
    report.previous = carried.releases.iter().map(told).collect();
}

/// What the finished archive says of itself.
pub(crate) fn archive(report: &mut Report, written: &WriteReport) {
    report.padding_bytes = written.padding_bytes;
    report.archive_bytes = written.facts.file_bytes;
    report.digest = written.facts.digest.to_string();
    report.format = match written.format {
        cannery_archive::Format::Cdb => "cdb",
        cannery_archive::Format::Cdb64 => "cdb64",
    };
}

/// The manifest, as JSON.
pub(crate) fn manifest(options: &Options, report: &Report, carried: &Carried, routes: &Routes) -> Vec<u8> {
    let (rule_files, rule_lines) = rule_lines(routes);
    let encoders: BTreeMap<&str, _> = options
        .encoders
        .iter()
        .map(|encoder| {
            let told = json!({ "level": options.levels.of(*encoder), "version": coders::version(*encoder) });
            (encoder.name(), told)
        })
        .collect();
    let manifest = json!({
        "schema": SCHEMA_VERSION,
        "tool": concat!("cannery ", env!("CARGO_PKG_VERSION")),
        "encoders": encoders,
        "serial": report.serial,
        "released": options.released,
        "previous": carried.releases,
        "files": report.files,
        "folders": report.folders,
        "paths": report.paths,
        "aliases": report.aliases,
        "redirects": report.redirects,
        "rules": report.rules,
        "rule_files": rule_files,
        "rule_lines": rule_lines,
        "contents": report.contents,
        "codings": report.codings,
    });
    manifest.to_string().into_bytes()
}

/// The rule files, and for each rule `[FILE, LINE, ORDINAL]` or `[FILE, LINE, PATH, HOST]`, with the file as an index
/// into the first list: what `explain` names a rule by.
fn rule_lines(routes: &Routes) -> (Vec<&str>, Vec<Value>) {
    let mut files: Vec<&str> = routes.rule_lines.iter().map(|line| &*line.file).collect();
    // Rules of one file mostly follow each other.
    files.dedup();
    files.sort_unstable();
    files.dedup();
    let lines = routes.rule_lines.iter().map(|line| {
        let file = files.binary_search(&&*line.file).unwrap_or_default();
        match &line.rule {
            RuleName::Ordinal(ordinal) => json!([file, line.line, ordinal]),
            RuleName::Path(host, path) => {
                // All hosts below one begin with a dot in the archive.
                let host = routes.host_name(*host).map(|host| host.strip_prefix('*').unwrap_or(host));
                match host {
                    Some(host) => json!([file, line.line, String::from_utf8_lossy(path), host]),
                    None => json!([file, line.line, String::from_utf8_lossy(path)]),
                }
            }
        }
    });
    let lines = lines.collect();
    (files, lines)
}
