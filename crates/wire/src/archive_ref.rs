//! Which archive an answer comes from.
//!
//! Never reads it.

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
