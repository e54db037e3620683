//! The bytes of an archive, mapped from the file or read into memory.
//!
//! Another process can overwrite or truncate a mapped file while we read it; `lease.rs` holds the countermeasures.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use memmap2::{Mmap, MmapMut, MmapOptions};

use crate::lease::{prefer_huge_pages, replace_with_copy};

/// [`Loading::Automatic`] reads files of up to this size into memory, which takes some milliseconds.
const AUTOMATIC_IN_MEMORY_BYTES_MAX: u64 = 16 << 20;

/// The size of a huge page on most machines. On others we only reserve more address space than we use.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// How the bytes of an archive get into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// Reads a small file into memory and maps a larger one.
    Automatic,
    /// Maps the file: the memory is the page cache, which all processes share.
    Mapped,
    /// Maps the file and brings it into the page cache before `open` returns.
    Preloaded,
    /// Reads the file into private memory, so that later changes of the file do not matter.
    InMemory,
}

impl Loading {
    /// Decides [`Loading::Automatic`] for an archive of this length.
    pub(crate) fn resolve(self, archive_bytes: u64) -> Loading {
        match self {
            Loading::Automatic if archive_bytes <= AUTOMATIC_IN_MEMORY_BYTES_MAX => Loading::InMemory,
            Loading::Automatic => Loading::Mapped,
            decided => decided,
        }
    }
}

/// The bytes of an archive.
pub(crate) enum Bytes {
    /// Pages of the file.
    Mapped(Mmap),
    /// Private pages.
    ///
    /// The kernel may still read from pages that were sent zero-copy when we free them. Pages of an anonymous mapping are not
    /// reused before the kernel is done with them, whereas the allocator could reuse its memory at once.
    Copied { map: Mmap, length: usize },
    /// Bytes that the caller has read.
    Owned(Vec<u8>),
    /// Bytes of the program.
    Static(&'static [u8]),
}

impl Bytes {
    /// Loads a part of a file, which starts at a page.
    pub(crate) fn load(file: &File, part: &Range<u64>, loading: Loading) -> io::Result<Bytes> {
        let length = usize::try_from(part.end - part.start).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut options = MmapOptions::new();
        options.offset(part.start).len(length);
        match loading.resolve(part.end - part.start) {
            Loading::Mapped => map(file, &options).map(Bytes::Mapped),
            Loading::Preloaded => map(file, options.populate()).map(Bytes::Mapped),
            Loading::InMemory | Loading::Automatic => read(file, part.start, length),
        }
    }

    /// Returns `true` if no change of a file can change the bytes.
    pub(crate) fn is_private(&self) -> bool {
        !matches!(self, Bytes::Mapped(_))
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Copied { map, length } => &map[..*length],
            Bytes::Owned(bytes) => bytes,
            Bytes::Static(bytes) => bytes,
        }
    }

    /// Replaces a mapping of the file by a private copy at the same addresses.
    pub(crate) fn detach(&self) -> io::Result<()> {
        match self {
            Bytes::Copied { .. } | Bytes::Owned(_) | Bytes::Static(_) => Ok(()),
            Bytes::Mapped(map) => replace_with_copy(map),
        }
    }
}

/// Reads a part of a file into private memory, on huge pages if the system has some.
///
/// The kernel sends physically contiguous pages as one piece, which saves a third of the cost of a 90 kB response.
fn read(file: &File, start: u64, length: usize) -> io::Result<Bytes> {
    let mut map = MmapMut::map_anon(length.next_multiple_of(HUGE_PAGE_BYTES))?;
    prefer_huge_pages(&map);
    file.read_exact_at(&mut map[..length], start)?;
    Ok(Bytes::Copied { map: map.make_read_only()?, length })
}

fn map(file: &File, options: &MmapOptions) -> io::Result<Mmap> {
    // SAFETY: the mapped slice must not change while it is borrowed. An archive is replaced by renaming another file over
    // its name and never edited, so the file that we map keeps its bytes as long as it is mapped. A process that writes to
    // it regardless is blocked by the lease until the bytes are copied. Without a lease that promise is all there is, as
    // with every mapped file; since we check each number where we use it, the damage is limited to wrong bytes in a
    // response, and to a SIGBUS if the file was truncated. There is no safe way to map a file.
    unsafe { options.map(file) }
}
