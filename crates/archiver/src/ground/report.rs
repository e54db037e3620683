//! Report of a build: numbers, sizes, remarks.
//!
//! The manifest in the archive only contains the numbers, because times will differ from run to run.

use std::collections::HashSet;

use serde::Serialize;

use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::ground::progress::Stage;

/// Result of a build.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Number of source files, including control files such as `_redirects`.
    pub files: u64,
    /// Number of source folders, including the root.
    pub folders: u64,
    /// Total size of these files in bytes. Duplicates count each time.
    pub bytes_in: u64,
    /// Number of distinct contents, including generated pages.
    pub contents: u64,
    /// Number of paths with a record: files, aliases, static rules, generated pages.
    pub paths: u64,
    /// Number of alternative paths of files: index pages and names without suffix.
    pub aliases: u64,
    /// Number of static redirects.
    pub redirects: u64,
    /// Number of rules with patterns.
    pub rules: u64,
    /// Number of generated pages: folder listings.
    pub generated: u64,
    /// Number of paths carried forward from earlier releases. `paths` includes these.
    pub carried: u64,
    /// Earlier releases within the limits, the newest first.
    pub previous: Vec<PreviousRelease>,
    /// Serial of this release.
    pub serial: u64,
    /// Number of distinct response heads.
    pub heads: u64,
    /// Totals by coding, in the order of [`cannery_archive::Coding::ALL`]. We omit codings that are not used.
    pub codings: Vec<CodingTotal>,
    /// Bytes of padding. Large bodies start at a page boundary, so they may need padding in front
    /// of them.
    pub padding_bytes: u64,
    /// Length of the archive in bytes.
    pub archive_bytes: u64,
    /// Format: `cdb` or `cdb64`.
    pub format: &'static str,
    /// Hexadecimal digest of the archive.
    pub digest: String,
    /// Names that were left out, by rule.
    pub skipped: Vec<SkippedGroup>,
    /// Remarks about the source folder.
    pub diagnostics: Vec<Diagnostic>,
    /// Problems with the caches and their paths. These aren't part of [`Report::warnings`] because they do not
    /// affect the archive.
    pub cache_warnings: Vec<Diagnostic>,
    /// The largest files, up to [`Report::BIGGEST_MAX`].
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

    /// Returns the number of warnings. With `strict`, these are an error.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.count(Severity::Warning)
    }

    /// Returns the files with a diagnostic that has this code.
    pub(crate) fn files_with(&self, code: &str) -> HashSet<String> {
        let found = self.diagnostics.iter().filter(|diagnostic| diagnostic.code == code);
        found.map(|diagnostic| diagnostic.file.clone()).collect()
    }

    /// Returns the number of errors. If there is one, the build fails.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.count(Severity::Error)
    }

    fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }
}

/// Totals for a coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
// Exhaustive: a row of the report, which tests of the programs construct.
pub struct CodingTotal {
    /// Name of the coding, as used in HTTP.
    pub coding: &'static str,
    /// Number of contents stored in this coding.
    pub count: u64,
    /// Total size in this coding, in bytes.
    pub bytes: u64,
    /// Total uncompressed size, in bytes.
    pub identity_bytes: u64,
}

/// An earlier release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
// Exhaustive: a row of the report, which tests of the programs construct.
pub struct PreviousRelease {
    /// Serial of the release.
    pub serial: u64,
    /// Hexadecimal digest of its archive.
    pub digest: String,
    /// Number of carried paths that were last part of this release.
    pub carried: u64,
}

/// Names left out by the same rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
// Exhaustive: a row of the report, which tests of the programs construct.
pub struct SkippedGroup {
    /// The rule, to complete "left out because …".
    pub reason: String,
    /// Number of files and folders.
    pub count: u64,
    /// The first few paths, relative to the source folder. Folders end with `/`.
    pub examples: Vec<String>,
}

/// One of the largest files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
// Exhaustive: a row of the report, which tests of the programs construct.
pub struct BigFile {
    /// Path relative to the source folder.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Name and length in bytes of each stored coding.
    pub codings: Vec<(&'static str, u64)>,
}

/// Hits and misses of the caches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheUse {
    /// Files with a cached digest.
    pub files_known: u64,
    /// Files that had to be read and hashed.
    pub files_read: u64,
    /// Compressed contents from the cache.
    pub encodings_found: u64,
    /// Compressed contents that had to be computed.
    pub encodings_made: u64,
    /// Pages and style sheets whose links are cached.
    pub pages_known: u64,
}

/// Duration of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
// Exhaustive: a row of the report, which tests of the programs construct.
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// Wall-clock seconds.
    pub seconds: f64,
}
