//! The manifest: JSON in the archive that describes its build, for `inspect`, `explain`, `releases` and later builds.
//!
//! It doesn't depend on the machine: it contains no time, no path outside the source folder, no number of threads.

use std::collections::BTreeMap;

use cannery_archive::SCHEMA_VERSION;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::contents::coders;
use crate::ground::report::Report;
use crate::routes::{Routes, RuleName};
use crate::settings::options::Options;

/// The fields of a manifest that describe the release and those before it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// Date of the release in seconds since 1970-01-01 UTC, if it was built with one.
    pub released: Option<u64>,
    /// Earlier releases that the archive carries files of, newest first.
    pub previous: Vec<Release>,
    /// Paths of source files whose names look fingerprinted, although they stood for other bytes in an earlier release.
    pub mutable: Vec<String>,
}

/// An earlier release. The digest distinguishes releases with the same serial.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Release {
    /// The serial of the release.
    pub serial: u64,
    /// Digest of its archive, in hexadecimal digits.
    pub digest: String,
    /// Its date in seconds since 1970-01-01 UTC, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<u64>,
    /// Paths that were last part of this release, as in URLs; those of a host begin with `//host`.
    #[serde(default)]
    pub carried: Vec<String>,
}

impl Manifest {
    /// Parses the manifest record of an archive.
    ///
    /// # Errors
    /// Returns an error if it isn't JSON with these fields.
    pub fn parse(json: &[u8]) -> serde_json::Result<Manifest> {
        serde_json::from_slice(json)
    }
}

/// Returns the manifest of a build as JSON. `previous` are the releases that it carries files of, and `mutable` those of
/// [`Manifest::mutable`].
pub(crate) fn encode(
    options: &Options,
    report: &Report,
    previous: &[Release],
    mutable: &[String],
    routes: &Routes,
) -> Vec<u8> {
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

    let mut manifest = json!({
        "schema": SCHEMA_VERSION,
        "tool": concat!("cannery ", env!("CARGO_PKG_VERSION")),
        "encoders": encoders,
        "serial": report.serial,
        "released": options.released,
        "previous": previous,
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
    if !mutable.is_empty() {
        manifest["mutable"] = json!(mutable);
    }
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
