//! The bytes of an archive: mapped from the file, or read into memory.
//!
//! Never gives out anything that outlives the map.
//!
//! A mapped file can be overwritten or cut by others while its bytes are being read. What there is against that stands
//! in `lease.rs`.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};

use memmap2::{Mmap, MmapMut};

use crate::lease::{prefer_huge_pages, replace_with_copy};

/// Up to this many bytes [`Loading::Automatic`] reads a file into memory. To read so much takes some milliseconds.
const AUTOMATIC_IN_MEMORY_BYTES_MAX: u64 = 16 << 20;

/// A huge page, on most machines. Elsewhere more memory is asked for than is touched.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// How the bytes of an archive are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// A small file is read into memory, a larger one is mapped.
    Automatic,
    /// The file is mapped: memory is the page cache's, shared by all processes.
    Mapped,
    /// The file is mapped, and brought into the page cache before `open` returns.
    Preloaded,
    /// The file is read into memory of our own: nothing that happens to it later matters.
    InMemory,
}

impl Loading {
    /// How this file is loaded: what is automatic is decided.
    pub(crate) fn of(self, file: &File) -> io::Result<Loading> {
        if self != Loading::Automatic {
            return Ok(self);
        }
        let is_small = file.metadata()?.len() <= AUTOMATIC_IN_MEMORY_BYTES_MAX;
        Ok(if is_small { Loading::InMemory } else { Loading::Mapped })
    }
}

/// The bytes of an archive.
pub(crate) enum Bytes {
    /// Pages of the file.
    Mapped(Mmap),
    /// Pages of our own. What was lent of them to the kernel is still being read when they are given back: so they
    /// come from a map of their own, whose pages nobody else gets before, and not from the allocator.
    Copied { map: Mmap, length: usize },
    /// What somebody else has read.
    Owned(Vec<u8>),
}

impl Bytes {
    pub(crate) fn load(file: &mut File, loading: Loading) -> io::Result<Bytes> {
        match loading.of(file)? {
            Loading::Mapped => map(file, false).map(Bytes::Mapped),
            Loading::Preloaded => map(file, true).map(Bytes::Mapped),
            Loading::InMemory | Loading::Automatic => copy(file),
        }
    }

    /// Whether nothing that happens to any file can change them.
    pub(crate) fn are_ours(&self) -> bool {
        !matches!(self, Bytes::Mapped(_))
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Copied { map, length } => &map[..*length],
            Bytes::Owned(bytes) => bytes,
        }
    }

    /// Makes the bytes memory of our own, in the place where they are.
    pub(crate) fn detach(&self) -> io::Result<()> {
        match self {
            Bytes::Copied { .. } | Bytes::Owned(_) => Ok(()),
            Bytes::Mapped(map) => replace_with_copy(map),
        }
    }
}

/// Reads a file into memory of its own, on huge pages where the system has some: pages that lie one behind the other
/// are lent as one, which is worth a third of what an answer of 90 kB costs.
fn copy(file: &mut File) -> io::Result<Bytes> {
    let length = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut map = MmapMut::map_anon(length.next_multiple_of(HUGE_PAGE_BYTES))?;
    prefer_huge_pages(&map);
    file.read_exact(&mut map[..length])?;
    Ok(Bytes::Copied { map: map.make_read_only()?, length })
}

fn map(file: &File, populate: bool) -> io::Result<Mmap> {
    let mut options = memmap2::MmapOptions::new();
    if populate {
        options.populate();
    }
    // SAFETY: the slice that the map gives must not change while it is borrowed. An archive is replaced by
    // renaming another file over its name, never edited: the file that we map keeps its bytes as long as we
    // have it mapped. Whoever writes into it all the same is held up by the lease until the bytes are
    // copied. Without a lease that promise is all there is, as with every mapped file; what we read is
    // checked where it is used, so the harm ends at wrong bytes in an answer, and, where the file was cut,
    // at a SIGBUS. There is no safe way to map a file.
    unsafe { options.map(file) }
}
