//! File leases, private copies of mappings, and huge pages on Linux.
//!
//! While we read a file through a mapping, other processes may overwrite or truncate it. To avoid this, we take a read lease; see
//! "Leases" in `fcntl(2)`. If a process opens the file for writing or truncates it, the kernel will block that process until we
//! give up the lease. Meanwhile we copy the bytes and move the copy over the mapping. This will not disturb readers: the addresses
//! stay the same, and each piece is replaced atomically.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use memmap2::{Advice, Mmap, MmapMut};

use super::Writers;

/// `fcntl(2)` command that selects the signal for a lease (10 on all architectures except SPARC). Currently, `libc` does not define
/// it.
const F_SETSIG: libc::c_int = 10;

/// Asks the kernel to back `map` with huge pages.
pub(crate) fn prefer_huge_pages(map: &MmapMut) {
    // If it does not have any, responses are just slower.
    let _ = map.advise(Advice::HugePage);
}

/// Copy at least this many bytes at a time.
///
/// The copy can succeed even with a low limit, because only the piece that we are filling is writable and counts against
/// `RLIMIT_DATA`.
const PIECE_BYTES_MIN: usize = 1 << 20;

/// Maximum number of pieces. Each of them becomes a separate mapping, and Linux allows 65,530 mappings per process.
const PIECES_MAX: usize = 1024;

/// Replaces the pages of `map` with a private copy, piece by piece.
///
/// # Errors
/// Returns the system's error if there is not enough memory. The pieces before the failed one have been replaced by then.
pub(crate) fn replace_with_copy(map: &Mmap) -> io::Result<()> {
    let piece_bytes = map.len().div_ceil(PIECES_MAX).next_multiple_of(PIECE_BYTES_MIN);
    // Each piece starts at a page, because pages are at most 64 KiB.
    map.chunks(piece_bytes).try_for_each(replace_piece)
}

/// Replaces a page-aligned piece of a mapping with a private copy.
fn replace_piece(piece: &[u8]) -> io::Result<()> {
    let length = piece.len();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

    // SAFETY: requests new anonymous memory at an address that the kernel chooses.
    let copy = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
    if copy == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }

    // SAFETY: `copy` is `length` bytes that only this function knows. `piece` has the same length and is readable because
    // the lease keeps the file as it was mapped. The copy then replaces the piece at its address and with its length: what
    // was borrowed from the mapping stays borrowed from the same addresses, which hold the same bytes before and after, and
    // are private memory until the mapping is dropped. `memmap2` unmaps by address and length, which have not changed; a
    // last page that is only partly used is replaced whole.
    let moved = unsafe {
        ptr::copy_nonoverlapping(piece.as_ptr(), copy.cast(), length);
        libc::mprotect(copy, length, libc::PROT_READ);
        let target = piece.as_ptr().cast_mut().cast::<libc::c_void>();
        libc::mremap(copy, length, length, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, target)
    };
    if moved == libc::MAP_FAILED {
        let error = io::Error::last_os_error();
        // SAFETY: the copy is still at the address that `mmap` returned, and only this function knows it.
        unsafe { libc::munmap(copy, length) };
        return Err(error);
    }
    Ok(())
}

/// Returns whether any process has `file` open for writing. Note that `file` itself must be open for reading only.
#[must_use]
pub fn writers(file: &File) -> Writers {
    match file.try_clone().and_then(Lease::on) {
        Ok(_lease) => Writers::Absent,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Writers::Present,
        Err(_) => Writers::Unknown,
    }
}

/// A read lease. While it exists, processes that want to change the file will block.
///
/// The kernel will revoke the lease after a while (45 seconds by default, see `/proc/sys/fs/lease-break-time`). The holder must
/// therefore poll [`Lease::is_being_broken`].
#[derive(Debug)]
pub struct Lease(File);

impl Lease {
    /// Tries to take a lease on `file`.
    ///
    /// Returns `None` if the file belongs to another user or is open for writing, or if its file system does not support leases.
    pub(crate) fn take(file: &File) -> io::Result<Option<Lease>> {
        // The lease belongs to the open file description, and both descriptors share this.
        Ok(Lease::on(file.try_clone()?).ok())
    }

    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if the file is open for writing.
    fn on(file: File) -> io::Result<Lease> {
        let lease = Lease(file);
        let descriptor = lease.0.as_raw_fd();

        // The kernel sends a signal when a lease is being broken. We prefer to poll. So choose a signal that is ignored by
        // default because SIGIO would terminate the process if there is no handler.
        // SAFETY: takes integers and touches no memory of this process.
        let is_taken = unsafe {
            libc::fcntl(descriptor, F_SETSIG, libc::SIGURG) == 0
                && libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_RDLCK) == 0
        };
        if is_taken { Ok(lease) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns `true` if a process is waiting to change the file, or if the lease has already been revoked.
    #[must_use]
    pub fn is_being_broken(&self) -> bool {
        // SAFETY: takes integers and touches no memory of this process.
        let lease = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_GETLEASE) };
        lease != libc::F_RDLCK
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // It is not enough to close the descriptor. The lease lasts as long as the open file description, and there may be other
        // descriptors for it.
        // SAFETY: takes integers and touches no memory of this process. Fails only if the lease has ended.
        unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    }
}
