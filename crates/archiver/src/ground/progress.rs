//! Reports a build's progress to an observer. The build will never wait for it.

use serde::Serialize;

/// A stage of a build, in chronological order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
// Exhaustive: programs must name each stage.
pub enum Stage {
    /// Lists the source folder. Does not count.
    Walk,
    /// Plans the routes. Does not count.
    Route,
    /// Reads and hashes files. Counts files.
    Read,
    /// Compresses contents. Counts bytes, once for all codings.
    Encode,
    /// Writes records. Counts paths.
    Write,
    /// Looks for broken links. Counts pages and style sheets.
    Links,
    /// Syncs and renames the archive. Does not count.
    Publish,
}

/// Observes a build. Methods may be called from several threads.
pub trait Progress: Sync {
    /// A stage begins. If it can be counted, the count will go up to `total`.
    fn stage(&self, stage: Stage, total: Option<u64>);

    /// The stage has advanced by this many units.
    fn advance(&self, by: u64);
}

/// Ignores all events.
impl Progress for () {
    fn stage(&self, _: Stage, _: Option<u64>) {}

    fn advance(&self, _: u64) {}
}
