//! What Linux does for the bytes of a map: a lease on their file, a copy in their place, huge pages.
//!
//! A mapped file can be overwritten or cut by others while its bytes are being read. Against that there is a
//! lease (`fcntl(2)`, "Leases"): the kernel then stops whoever opens the file for writing, or cuts it, until
//! the lease is given up. In that time the bytes are copied, and the copy takes the map's place, at the same
//! addresses and in one step: no reader can tell. Never maps a file itself.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use memmap2::{Advice, Mmap, MmapMut};

/// Chooses the signal of a lease: `fcntl(2)`. Not in `libc`; 10 on every architecture but SPARC.
const F_SETSIG: libc::c_int = 10;

/// Asks for huge pages, where the system has some.
pub(crate) fn prefer_huge_pages(map: &MmapMut) {
    // Without them it is slower, and nothing else.
    let _ = map.advise(Advice::HugePage);
}

/// Bytes that are copied at a time, at least. Only a piece that is being filled counts against the limit of memory
/// (`RLIMIT_DATA`), since nobody can write to the others: so a copy succeeds however low the limit is.
const PIECE_BYTES_MIN: usize = 1 << 20;

/// Pieces of a copy, at most. Each is a mapping of its own, of which a process may have 65,530.
const PIECES_MAX: usize = 1024;

/// Replaces the pages of a map by a copy of them, piece by piece. If it fails, the pieces before are copies.
pub(crate) fn replace_with_copy(map: &Mmap) -> io::Result<()> {
    let piece_bytes = map.len().div_ceil(PIECES_MAX).next_multiple_of(PIECE_BYTES_MIN);
    // Pages have at most 64 KiB, so every piece begins with one.
    map.chunks(piece_bytes).try_for_each(keep_piece)
}

/// Replaces a piece of a map, which begins with a page, by a copy of it.
fn keep_piece(piece: &[u8]) -> io::Result<()> {
    let length = piece.len();
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: asks for new memory, at no place in particular and of no file.
    let copy = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    if copy == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `copy` is `length` bytes that nobody else knows; the piece is as many and readable, for the
    // lease still keeps the file as it was mapped. Then the copy is moved over the piece, whose place and
    // length it has: what was borrowed from the map stays borrowed from the same addresses, which hold the
    // same bytes before and after, and are private memory until the map is dropped. `memmap2` unmaps by
    // address and length, which have not changed; a last page that is not full is replaced whole.
    let moved = unsafe {
        std::ptr::copy_nonoverlapping(piece.as_ptr(), copy.cast(), length);
        libc::mprotect(copy, length, libc::PROT_READ);
        let place = piece.as_ptr().cast_mut().cast::<libc::c_void>();
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
    pub fn is_being_broken(&self) -> bool {
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
