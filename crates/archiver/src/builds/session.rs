//! One build of a [`Compiler`](crate::Compiler): the builds before it, and the ways in which it differs from a single build.

use std::collections::BTreeSet;

use crate::contents::memory_cache::MemoryCache;
use crate::destination::disk::Space;
use crate::routes::listing::Listings;
use crate::settings::cancel::CancelFlag;
use crate::settings::effort::Effort;
use crate::sources::snapshot::Earlier;
use crate::sources::unreadable::UnreadableFiles;

/// A build that follows others in the same process.
pub(crate) struct Session<'a> {
    pub(crate) effort: Effort,
    pub(crate) cancel: &'a CancelFlag,
    pub(crate) results: &'a MemoryCache,
    /// Space for the archive.
    pub(crate) space: Space,
    /// Folder listings of the last build; after it, those of this one.
    pub(crate) listings: Listings,
    pub(crate) earlier: Earlier,
    /// Whether to wait until files are written. Only the first attempt of a build does.
    pub(super) waits: bool,
    /// Files that can't be read, in this attempt or one before it.
    pub(super) unreadable: UnreadableFiles,
    /// Whether a folder that has lost its start page, or most of its files, may be one that a program is still writing.
    pub(crate) may_be_unfinished: bool,
    /// Files that vanished, or didn't settle, in an attempt before this one. They are held back.
    pub(super) unreliable: &'a BTreeSet<Box<[u8]>>,
}
