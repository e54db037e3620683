//! Process-wide resources: inherited descriptors, descriptor tables of threads, free memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::platform::syscalls;

/// Creates a pair of connected local sockets that preserve message boundaries. On Linux, the kernel ignores addresses, so neither
/// end can send to any other socket.
///
/// # Errors
/// Fails if the process has run out of descriptors.
pub fn message_pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
    syscalls::message_pair()
}

/// Takes over a descriptor that the parent process has left open for us. Callers MUST NOT do this twice with the same descriptor.
///
/// # Errors
/// Fails if the descriptor is not open.
pub fn inherit_descriptor(descriptor: i32) -> io::Result<OwnedFd> {
    syscalls::inherit(descriptor)
}

/// Keeps descriptors that this process has inherited from the programs that it starts, except for the three standard ones.
///
/// A parent passes sockets without this flag, since we would not get them otherwise. A program that got a listening socket as well
/// would keep its port in use.
///
/// # Errors
/// Fails if the system does not support this (Linux before 5.11).
pub fn close_on_exec() -> io::Result<()> {
    syscalls::close_on_exec(3)
}

/// Returns the allocator's free memory to the system. Note that this may take milliseconds if there is a lot of it.
pub fn release_free_memory() {
    syscalls::release_free_memory();
}

/// The time slice of a thread that serves, the shortest one that Linux accepts.
const SERVING_SLICE: Duration = Duration::from_micros(100);

/// Lets the calling thread run soon after a request has arrived, while other threads want the same processor.
///
/// Linux lets a thread with a shorter time slice interrupt one with a longer slice (by default 1 to 3 ms), if it has had less than its
/// share of the processor. Unlike a higher priority, this needs no privilege, and the thread doesn't get any more time in total.
/// Linux before 6.12 ignores it.
///
/// # Errors
/// Fails if the system has no time slices, or a filter denies the call.
pub fn prefer_short_slices() -> io::Result<()> {
    syscalls::set_time_slice(SERVING_SLICE)
}

/// Gives the calling thread its own descriptor table, which will contain the three standard descriptors and `kept`.
///
/// As long as threads share a table, each call on a socket has to update a reference count with two atomic operations. With only
/// one thread per table, this is not necessary. Note that we also need to block signals in this thread, as signal handlers write to
/// descriptors that are in the shared table.
///
/// This should be called before the thread opens anything, and only if it does not own any other descriptors. Those that were open
/// before will stay open for other threads. Other threads should not close any of `kept` later, since they would stay open here.
///
/// # Errors
/// Fails if the system does not support such tables.
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
