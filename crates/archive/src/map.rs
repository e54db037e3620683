//! The bytes of an archive: mapped from the file, or read into memory.
//!
//! The only `unsafe` of this crate stands here. Never gives out anything that outlives the map.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};

/// How the bytes of an archive are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// The file is mapped: memory is the page cache's, shared by all processes.
    Mapped,
    /// The file is mapped, and brought into the page cache before `open` returns.
    Preloaded,
    /// The file is read into memory of our own: nothing that happens to it later matters.
    InMemory,
}

/// The bytes of an archive.
pub(crate) enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    pub(crate) fn load(file: &mut File, loading: Loading) -> io::Result<Bytes> {
        match loading {
            Loading::InMemory => {
                let mut bytes = Vec::new();
                let length =
                    usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
                bytes.try_reserve_exact(length)?;
                file.read_to_end(&mut bytes)?;
                Ok(Bytes::Owned(bytes))
            }
            Loading::Mapped => map(file, false).map(Bytes::Mapped),
            Loading::Preloaded => map(file, true).map(Bytes::Mapped),
        }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

fn map(file: &File, populate: bool) -> io::Result<memmap2::Mmap> {
    let mut options = memmap2::MmapOptions::new();
    if populate {
        options.populate();
    }
    // SAFETY: the slice that the map gives must not change while it is borrowed. An archive is replaced
    // by renaming another file over its name, never edited: the file that we map keeps its bytes as long
    // as we hold it open. Whoever writes into it all the same breaks that promise, as with every mapped
    // file; what we read is checked where it is used, so the harm ends at wrong bytes in an answer, and,
    // where the file was cut, at a SIGBUS. There is no safe way to map a file.
    unsafe { options.map(file) }
}
