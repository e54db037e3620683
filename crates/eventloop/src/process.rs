//! Descriptors and memory of the process: inheritance, descriptor tables of threads, free memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use crate::platform::syscalls;

/// Creates a pair of connected local sockets that preserve message boundaries. On Linux, neither end can send to another
/// socket: the kernel ignores an address.
///
/// # Errors
/// The process has no descriptor left.
pub fn message_pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
    syscalls::message_pair()
}

/// Takes ownership of a descriptor that the parent process left open for this one. To be called once for each number.
///
/// # Errors
/// The descriptor is not open.
pub fn inherit_descriptor(descriptor: i32) -> io::Result<OwnedFd> {
    syscalls::inherit(descriptor)
}

/// Returns free memory of the allocator to the system. Takes milliseconds if there is much of it.
pub fn release_free_memory() {
    syscalls::release_free_memory();
}

/// Gives the calling thread a descriptor table of its own that holds the three standard descriptors and `kept`.
///
/// While threads share a table, the kernel counts references to a socket in each call, with two atomic operations. A table
/// of one thread needs none. Signals are blocked in the thread, because their handlers write to descriptors of the shared
/// table.
///
/// Call this before the thread opens anything, in a thread that owns no other descriptor. Descriptors that were open before
/// stay open for the other threads. No other thread should close `kept` ones later, because they would stay open here.
///
/// # Errors
/// The system has no such tables.
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
