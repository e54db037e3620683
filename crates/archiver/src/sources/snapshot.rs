//! The last build of this process, from which the next build takes everything that has not changed, that is, digests of files
//! and contents.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cannery_archive::{Archive, BodyId, Coding, Digest, Extent};
use cannery_base::FileStamp;
use foldhash::fast::RandomState;

use crate::ground::digest_map::DigestMap;
use crate::properties::precompressed;
use crate::sources::source_facts::SourceFacts;

/// If fewer files are missing, they may have been deleted by hand.
const LOST_FILES_MIN: usize = 8;

/// Files by path relative to the source folder.
///
/// Each build needs to look up all of them several times, so we use a fast hash.
pub(crate) type KnownFiles = HashMap<Box<[u8]>, KnownFile, RandomState>;

/// A finished build.
pub(crate) struct Snapshot {
    /// Builds are numbered in the order in which they start.
    pub(crate) number: u64,
    pub(crate) files: Arc<KnownFiles>,
    /// The archive. Builds of this kind always store all contents uncompressed too, so it contains every
    /// content.
    pub(crate) archive: Arc<Archive>,
    pub(crate) bodies: Bodies,
    /// Whether the site has a page for `/`.
    pub(crate) has_start_page: bool,
    /// Total length of all sources. This is used to estimate the length of the next archive.
    pub(crate) source_bytes: u64,
}

/// Bodies of an archive by digest, because looking them up in the archive itself would be much slower.
#[derive(Debug)]
pub(crate) enum Bodies {
    /// From an archive written by this process.
    Written { ids: DigestMap<BodyId>, extents: Vec<Extent> },
    /// From an archive that was read back.
    Read(DigestMap<Extent>),
}

impl Bodies {
    /// Creates a table. `extents` must contain an entry for each ID.
    pub(crate) fn new(ids: DigestMap<BodyId>, extents: &[Extent]) -> Bodies {
        Bodies::Written { ids, extents: extents.to_vec() }
    }

    pub(crate) fn from_archive(extents: DigestMap<Extent>) -> Bodies {
        Bodies::Read(extents)
    }

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

/// A file that was part of a finished build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownFile {
    pub(crate) stamp: FileStamp,
    pub(crate) facts: SourceFacts,
    /// `false` if the file was modified just before the build. It might change again without a new stamp.
    pub(crate) is_settled: bool,
    /// The coding of the file if the build had to decode it. `Identity` means that the content was already decoded.
    pub(crate) coding: Option<Coding>,
}

impl Snapshot {
    /// Returns a content, if the build had it.
    pub(super) fn content(&self, digest: &Digest) -> Option<&[u8]> {
        self.archive.body(self.bodies.find(digest)?).ok()
    }

    /// Estimates how long an archive will be if its sources have this length.
    pub(crate) fn estimate_archive_bytes(&self, source_bytes: u64) -> u64 {
        estimate_archive_bytes(self.archive.facts().file_bytes, self.source_bytes, source_bytes)
    }

    /// Returns `true` if the build had this content.
    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.bodies.find(digest).is_some()
    }
}

/// Estimates the length of an archive from the last one.
///
/// With fewer source bytes, the archive is assumed to shrink in proportion, as compressed contents shrink too. With
/// more, the difference is added.
fn estimate_archive_bytes(archive_before: u64, sources_before: u64, source_bytes: u64) -> u64 {
    let Some(removed_bytes) = sources_before.checked_sub(source_bytes).filter(|removed| *removed > 0) else {
        return archive_before.saturating_add(source_bytes - sources_before);
    };
    let removed = u128::from(archive_before) * u128::from(removed_bytes) / u128::from(sources_before);
    archive_before.saturating_sub(u64::try_from(removed).unwrap_or(u64::MAX))
}

/// The last build, and changed files for which the next build should still use its version.
#[derive(Clone, Default)]
pub(crate) struct Earlier {
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// Files that another process is writing.
    pub(crate) held_back: BTreeSet<Box<[u8]>>,
    /// Files that have been held back for too long, so they should be read even while they are still
    /// being written.
    pub(crate) overdue: BTreeSet<Box<[u8]>>,
    /// Contents of new files. These need to be captured when the folder is listed, because temporary files may
    /// vanish at any moment.
    pub(crate) captured: HashMap<Box<[u8]>, Captured>,
}

/// A version of a file.
#[derive(Clone)]
pub(crate) struct Captured {
    pub(crate) stamp: FileStamp,
    pub(crate) content: Arc<[u8]>,
}

impl Earlier {
    /// Returns a file in the last build, unless its stamp has changed.
    pub(crate) fn unchanged(&self, path: &[u8], stamp: &FileStamp) -> Option<&KnownFile> {
        let known = self.known(path)?;
        let is_usable = known.is_settled || self.held_back.contains(path);
        (is_usable && known.stamp == *stamp).then_some(known)
    }

    /// Looks up a file that the last build had to decode from this coding. This requires that its
    /// stamp is still the same.
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

    pub(crate) fn known(&self, path: &[u8]) -> Option<&KnownFile> {
        self.snapshot.as_ref()?.files.get(path)
    }

    /// Returns all files of the last build, in no particular order.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&[u8], FileStamp)> {
        let files = self.snapshot.as_ref().map(|snapshot| &*snapshot.files);
        files.into_iter().flatten().map(|(path, known)| (&**path, known.stamp))
    }

    /// The captured content of a new file, and its stamp at that time.
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

    /// Whether a folder with this number of files has lost more than half of the files of the last build, unless these are
    /// just a few.
    pub(crate) fn lacks_most(&self, files: usize) -> bool {
        let before = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.files.len());
        before.saturating_sub(files) >= LOST_FILES_MIN.max(files)
    }

    /// Returns the place of a content in the last build's archive.
    pub(super) fn extent(&self, digest: &Digest) -> Option<Extent> {
        self.snapshot.as_ref()?.bodies.find(digest)
    }

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

    /// Tables take thousands of bytes even in a tiny archive.
    ///
    /// If these were scaled in proportion, a photo would look like a video.
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
