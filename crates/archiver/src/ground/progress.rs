//! Progress of a build, reported to an observer.
//!
//! The build never waits for the observer.

use serde::Serialize;

/// A stage of a build, in chronological order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Lists the source folder. Without a count.
    Walk,
    /// Plans the routes. Without a count.
    Route,
    /// Reads and hashes. Counts files.
    Read,
    /// Compresses. Counts bytes of content, once for all codings.
    Encode,
    /// Writes records. Counts paths.
    Write,
    /// Looks for broken links. Counts pages and style sheets.
    Links,
    /// Syncs and renames the archive. Without a count.
    Publish,
}

/// Observes a build. Methods are called from several threads.
pub trait Progress: Sync {
    /// A stage begins, which will count up to `total` if it counts.
    fn stage(&self, stage: Stage, total: Option<u64>);

    /// The stage has advanced by this many units.
    fn advance(&self, by: u64);
}

/// Ignores all events.
impl Progress for () {
    fn stage(&self, _: Stage, _: Option<u64>) {}

    fn advance(&self, _: u64) {}
}
