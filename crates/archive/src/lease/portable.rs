//! Replacements for systems other than Linux. We cannot lease files or replace mappings there.
//!
//! Archives are therefore read into memory where possible. If the operator insists on a mapping, a warning
//! will be printed.

use std::convert::Infallible;
use std::fs::File;
use std::io;

use memmap2::{Mmap, MmapMut};

use super::Writers;

/// Does nothing: the system chooses the page size.
pub(crate) fn prefer_huge_pages(_map: &MmapMut) {}

/// Never called because there are no leases on this platform.
pub(crate) fn replace_with_copy(_map: &Mmap) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns [`Writers::Unknown`].
#[must_use]
pub fn writers(_file: &File) -> Writers {
    Writers::Unknown
}

/// A lease on a file. It cannot be constructed on this platform.
#[derive(Debug)]
pub struct Lease(Infallible);

impl Lease {
    pub(crate) fn take(_file: &File) -> io::Result<Option<Lease>> {
        Ok(None)
    }

    /// Returns `true` if a process is waiting to change the file.
    #[must_use]
    pub fn is_being_broken(&self) -> bool {
        match self.0 {}
    }
}

impl Drop for Lease {
    /// Makes dropping a lease explicitly work like on Linux.
    fn drop(&mut self) {
        match self.0 {}
    }
}
