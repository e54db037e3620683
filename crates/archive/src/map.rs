//! The bytes of an archive, mapped from the file or read into memory.
//!
//! Another process can overwrite or truncate a mapped file while we read it; `lease.rs` holds the countermeasures.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

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
pub(crate) struct Bytes {
    /// The bytes in `memory`. An answer refers to them several times, and would look for them in `memory` each time.
    slice: NonNull<[u8]>,
    memory: Memory,
}

/// The memory that holds the bytes of an archive.
enum Memory {
    /// Pages of the file.
    Mapped(Mmap),
    /// Private pages, some of which may follow the bytes.
    ///
    /// The kernel may still read from pages that were sent zero-copy when we free them. Pages of an anonymous mapping are not
    /// reused before the kernel is done with them, whereas the allocator could reuse its memory at once.
    Copied { map: Mmap, length: usize },
    /// Bytes that the caller has read.
    Owned(Vec<u8>),
    /// Bytes of the program.
    Static(&'static [u8]),
}

// SAFETY: `slice` refers to bytes of `memory`, which any thread may read and drop, and which no thread changes.
unsafe impl Send for Bytes {}
// SAFETY: as for `Send`.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Loads a part of a file, which starts at a page.
    pub(crate) fn load(file: &File, part: &Range<u64>, loading: Loading) -> io::Result<Bytes> {
        let length = usize::try_from(part.end - part.start).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut options = MmapOptions::new();
        options.offset(part.start).len(length);
        let memory = match loading.resolve(part.end - part.start) {
            Loading::Mapped => map(file, &options).map(Memory::Mapped),
            Loading::Preloaded => map(file, options.populate()).map(Memory::Mapped),
            Loading::InMemory | Loading::Automatic => read(file, part.start, length),
        };
        memory.map(Bytes::new)
    }

    /// Keeps bytes that the caller has read.
    pub(crate) fn owned(bytes: Vec<u8>) -> Bytes {
        Bytes::new(Memory::Owned(bytes))
    }

    /// Refers to bytes of the program.
    pub(crate) fn from_static(bytes: &'static [u8]) -> Bytes {
        Bytes::new(Memory::Static(bytes))
    }

    fn new(memory: Memory) -> Bytes {
        let slice = match &memory {
            Memory::Mapped(map) => map,
            Memory::Copied { map, length } => &map[..*length],
            Memory::Owned(bytes) => bytes,
            Memory::Static(bytes) => bytes,
        };
        Bytes { slice: NonNull::from(slice), memory }
    }

    /// Returns `true` if no change of a file can change the bytes.
    pub(crate) fn is_private(&self) -> bool {
        !matches!(self.memory, Memory::Mapped(_))
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the slice refers to bytes of `memory`, which has the same owner. None of its variants contains them, so
        // they stay where they are when it moves. It is neither changed nor dropped before `self` is.
        unsafe { self.slice.as_ref() }
    }

    /// Replaces a mapping of the file by a private copy at the same addresses.
    pub(crate) fn detach(&self) -> io::Result<()> {
        match &self.memory {
            Memory::Copied { .. } | Memory::Owned(_) | Memory::Static(_) => Ok(()),
            Memory::Mapped(map) => replace_with_copy(map),
        }
    }
}

/// Reads a part of a file into private memory, on huge pages if the system has some.
///
/// The kernel sends physically contiguous pages as one piece, which saves a third of the cost of a 90 kB response.
fn read(file: &File, start: u64, length: usize) -> io::Result<Memory> {
    let mut map = MmapMut::map_anon(length.next_multiple_of(HUGE_PAGE_BYTES))?;
    prefer_huge_pages(&map);
    file.read_exact_at(&mut map[..length], start)?;
    Ok(Memory::Copied { map: map.make_read_only()?, length })
}

fn map(file: &File, options: &MmapOptions) -> io::Result<Mmap> {
    // SAFETY: the mapped slice must not change while it is borrowed. An archive is replaced by renaming another file over
    // its name and never edited, so the file that we map keeps its bytes as long as it is mapped. A process that writes to
    // it regardless is blocked by the lease until the bytes are copied. Without a lease that promise is all there is, as
    // with every mapped file; since we check each number where we use it, the damage is limited to wrong bytes in a
    // response, and to a SIGBUS if the file was truncated. There is no safe way to map a file.
    unsafe { options.map(file) }
}
