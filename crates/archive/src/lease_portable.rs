//! What stands for `lease.rs` where there is no Linux: a file cannot be leased, and nothing takes a map's place.
//!
//! So an archive is read into memory where that can be, and who maps one all the same is told what that risks.

use std::convert::Infallible;
use std::fs::File;
use std::io;

use memmap2::{Mmap, MmapMut};

/// Pages are as large as the system makes them.
pub(crate) fn prefer_huge_pages(_map: &MmapMut) {}

/// Nothing can be put in the place of a map. Not asked for, since there are no leases.
pub(crate) fn replace_with_copy(_map: &Mmap) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What would make everybody wait who would change a file under its readers. There is none.
#[derive(Debug)]
pub struct Lease(Infallible);

impl Lease {
    /// No file can be leased.
    pub(crate) fn take(_file: &File) -> io::Result<Option<Lease>> {
        Ok(None)
    }

    /// Whether somebody waits to change the file.
    #[must_use]
    pub fn is_being_broken(&self) -> bool {
        match self.0 {}
    }
}

impl Drop for Lease {
    /// To drop one gives it up, as it does where there are some.
    fn drop(&mut self) {
        match self.0 {}
    }
}
