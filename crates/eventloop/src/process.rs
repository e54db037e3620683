//! Process-wide resources: inherited descriptors, descriptor tables of threads, free memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use crate::platform::syscalls;

/// Creates a pair of connected local sockets that preserve message boundaries. On Linux, neither end can send to any other
/// socket because the kernel ignores addresses.
///
/// # Errors
/// The process has run out of descriptors.
pub fn message_pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
    syscalls::message_pair()
}

/// Takes over a descriptor that the parent process has left open for us. Must be called only once per descriptor.
///
/// # Errors
/// The descriptor is not open.
pub fn inherit_descriptor(descriptor: i32) -> io::Result<OwnedFd> {
    syscalls::inherit(descriptor)
}

/// Returns the allocator's free memory to the system. If there is a lot, this can take milliseconds.
pub fn release_free_memory() {
    syscalls::release_free_memory();
}

/// Gives the calling thread its own descriptor table. It'll contain the three standard descriptors and `kept`.
///
/// As long as threads share a table, each call on a socket has to update a reference count, which takes two atomic operations.
/// If only one thread uses the table, this is not necessary. We block signals in this thread because signal handlers write to
/// descriptors that are in the shared table.
///
/// Call this before the thread opens anything, and only if it does not own any other descriptors. Descriptors that were open
/// before will stay open for other threads. Other threads should not close any of `kept` later because they'd stay open here.
///
/// # Errors
/// The system does not support such tables.
pub fn unshare_descriptor_table<'a>(kept: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<()> {
    syscalls::unshare_descriptor_table()?;
    let mut kept: Vec<i32> = kept.map(|descriptor| descriptor.as_raw_fd()).collect();
    kept.sort_unstable();
    kept.dedup();

    // Close the ranges between the descriptors that are kept.
    let mut first = 3;
    for descriptor in kept {
        if first < descriptor {
            syscalls::close_range(first, descriptor - 1)?;
        }
        first = first.max(descriptor + 1);
    }
    syscalls::close_range(first, i32::MAX)
}
