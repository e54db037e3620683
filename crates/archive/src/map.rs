//! The bytes of an archive: mapped from the file, or read into memory.
//!
//! The only `unsafe` of this crate stands here. Never gives out anything that outlives the map.
//!
//! A mapped file can be overwritten or cut by others while its bytes are being read. Against that there is a
//! lease (`fcntl(2)`, "Leases"): the kernel then stops whoever opens the file for writing, or cuts it, until
//! the lease is given up. In that time the bytes are copied, and the copy takes the map's place, at the same
//! addresses and in one step: no reader can tell.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;

use memmap2::{Advice, Mmap, MmapMut};

/// Chooses the signal of a lease: `fcntl(2)`. Not in `libc`; 10 on every architecture but SPARC.
const F_SETSIG: libc::c_int = 10;

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
    pub(crate) fn keep_copy(&self) -> io::Result<()> {
        match self {
            Bytes::Copied { .. } | Bytes::Owned(_) => Ok(()),
            Bytes::Mapped(map) => keep_copy(map),
        }
    }
}

/// Reads a file into memory of its own, on huge pages where the system has some: pages that lie one behind the other
/// are lent as one, which is worth a third of what an answer of 90 kB costs.
fn copy(file: &mut File) -> io::Result<Bytes> {
    let length = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut map = MmapMut::map_anon(length.next_multiple_of(HUGE_PAGE_BYTES))?;
    let _ = map.advise(Advice::HugePage);
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

/// Puts a copy of its bytes in the place of a map.
fn keep_copy(map: &Mmap) -> io::Result<()> {
    let length = map.len();
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: asks for new memory, at no place in particular and of no file.
    let copy = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    if copy == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `copy` is `length` bytes that nobody else knows; the map is as many and readable, for the
    // lease still keeps the file as it was mapped. Then the copy is moved over the map, whose place and
    // length it has: what was borrowed from the map stays borrowed from the same addresses, which hold the
    // same bytes before and after, and are private memory until the map is dropped. `memmap2` unmaps by
    // address and length, which have not changed.
    let moved = unsafe {
        std::ptr::copy_nonoverlapping(map.as_ptr(), copy.cast(), length);
        libc::mprotect(copy, length, libc::PROT_READ);
        let place = map.as_ptr().cast_mut().cast::<libc::c_void>();
        libc::mremap(copy, length, length, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, place)
    };
    if moved == libc::MAP_FAILED {
        let error = io::Error::last_os_error();
        // SAFETY: the copy is still where it was made, and nobody else knows it.
        unsafe { libc::munmap(copy, length) };
        return Err(error);
    }
    Ok(())
}

/// Makes everybody wait who would change a file under its readers.
///
/// Whoever holds it looks at it every so often. Who is made to wait waits until it is dropped, but no longer
/// than the system lets him (`/proc/sys/fs/lease-break-time`, 45 seconds unless it was changed).
#[derive(Debug)]
pub struct Lease(File);

impl Lease {
    /// A lease on this file; nothing where it belongs to another user, somebody has it open for
    /// writing, or its file system knows no leases.
    pub(crate) fn take(file: &File) -> io::Result<Option<Lease>> {
        // The lease belongs to the open file, which both descriptors are of.
        let lease = Lease(file.try_clone()?);
        let descriptor = lease.0.as_raw_fd();
        // The kernel tells by a signal that somebody waits. We look by ourselves: the signal shall be one
        // that does nothing, and not SIGIO, which ends a process that has no handler for it.
        // SAFETY: takes numbers and touches no memory of ours.
        let taken = unsafe {
            libc::fcntl(descriptor, F_SETSIG, libc::SIGURG) == 0
                && libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_RDLCK) == 0
        };
        Ok(taken.then_some(lease))
    }

    /// Whether somebody waits to change the file.
    #[must_use]
    pub fn is_called(&self) -> bool {
        // SAFETY: takes numbers and touches no memory of ours.
        let lease = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_GETLEASE) };
        lease != libc::F_RDLCK
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Said aloud: the open file may have other descriptors, and the lease would stay as long as they do.
        // SAFETY: takes numbers and touches no memory of ours. It fails only where the lease has ended.
        unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    }
}
