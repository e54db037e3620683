//! System calls of other systems than Linux, by way of libraries: the counterparts of Linux's functions.
//!
//! Calls that only Linux has fail with `Unsupported`, and their callers go on without them: threads share one descriptor
//! table. The only `unsafe` code takes ownership of a descriptor.

#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;

use rustix::net::{RecvFlags, SendFlags};
use socket2::{SockRef, Socket};

/// Not every system distributes connections among the sockets that listen at one address: some give all to one.
pub(crate) const BALANCES_LISTENERS: bool = false;

/// Flags for receiving descriptors. Not every system can set close-on-exec atomically; processes that receive descriptors
/// start no program.
pub(crate) const RECV_DESCRIPTORS: RecvFlags = RecvFlags::empty();

/// Converts a result. Returns `None` if the call would block.
fn check_bytes(result: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Accepts the next pending connection in non-blocking mode. Returns it with its peer's address, or `None` if none is
/// pending.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<(OwnedFd, Option<SocketAddr>)>> {
    match SockRef::from(&listener).accept() {
        Ok((socket, peer)) => {
            socket.set_nonblocking(true)?;
            Ok(Some((socket.into(), peer.as_socket())))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a pair of connected local sockets that preserve message boundaries.
pub(crate) fn message_pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
    UnixDatagram::pair()
}

/// Returns 0, because systems other than Linux don't report unacknowledged bytes. [`limit_unsent`] makes the error small.
pub(crate) fn unacknowledged_bytes(_socket: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(0)
}

/// Does nothing: other allocators return free memory to the system by themselves.
pub(crate) fn release_free_memory() {}

/// Limits the bytes that the kernel buffers for a connection, including those in flight, which these systems don't
/// distinguish.
pub(crate) fn limit_unsent(listener: &Socket, bytes: u32) -> io::Result<()> {
    listener.set_send_buffer_size(4 * bytes as usize)
}

/// Fails: only Linux has this option.
pub(crate) fn defer_accept(_listener: &Socket) -> io::Result<()> {
    let message = "only Linux can delay connections until their peers have sent data (TCP_DEFER_ACCEPT)";
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

/// Returns `true` if a socket is not connected, because not every system reports that it listens.
pub(crate) fn is_listener(socket: &Socket) -> io::Result<bool> {
    Ok(socket.peer_addr().is_err())
}

/// Receives into `buffer`. Returns `None` if the call would block, and 0 if the peer has closed its sending direction.
pub(crate) fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    check_bytes(rustix::net::recv(socket, buffer, RecvFlags::empty()).map(|(bytes, _)| bytes))
}

/// Sends one run of bytes. Returns `None` if the call would block. Rust programs ignore SIGPIPE.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    check_bytes(rustix::net::send(socket, bytes, SendFlags::empty()))
}

/// Sends several runs of bytes in order. Returns `None` if the call would block.
pub(crate) fn send_vectored(socket: BorrowedFd<'_>, runs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    check_bytes(rustix::io::writev(socket, runs))
}

/// Takes ownership of a descriptor that the parent process left open for this one. Fails if it is not open.
pub(crate) fn inherit(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers and touches no memory of ours.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and the parent process passed it to us: no other value owns it. There is no safe
    // conversion from a number to an owned descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Fails: threads share one descriptor table.
pub(crate) fn unshare_descriptor_table() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails: threads share one descriptor table.
pub(crate) fn close_range(_first: RawFd, _last: RawFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the peer's address of a connection. Returns `None` if it has none, or if the connection has failed.
pub(crate) fn peer_address(socket: &OwnedFd) -> Option<SocketAddr> {
    SockRef::from(socket).peer_addr().ok()?.as_socket()
}
