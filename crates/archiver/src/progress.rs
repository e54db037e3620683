//! How far a build has come, told to whoever watches.
//!
//! The build never waits for an answer, and never depends on one. Nothing here prints.

use serde::Serialize;

/// A stage of a build, in the order in which they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Listing the source folder. Nothing is counted.
    Walk,
    /// Planning what answers which path. Nothing is counted.
    Route,
    /// Reading and hashing. Counts files.
    Read,
    /// Compressing. Counts bytes of content, each once however many codings there are.
    Encode,
    /// Writing what answers each path. Counts paths.
    Write,
    /// Looking for broken links. Counts pages and style sheets.
    Links,
    /// Bringing the archive to the disk and giving it its name. Nothing is counted.
    Publish,
}

/// Whoever watches a build. Called from several threads.
pub trait Progress: Sync {
    /// A stage begins; `total` is what it will count up to, if it counts.
    fn stage(&self, stage: Stage, total: Option<u64>);

    /// So much more of the stage is done.
    fn advance(&self, by: u64);
}

/// Nobody watches.
impl Progress for () {
    fn stage(&self, _: Stage, _: Option<u64>) {}

    fn advance(&self, _: u64) {}
}
