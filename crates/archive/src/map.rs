//! The bytes of an archive, either mapped or read into memory.
//!
//! Other processes may overwrite or truncate a mapped file while we read it. See `lease.rs` for how we deal with that.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::ptr::NonNull;

#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::{Mmap, MmapMut, MmapOptions};

use crate::lease::{prefer_huge_pages, replace_with_copy};

/// [`Loading::Automatic`] reads files up to this size into memory, which takes a few milliseconds.
const AUTOMATIC_IN_MEMORY_BYTES_MAX: u64 = 16 << 20;

/// Huge page size on most machines. Where it differs, we only reserve more address space than necessary.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Ways to get the bytes of an archive into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loading {
    /// Reads small files into memory and maps larger ones.
    Automatic,
    /// Maps the file. The memory is part of the page cache, and can be shared by several processes.
    Mapped,
    /// Maps the file and waits until all of it is in the page cache.
    Preloaded,
    /// Reads the file into private memory, so that later changes to the file will not matter.
    InMemory,
}

impl Loading {
    /// Decides [`Loading::Automatic`] for an archive of this length.
    #[doc(hidden)]
    #[must_use]
    pub fn resolve(self, archive_bytes: u64) -> Loading {
        match self {
            Loading::Automatic if archive_bytes <= AUTOMATIC_IN_MEMORY_BYTES_MAX => Loading::InMemory,
            Loading::Automatic => Loading::Mapped,
            decided => decided,
        }
    }
}

/// An archive's bytes.
pub(crate) struct Bytes {
    /// Points into `memory`. An answer needs the bytes several times, so this avoids looking at the variant each time.
    slice: NonNull<[u8]>,
    memory: Memory,
}

/// The memory that an archive is in.
enum Memory {
    /// Pages of the mapped file. If it has a name, other programs can open the file for writing.
    Mapped { map: Mmap, has_name: bool },
    /// Private pages. There may be unused ones after the bytes.
    ///
    /// A `Vec` would not be safe: after a zero-copy send, the kernel might still be reading these pages when we free them. The
    /// allocator could hand out the memory again at once, whereas the pages of an anonymous mapping will not be reused before the
    /// kernel is done with them.
    Copied { map: Mmap, length: usize },
    /// Bytes from the caller.
    Owned(Vec<u8>),
    /// Bytes that are part of the program.
    Static(&'static [u8]),
    /// Bytes of another archive.
    Shared(Box<dyn BytesOwner>),
}

/// Something that contains the bytes of an archive, and shares them.
pub(crate) trait BytesOwner: Send + Sync {
    fn bytes(&self) -> &Bytes;
}

// SAFETY: `slice` refers to bytes of `memory`, which any thread may read and drop, and which no thread changes.
unsafe impl Send for Bytes {}
// SAFETY: as for `Send`.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Loads a part of a file. It must start at a page boundary.
    pub(crate) fn load(file: &File, part: &Range<u64>, loading: Loading) -> io::Result<Bytes> {
        let length = usize::try_from(part.end - part.start).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut options = MmapOptions::new();
        options.offset(part.start).len(length);
        let memory = match loading.resolve(part.end - part.start) {
            Loading::Mapped => map(file, &options),
            Loading::Preloaded => map(file, options.populate()),
            Loading::InMemory | Loading::Automatic => read(file, part.start, length),
        };
        memory.map(Bytes::new)
    }

    /// Takes ownership of bytes in memory.
    pub(crate) fn owned(bytes: Vec<u8>) -> Bytes {
        Bytes::new(Memory::Owned(bytes))
    }

    /// Refers to bytes of the program.
    pub(crate) fn from_static(bytes: &'static [u8]) -> Bytes {
        Bytes::new(Memory::Static(bytes))
    }

    /// Refers to bytes that `owner` keeps.
    pub(crate) fn shared(owner: Box<dyn BytesOwner>) -> Bytes {
        Bytes::new(Memory::Shared(owner))
    }

    fn new(memory: Memory) -> Bytes {
        let slice = match &memory {
            Memory::Mapped { map, .. } => map,
            Memory::Copied { map, length } => &map[..*length],
            Memory::Owned(bytes) => bytes,
            Memory::Static(bytes) => bytes,
            Memory::Shared(owner) => owner.bytes().as_slice(),
        };
        Bytes { slice: NonNull::from(slice), memory }
    }

    /// Returns `true` if other programs could open the file that the bytes are in, and change it.
    pub(crate) fn may_change(&self) -> bool {
        match &self.memory {
            Memory::Mapped { has_name, .. } => *has_name,
            Memory::Copied { .. } | Memory::Owned(_) | Memory::Static(_) => false,
            Memory::Shared(owner) => owner.bytes().may_change(),
        }
    }

    /// Returns `true` if the bytes cannot change when a file does.
    pub(crate) fn is_private(&self) -> bool {
        match &self.memory {
            Memory::Mapped { .. } => false,
            Memory::Copied { .. } | Memory::Owned(_) | Memory::Static(_) => true,
            Memory::Shared(owner) => owner.bytes().is_private(),
        }
    }

    /// Returns `true` if the kernel may read the bytes even after they were dropped.
    pub(crate) fn may_be_sent_zero_copy(&self) -> bool {
        match &self.memory {
            Memory::Mapped { .. } | Memory::Owned(_) => false,
            Memory::Copied { .. } | Memory::Static(_) => true,
            Memory::Shared(owner) => owner.bytes().may_be_sent_zero_copy(),
        }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the slice refers to bytes that `memory` owns or shares. None of its variants contains them, so
        // they stay where they are when it moves. It is neither changed nor dropped before `self` is.
        unsafe { self.slice.as_ref() }
    }

    /// Reads a range from the disk, if it is part of a mapped file. Otherwise, a page that can't be read would only show when it is
    /// accessed: by a signal, which ends the process.
    ///
    /// Linux has this since 5.14. On other systems, nothing happens.
    ///
    /// # Errors
    /// Returns an error if a page of the file can't be read.
    pub(crate) fn read_ahead(&self, range: Range<usize>) -> io::Result<()> {
        match &self.memory {
            Memory::Copied { .. } | Memory::Owned(_) | Memory::Static(_) => Ok(()),
            Memory::Mapped { map, .. } => populate(map, range),
            Memory::Shared(owner) => owner.bytes().read_ahead(range),
        }
    }

    /// Replaces a mapped file by a private copy at the same addresses.
    pub(crate) fn detach(&self) -> io::Result<()> {
        match &self.memory {
            Memory::Copied { .. } | Memory::Owned(_) | Memory::Static(_) => Ok(()),
            Memory::Mapped { map, .. } => replace_with_copy(map),
            Memory::Shared(owner) => owner.bytes().detach(),
        }
    }
}

/// Reads a part of a file into private memory, using huge pages if the system has any.
///
/// With huge pages, the kernel can send physically contiguous memory as one piece. A 90 kB response gets a third cheaper this way.
fn read(file: &File, start: u64, length: usize) -> io::Result<Memory> {
    let mut map = MmapMut::map_anon(length.next_multiple_of(HUGE_PAGE_BYTES))?;
    prefer_huge_pages(&map);
    file.read_exact_at(&mut map[..length], start)?;
    Ok(Memory::Copied { map: map.make_read_only()?, length })
}

fn map(file: &File, options: &MmapOptions) -> io::Result<Memory> {
    let has_name = file.metadata()?.nlink() > 0;

    // SAFETY: the mapped slice must not change while it is borrowed. An archive is replaced by renaming another file over
    // its name and never edited, so the file that we map keeps its bytes as long as it is mapped. A process that writes to
    // it regardless is blocked by the lease until the bytes are copied. Without a lease that promise is all there is, as
    // with every mapped file; since we check each number where we use it, the damage is limited to wrong bytes in a
    // response, and to a SIGBUS if the file was truncated. There is no safe way to map a file.
    let map = unsafe { options.map(file) }?;
    Ok(Memory::Mapped { map, has_name })
}

#[cfg(target_os = "linux")]
fn populate(map: &Mmap, range: Range<usize>) -> io::Result<()> {
    match map.advise_range(Advice::PopulateRead, range.start, range.len()) {
        // The kernel is older.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EFAULT | libc::EHWPOISON)) => {
            let Range { start, end } = range;
            Err(io::Error::other(format!(
                "bytes {start} to {end} cannot be read: the file was cut, or its disk is damaged"
            )))
        }
        done => done,
    }
}

#[cfg(not(target_os = "linux"))]
fn populate(_: &Mmap, _: Range<usize>) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn cut_file_is_an_error_of_reading_ahead() {
        const MIB: usize = 1 << 20;
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 << 20).unwrap();
        let bytes = Bytes::load(&file, &(0..4 << 20), Loading::Mapped).unwrap();
        let part = Bytes::load(&file, &(1 << 20..4 << 20), Loading::Mapped).unwrap();
        assert!(bytes.read_ahead(0..4 * MIB).is_ok());

        file.set_len(2 << 20).unwrap();
        assert!(bytes.read_ahead(0..2 * MIB).is_ok());
        assert!(part.read_ahead(0..MIB).is_ok(), "a part that starts at a page of its own");
        for error in [bytes.read_ahead(MIB..3 * MIB), part.read_ahead(MIB..2 * MIB)] {
            let error = error.unwrap_err().to_string();
            assert!(error.ends_with("the file was cut, or its disk is damaged"), "{error}");
        }
    }
}
