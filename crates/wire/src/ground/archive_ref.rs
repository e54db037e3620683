//! The archive that a response is from.

use cannery_archive::Extent;

/// The archive that an answer's ranges refer to.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveRef<'a> {
    /// Index among the connection's archives, as in [`crate::Segment::Archive`].
    pub number: u16,
    /// The whole archive.
    pub bytes: &'a [u8],
    /// The first bytes of the archive's digest. If these are the same, so are the archives.
    pub identity: u64,
}

impl ArchiveRef<'_> {
    /// For responses that are not from an archive.
    pub const NONE: ArchiveRef<'static> = ArchiveRef { number: 0, bytes: b"", identity: 0 };
}

/// Returns a range of the archive, or `None` if it is out of bounds (which `site` should have checked
/// already).
#[inline]
pub(crate) fn slice(archive: &[u8], extent: Extent) -> Option<&[u8]> {
    let position = usize::try_from(extent.position).ok()?;
    let length = usize::try_from(extent.length).ok()?;
    archive.get(position..)?.get(..length)
}
