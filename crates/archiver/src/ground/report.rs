//! Report of a build: counts, sizes, remarks.
//!
//! The times are those of this run. Of the report, only counts get into the archive, in the manifest.

use std::collections::HashSet;

use serde::Serialize;

use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::ground::progress::Stage;

/// The result of a build.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Number of source files, including control files such as `_redirects`.
    pub files: u64,
    /// Number of source folders, including the root.
    pub folders: u64,
    /// Total size of those files in bytes; duplicates count each time.
    pub bytes_in: u64,
    /// Number of distinct contents, including generated pages.
    pub contents: u64,
    /// Number of paths that have a record: files, aliases, static rules, generated pages.
    pub paths: u64,
    /// Number of alternative paths of files: index pages and names without suffix.
    pub aliases: u64,
    /// Number of static redirects.
    pub redirects: u64,
    /// Number of rules with a pattern.
    pub rules: u64,
    /// Number of generated pages: folder listings.
    pub generated: u64,
    /// Number of paths carried forward from earlier releases, which `paths` includes.
    pub carried: u64,
    /// Earlier releases within the limits, newest first.
    pub previous: Vec<PreviousRelease>,
    /// Serial of this release.
    pub serial: u64,
    /// Number of distinct response heads.
    pub heads: u64,
    /// Totals by coding, in the order of [`cannery_archive::Coding::ALL`], without unused codings.
    pub codings: Vec<CodingTotal>,
    /// Padding before large bodies, which start at a page boundary, in bytes.
    pub padding_bytes: u64,
    /// Length of the archive in bytes.
    pub archive_bytes: u64,
    /// The format: `cdb` or `cdb64`.
    pub format: &'static str,
    /// Digest of the archive in hexadecimal.
    pub digest: String,
    /// Names that were left out, by rule.
    pub skipped: Vec<SkippedGroup>,
    /// Remarks about the source folder.
    pub diagnostics: Vec<Diagnostic>,
    /// Problems with the caches, each with the path of the cache. They don't affect the archive, so [`Report::warnings`]
    /// doesn't count them.
    pub cache_warnings: Vec<Diagnostic>,
    /// The largest files, at most [`Report::BIGGEST_MAX`].
    pub biggest: Vec<BigFile>,
    /// Hits and misses of the caches.
    pub caches: CacheUse,
    /// Duration of each stage.
    pub times: Vec<StageTime>,
}

impl Report {
    /// Maximum number of largest files.
    pub const BIGGEST_MAX: usize = 10;
    /// Maximum number of example paths per rule.
    pub const EXAMPLES_MAX: usize = 5;

    /// Returns the number of warnings, which `strict` turns into an error.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.count(Severity::Warning)
    }

    /// Returns the files that have a diagnostic with this code.
    pub(crate) fn files_with(&self, code: &str) -> HashSet<String> {
        let found = self.diagnostics.iter().filter(|diagnostic| diagnostic.code == code);
        found.map(|diagnostic| diagnostic.file.clone()).collect()
    }

    /// Returns the number of errors. One suffices to fail the build.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.count(Severity::Error)
    }

    fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }
}

/// Totals of one coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CodingTotal {
    /// Name of the coding in HTTP.
    pub coding: &'static str,
    /// Number of contents stored in it.
    pub count: u64,
    /// Their total size in this coding, in bytes.
    pub bytes: u64,
    /// Their total size uncompressed, in bytes.
    pub identity_bytes: u64,
}

/// An earlier release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PreviousRelease {
    /// Its serial.
    pub serial: u64,
    /// The digest of its archive, in hexadecimal.
    pub digest: String,
    /// Number of carried paths that were last part of it.
    pub carried: u64,
}

/// Names that one rule left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedGroup {
    /// The rule, as the end of "left out because …".
    pub reason: String,
    /// Number of files and folders.
    pub count: u64,
    /// The first few paths, relative to the source folder; folders end with `/`.
    pub examples: Vec<String>,
}

/// One of the largest files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BigFile {
    /// Its path, relative to the source folder.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Name and length in bytes of each stored coding.
    pub codings: Vec<(&'static str, u64)>,
}

/// Hits and misses of the caches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CacheUse {
    /// Files with a cached digest.
    pub files_known: u64,
    /// Files that had to be read and hashed.
    pub files_read: u64,
    /// Compressed contents from the cache.
    pub encodings_found: u64,
    /// Compressed contents that had to be computed.
    pub encodings_made: u64,
}

/// Duration of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// Wall-clock seconds.
    pub seconds: f64,
}
