//! Replacements for systems other than Linux: files cannot be leased, and mappings cannot be replaced.
//!
//! Archives are therefore read into memory where possible, and an operator that chooses a mapping is warned.

use std::convert::Infallible;
use std::fs::File;
use std::io;

use memmap2::{Mmap, MmapMut};

use super::Writers;

/// Does nothing: the system chooses the page size.
pub(crate) fn prefer_huge_pages(_map: &MmapMut) {}

/// Returns an error: a mapping cannot be replaced. Never called, because there are no leases.
pub(crate) fn replace_with_copy(_map: &Mmap) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns [`Writers::Unknown`].
#[must_use]
pub fn writers(_file: &File) -> Writers {
    Writers::Unknown
}

/// A lease on a file. No value of this type exists.
#[derive(Debug)]
pub struct Lease(Infallible);

impl Lease {
    /// Returns `None`: no file can be leased.
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
    /// Exists so that dropping a lease explicitly has the same meaning as on Linux.
    fn drop(&mut self) {
        match self.0 {}
    }
}
