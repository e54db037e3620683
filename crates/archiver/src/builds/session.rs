//! State of a single build made by a [`Compiler`](crate::Compiler).

use std::collections::BTreeSet;

use crate::contents::memory_cache::MemoryCache;
use crate::destination::disk::Space;
use crate::routes::listing::Listings;
use crate::settings::cancel::CancelFlag;
use crate::settings::effort::Effort;
use crate::sources::snapshot::Earlier;
use crate::sources::unreadable::UnreadableFiles;

/// A build that follows other builds in the same process.
pub(crate) struct Session<'a> {
    pub(crate) effort: Effort,
    pub(crate) cancel: &'a CancelFlag,
    pub(crate) results: &'a MemoryCache,
    /// Decides whether the archive is in memory or on disk.
    pub(crate) space: Space,
    /// The listings of the last build. Once the build is done, these are replaced with the new ones.
    pub(crate) listings: Listings,
    pub(crate) earlier: Earlier,
    /// Whether to wait for files that are being written. This should only be set for the first attempt.
    pub(super) waits: bool,
    /// Files that this attempt or an earlier one could not read.
    pub(super) unreadable: UnreadableFiles,
    /// Whether a folder should be treated as unfinished if it has lost its start page or most of
    /// its files.
    pub(crate) may_be_unfinished: bool,
    /// Files that vanished or did not settle in earlier attempts. They are held back.
    pub(super) unreliable: &'a BTreeSet<Box<[u8]>>,
}
