//! The last build of a process, from which the next one takes what hasn't changed: digests of files and their contents.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cannery_archive::{Archive, BodyId, Coding, Digest, Extent};
use cannery_base::FileStamp;
use foldhash::fast::RandomState;

use crate::ground::digest_map::DigestMap;
use crate::properties::precompressed;
use crate::sources::source_facts::SourceFacts;

/// Fewer files may have been deleted by hand.
const LOST_FILES_MIN: usize = 8;

/// Files by path, relative to the source folder. Each build looks up all of them several times, so their hash is a fast one.
pub(crate) type KnownFiles = HashMap<Box<[u8]>, KnownFile, RandomState>;

/// A finished build.
pub(crate) struct Snapshot {
    /// Builds are numbered in the order in which they start.
    pub(crate) number: u64,
    pub(crate) files: Arc<KnownFiles>,
    /// Has the contents, because a build of this kind always stores them uncompressed too.
    pub(crate) archive: Arc<Archive>,
    pub(crate) bodies: Bodies,
    /// Whether the site has a page for `/`.
    pub(crate) has_start_page: bool,
    /// Length of all sources, from which the length of the next archive is estimated.
    pub(crate) source_bytes: u64,
}

/// The bodies of an archive by digest. Finding one here takes a fraction of the time that a lookup in the archive takes.
#[derive(Debug)]
pub(crate) enum Bodies {
    /// Of an archive that this process has written.
    Written { ids: DigestMap<BodyId>, extents: Vec<Extent> },
    /// Of one that was read back.
    Read(DigestMap<Extent>),
}

impl Bodies {
    /// `extents` are those of all IDs.
    pub(crate) fn new(ids: DigestMap<BodyId>, extents: &[Extent]) -> Bodies {
        Bodies::Written { ids, extents: extents.to_vec() }
    }

    pub(crate) fn from_archive(extents: DigestMap<Extent>) -> Bodies {
        Bodies::Read(extents)
    }

    /// Returns the number of bodies.
    pub(crate) fn len(&self) -> usize {
        match self {
            Bodies::Written { extents, .. } => extents.len(),
            Bodies::Read(extents) => extents.len(),
        }
    }

    pub(crate) fn find(&self, digest: &Digest) -> Option<Extent> {
        match self {
            Bodies::Written { ids, extents } => ids.get(digest).map(|id| extents[id.index()]),
            Bodies::Read(extents) => extents.get(digest).copied(),
        }
    }
}

/// A file of a finished build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownFile {
    pub(crate) stamp: FileStamp,
    pub(crate) facts: SourceFacts,
    /// `false` if the file could have changed once more without a new stamp, because it was modified just before the build.
    pub(crate) is_settled: bool,
    /// The coding from which the build decoded the file, if it did. `Identity` stands for a content that was decoded before.
    pub(crate) coding: Option<Coding>,
}

impl Snapshot {
    /// Returns a content, if it was part of the build.
    pub(super) fn content(&self, digest: &Digest) -> Option<&[u8]> {
        self.archive.body(self.bodies.find(digest)?).ok()
    }

    /// Estimates the length of an archive of sources with this length.
    pub(crate) fn estimate_archive_bytes(&self, source_bytes: u64) -> u64 {
        estimate_archive_bytes(self.archive.facts().file_bytes, self.source_bytes, source_bytes)
    }

    /// Returns `true` if a content was part of the build.
    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.bodies.find(digest).is_some()
    }
}

/// Estimates the length of an archive of `source_bytes` bytes of sources, from that of another one: shorter in proportion, because
/// the compressed contents shrink too, or longer by the new sources.
fn estimate_archive_bytes(archive_before: u64, sources_before: u64, source_bytes: u64) -> u64 {
    let Some(removed_bytes) = sources_before.checked_sub(source_bytes).filter(|removed| *removed > 0) else {
        return archive_before.saturating_add(source_bytes - sources_before);
    };
    let removed = u128::from(archive_before) * u128::from(removed_bytes) / u128::from(sources_before);
    archive_before.saturating_sub(u64::try_from(removed).unwrap_or(u64::MAX))
}

/// The last build, and the files for which the next one takes its version although they have changed.
#[derive(Clone, Default)]
pub(crate) struct Earlier {
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// Files that another process is writing.
    pub(crate) held_back: BTreeSet<Box<[u8]>>,
    /// Files that have been held back for long enough, and are read although they are being written.
    pub(crate) overdue: BTreeSet<Box<[u8]>>,
    /// New files, with their contents when the folder was listed: temporary files vanish at any time.
    pub(crate) captured: HashMap<Box<[u8]>, Captured>,
}

/// A version of a file.
#[derive(Clone)]
pub(crate) struct Captured {
    pub(crate) stamp: FileStamp,
    pub(crate) content: Arc<[u8]>,
}

impl Earlier {
    /// Returns a file of the last build, if it still has this stamp.
    pub(crate) fn unchanged(&self, path: &[u8], stamp: &FileStamp) -> Option<&KnownFile> {
        let known = self.known(path)?;
        let is_usable = known.is_settled || self.held_back.contains(path);
        (is_usable && known.stamp == *stamp).then_some(known)
    }

    /// Returns a file that the last build decoded from this coding, if it still has this stamp.
    pub(crate) fn unchanged_decoded(
        &self,
        path: &[u8],
        stamp: &FileStamp,
        coding: Coding,
    ) -> Option<&KnownFile> {
        let known = self.known(path)?;
        let is_same = known.stamp == precompressed::stamp_of_decoded(stamp, known.stamp.version.size);
        (known.is_settled && known.coding == Some(coding) && is_same).then_some(known)
    }

    /// Returns a file of the last build.
    pub(crate) fn known(&self, path: &[u8]) -> Option<&KnownFile> {
        self.snapshot.as_ref()?.files.get(path)
    }

    /// Returns the captured content of a new file, and its stamp then.
    pub(super) fn captured(&self, path: &[u8]) -> Option<(FileStamp, &[u8])> {
        self.captured.get(path).map(|captured| (captured.stamp, &*captured.content))
    }

    /// Returns `true` if the last build had files.
    pub(crate) fn has_files(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|snapshot| !snapshot.files.is_empty())
    }

    /// Returns `true` if the last build had a page for `/`.
    pub(crate) fn has_start_page(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|snapshot| snapshot.has_start_page)
    }

    /// Returns `true` if a folder with this number of files has lost more than half of those of the last build, and more than a few.
    pub(crate) fn lacks_most(&self, files: usize) -> bool {
        let before = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.files.len());
        before.saturating_sub(files) >= LOST_FILES_MIN.max(files)
    }

    /// Returns where the archive of the last build has a content.
    pub(super) fn extent(&self, digest: &Digest) -> Option<Extent> {
        self.snapshot.as_ref()?.bodies.find(digest)
    }

    /// Returns a content of the last build.
    pub(super) fn content(&self, digest: &Digest) -> Option<&[u8]> {
        self.snapshot.as_ref()?.content(digest)
    }
}

impl std::fmt::Debug for Earlier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Earlier").field("held_back", &self.held_back).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of a few bytes has thousands for its tables. In proportion, a photo would have become a video.
    #[test]
    fn archive_that_grows_is_estimated_by_the_difference() {
        assert_eq!(estimate_archive_bytes(2_300, 11, 400_011), 402_300);
        assert_eq!(estimate_archive_bytes(2_300, 0, 400_000), 402_300);
        assert_eq!(estimate_archive_bytes(2_300, 11, 11), 2_300);
        assert_eq!(estimate_archive_bytes(2_300, 0, 0), 2_300);
        assert_eq!(estimate_archive_bytes(u64::MAX, 1, 10), u64::MAX);
    }

    #[test]
    fn archive_that_shrinks_is_estimated_in_proportion() {
        assert_eq!(estimate_archive_bytes(100, 50, 25), 50);
        assert_eq!(estimate_archive_bytes(100, 50, 0), 0);
        assert_eq!(estimate_archive_bytes(u64::MAX, u64::MAX, 1), 1);
    }
}
