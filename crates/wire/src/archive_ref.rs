//! The archive that a response comes from.

use cannery_archive::Extent;

/// The archive that the ranges of an answer refer to.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveRef<'a> {
    /// Number of the archive among those that the connection serves, as in [`crate::Segment::Archive`].
    pub number: u16,
    /// The whole archive.
    pub bytes: &'a [u8],
    /// First bytes of the archive's digest: archives with the same identity are equal.
    pub identity: u64,
}

impl ArchiveRef<'_> {
    /// For responses without an archive.
    pub const NONE: ArchiveRef<'static> = ArchiveRef { number: 0, bytes: b"", identity: 0 };
}

/// Returns the bytes of a range, or `None` if it exceeds the archive, which `site` has already checked.
#[inline]
pub(crate) fn slice(archive: &[u8], extent: Extent) -> Option<&[u8]> {
    let position = usize::try_from(extent.position).ok()?;
    let length = usize::try_from(extent.length).ok()?;
    archive.get(position..)?.get(..length)
}
