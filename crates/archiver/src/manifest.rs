//! The manifest: JSON in the archive that describes its build, for `inspect`, `explain` and later releases.
//!
//! It doesn't depend on the machine: it contains no time, no path outside the source folder, no number of threads.

use std::collections::BTreeMap;

use cannery_archive::SCHEMA_VERSION;
use serde_json::{Value, json};

use crate::carry::Carried;
use crate::coders;
use crate::options::Options;
use crate::report::Report;
use crate::routes::{Routes, RuleName};

/// Returns the manifest as JSON.
pub(crate) fn encode(options: &Options, report: &Report, carried: &Carried, routes: &Routes) -> Vec<u8> {
    let (rule_files, rule_lines) = rule_lines(routes);
    let encoders: BTreeMap<&str, _> = options
        .encoders
        .iter()
        .map(|encoder| {
            let description =
                json!({ "level": options.levels.of(*encoder), "version": coders::version(*encoder) });
            (encoder.name(), description)
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

/// Returns the rule files, and for each rule `[FILE, LINE, ORDINAL]` or `[FILE, LINE, PATH, HOST]`, with the file as an
/// index into the first list. `explain` uses it to name rules.
fn rule_lines(routes: &Routes) -> (Vec<&str>, Vec<Value>) {
    let mut files: Vec<&str> = routes.rule_lines.iter().map(|line| &*line.file).collect();
    // Consecutive rules are mostly of one file.
    files.dedup();
    files.sort_unstable();
    files.dedup();
    let lines = routes.rule_lines.iter().map(|line| {
        let file = files.binary_search(&&*line.file).unwrap_or_default();
        match &line.rule {
            RuleName::Ordinal(ordinal) => json!([file, line.line, ordinal]),
            RuleName::Path(host, path) => {
                // Wildcard hosts begin with a dot in the archive.
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
