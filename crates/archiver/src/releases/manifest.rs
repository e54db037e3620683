//! Archive manifest: JSON that describes the build, for `inspect`, `explain`, `releases` and later builds.
//!
//! It does not contain any times, paths outside of the source folder, or thread counts, so it is the same on every
//! machine.

use std::collections::BTreeMap;

use cannery_archive::SCHEMA_VERSION;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ground::report::Report;
use crate::routes::{Routes, RuleName};
use crate::settings::options::Options;

/// The part of a manifest that describes the release and earlier ones.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Manifest {
    /// Release date in seconds since 1970-01-01 UTC, if given to the build.
    pub released: Option<u64>,
    /// Earlier releases from which the archive carries files, the newest first.
    pub previous: Vec<Release>,
    /// Source files with names that look fingerprinted, even though an earlier release had other bytes
    /// under these names.
    pub mutable: Vec<String>,
}

/// An earlier release. Serials may not be unique, but digests are.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Release {
    /// Serial of the release.
    pub serial: u64,
    /// Hexadecimal digest of its archive.
    pub digest: String,
    /// Its date in seconds since 1970-01-01 UTC, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<u64>,
    /// Paths that were last part of this release, in the form used in URLs. Paths of a host begin with `//host`.
    #[serde(default)]
    pub carried: Vec<String>,
}

impl Manifest {
    /// Parses an archive's manifest record.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not JSON or its fields have other types.
    pub fn parse(json: &[u8]) -> serde_json::Result<Manifest> {
        serde_json::from_slice(json)
    }
}

/// Returns a build's manifest as JSON. For `previous` and `mutable`, see [`Manifest`].
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
            let description = json!({ "level": options.levels.of(*encoder), "version": encoder.version() });
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

/// Returns all rule files and, for each rule, either `[FILE, LINE, ORDINAL]` or `[FILE, LINE, PATH, HOST]`, where `FILE` is an
/// index into the first list. This allows `explain` to name rules.
fn rule_lines(routes: &Routes) -> (Vec<&str>, Vec<Value>) {
    let mut files: Vec<&str> = routes.rule_lines.iter().map(|line| &*line.file).collect();
    // Consecutive rules typically come from the same file, so this shortens the list considerably before it is
    // sorted.
    files.dedup();
    files.sort_unstable();
    files.dedup();

    let lines = routes.rule_lines.iter().map(|line| {
        let file = files.binary_search(&&*line.file).unwrap_or_default();
        match &line.rule {
            RuleName::Ordinal(ordinal) => json!([file, line.line, ordinal]),
            RuleName::Path(host, path) => {
                // In archives, wildcard hosts begin with a dot rather than `*.`.
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
