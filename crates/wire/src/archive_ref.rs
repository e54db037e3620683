//! Which archive an answer comes from.
//!
//! Knows nothing of what is in it.

use cannery_archive::Extent;

/// The archive that an answer's ranges are of.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveRef<'a> {
    /// Which of those that the connection answers from, as [`crate::Segment::Archive`] names it.
    pub number: u16,
    /// All of it.
    pub bytes: &'a [u8],
    /// The beginning of its digest: two archives with the same one are the same.
    pub identity: u64,
}

impl ArchiveRef<'_> {
    /// For answers without an archive.
    pub const NONE: ArchiveRef<'static> = ArchiveRef { number: 0, bytes: b"", identity: 0 };
}

/// The bytes of a range, which `site` has checked to lie within the archive.
#[inline]
pub(crate) fn slice(archive: &[u8], extent: Extent) -> Option<&[u8]> {
    let (position, length) = (usize::try_from(extent.position).ok()?, usize::try_from(extent.length).ok()?);
    archive.get(position..)?.get(..length)
}
