//! What was built: counts, sizes, what was left out and why.
//!
//! Filled in by the build, and shown by whoever asked for it. Never prints. The times in it are of this
//! run only; nothing of the report goes into the archive.

use serde::Serialize;

use crate::diagnostic::{Diagnostic, Severity};
use crate::progress::Stage;

/// What a build has done.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Source files that went in, control files such as `_redirects` included.
    pub files: u64,
    /// Source folders that were entered, the root included.
    pub folders: u64,
    /// Bytes of those files, each counted as often as it stands in the folder.
    pub bytes_in: u64,
    /// Distinct contents among them, generated pages included.
    pub contents: u64,
    /// Paths that answer, aliases, static rules and generated pages included.
    pub paths: u64,
    /// Paths that are another name of a file: index pages and names without suffix.
    pub aliases: u64,
    /// Static rules that redirect one path.
    pub redirects: u64,
    /// Rules with a pattern.
    pub rules: u64,
    /// Pages that the build made: folder listings.
    pub generated: u64,
    /// Paths of earlier releases that were carried forward. They are part of `paths`.
    pub carried: u64,
    /// The earlier releases within the bounds, newest first.
    pub previous: Vec<PreviousRelease>,
    /// Which release of the site this is.
    pub serial: u64,
    /// Distinct response heads.
    pub heads: u64,
    /// What was stored, by coding, in the order of [`cannery_archive::Coding::ALL`]; no row for a coding
    /// that was not used.
    pub codings: Vec<CodingTotal>,
    /// Bytes of padding before large bodies, which begin with a page.
    pub padding_bytes: u64,
    /// Length of the archive in bytes.
    pub archive_bytes: u64,
    /// The container: `cdb` or `cdb64`.
    pub format: &'static str,
    /// The digest of the archive, in hexadecimal.
    pub digest: String,
    /// What was left out by the rules for names, by rule.
    pub skipped: Vec<SkippedGroup>,
    /// What the build has to say about the source folder.
    pub diagnostics: Vec<Diagnostic>,
    /// What was wrong with the caches, each remark with the path of the cache. It has no influence on the archive, so
    /// [`Report::warnings`] does not count it.
    pub cache_warnings: Vec<Diagnostic>,
    /// The biggest files, at most [`Report::BIGGEST_MAX`].
    pub biggest: Vec<BigFile>,
    /// How useful the caches were.
    pub caches: CacheUse,
    /// How long each stage took.
    pub times: Vec<StageTime>,
}

impl Report {
    /// How many of the biggest files are named.
    pub const BIGGEST_MAX: usize = 10;
    /// How many paths are named for each rule that left some out.
    pub const EXAMPLES_MAX: usize = 5;

    /// How many warnings there are: what `strict` turns into an error.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.count(Severity::Warning)
    }

    /// Returns how many errors there are, each of which ends the build.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.count(Severity::Error)
    }

    fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }
}

/// What was stored in one coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CodingTotal {
    /// The coding as HTTP calls it.
    pub coding: &'static str,
    /// How many contents are stored in it.
    pub count: u64,
    /// Their bytes in this coding.
    pub bytes: u64,
    /// What the same contents have as they are.
    pub identity_bytes: u64,
}

/// An earlier release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PreviousRelease {
    /// Its serial.
    pub serial: u64,
    /// The digest of its archive, in hexadecimal.
    pub digest: String,
    /// How many paths were carried that were last part of it.
    pub carried: u64,
}

/// What one rule left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedGroup {
    /// The rule, completing "it was left out because …".
    pub reason: String,
    /// How many files and folders.
    pub count: u64,
    /// The first few of their paths, relative to the source folder; folders end with `/`.
    pub examples: Vec<String>,
}

/// One of the biggest files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BigFile {
    /// Its path, relative to the source folder.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// The coding's name and the length in bytes, for each form that is stored.
    pub codings: Vec<(&'static str, u64)>,
}

/// How useful the caches were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CacheUse {
    /// Files whose digest was remembered.
    pub files_known: u64,
    /// Files that were read to be recognised.
    pub files_read: u64,
    /// Results of compression that were found.
    pub encodings_found: u64,
    /// Results that had to be computed.
    pub encodings_made: u64,
}

/// How long a stage took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// Wall-clock seconds.
    pub seconds: f64,
}
