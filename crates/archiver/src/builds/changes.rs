//! Compares the source files of two builds.

use std::sync::Arc;

use cannery_base::FileStamp;

use crate::sources::snapshot::{KnownFile, KnownFiles};

/// Source files of a build in memory. This is used to compare it with other builds, so clones should be
/// cheap.
#[derive(Clone)]
pub struct BuiltFiles(pub(super) Arc<KnownFiles>);

/// A file that differs between two builds.
#[derive(Debug, Clone, PartialEq, Eq)]
// Exhaustive: tests of the programs construct it.
pub struct Change {
    /// The path relative to the source folder. Invalid UTF-8 is replaced with U+FFFD.
    pub path: String,
    /// Length in bytes in the older build, or `None` when the file is new.
    pub bytes_before: Option<u64>,
    /// Length in bytes in the newer build, or `None` if the file was removed.
    pub bytes_after: Option<u64>,
}

impl BuiltFiles {
    /// Iterates over the paths of all files (relative to the source folder) and their stamps,
    /// in arbitrary order.
    pub fn stamps(&self) -> impl Iterator<Item = (&[u8], &FileStamp)> {
        self.0.iter().map(|(path, file)| (&**path, &file.stamp))
    }

    /// Compares this with another build by the same compiler. The result contains all files that were added, modified
    /// or removed since then, sorted by path.
    #[must_use]
    pub fn changes_since(&self, before: &BuiltFiles) -> Vec<Change> {
        let differing = self.0.iter().filter_map(|(path, new)| {
            let old = before.0.get(path);
            let is_same = old.is_some_and(|old| old.facts.digest == new.facts.digest);
            (!is_same).then(|| Change::new(path, old, Some(new)))
        });
        let removed = before.0.iter().filter(|(path, _)| !self.0.contains_key(*path));
        let removed = removed.map(|(path, old)| Change::new(path, Some(old), None));

        let mut changes: Vec<Change> = differing.chain(removed).collect();
        changes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        changes
    }
}

impl std::fmt::Debug for BuiltFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuiltFiles").field("len", &self.0.len()).finish()
    }
}

impl Change {
    fn new(path: &[u8], before: Option<&KnownFile>, after: Option<&KnownFile>) -> Change {
        let size = |file: &KnownFile| file.stamp.version.size;
        Change {
            path: String::from_utf8_lossy(path).into_owned(),
            bytes_before: before.map(size),
            bytes_after: after.map(size),
        }
    }
}
