//! What stands for `sys.rs` where there is no Linux: the same functions, from libraries that know each system.
//!
//! What another system lacks fails here like a call that a kernel does not know, and whoever asks does without: no
//! pages are lent, and no thread has a table of descriptors of its own. Its one `unsafe` takes a descriptor over.

#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;

use rustix::net::{RecvFlags, SendFlags};
use socket2::{SockRef, Socket};

/// Whether the kernel deals connections out among the sockets that listen at one address. Some of these systems give
/// them all to one.
pub(crate) const DEALS_OUT: bool = false;

/// How descriptors are received. Not every system can close them to other programs in the same step; who receives some
/// starts no program.
pub(crate) const RECEIVES_DESCRIPTORS: RecvFlags = RecvFlags::empty();

/// Nothing where a call would block.
fn unless_blocked(done: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(bytes) => Ok(Some(bytes)),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The next connection that waits at a listener, not blocking, and where its peer is; nothing where none waits.
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

/// Two ends of a local connection that keeps messages apart.
pub(crate) fn message_pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
    UnixDatagram::pair()
}

/// How many bytes that were sent on a socket its peer has not confirmed yet. Nobody tells: what the kernel has taken
/// counts as confirmed, and [`limit_unsent`] makes that little.
pub(crate) fn unconfirmed(_socket: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(0)
}

/// Returns freed memory to the system: allocators elsewhere do so by themselves.
pub(crate) fn release_free_memory() {}

/// Has the kernel take so many bytes for a connection before their turn to be sent comes, or somewhat more, and as many
/// that are under way: what cannot be told apart here is limited together.
pub(crate) fn limit_unsent(listener: &Socket, bytes: u32) -> io::Result<()> {
    listener.set_send_buffer_size(4 * bytes as usize)
}

/// Has the kernel keep connections back until their peers have sent something: this one cannot, or in another way.
pub(crate) fn defer_accept(_listener: &Socket) -> io::Result<()> {
    let why = "only Linux keeps connections back until their peers have sent something (TCP_DEFER_ACCEPT)";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// Whether a socket listens. Not every system tells: a connected one does not.
pub(crate) fn is_listener(socket: &Socket) -> io::Result<bool> {
    Ok(socket.peer_addr().is_err())
}

/// Receives into `buffer`; nothing where the call would block, 0 where the peer has ended.
pub(crate) fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    unless_blocked(rustix::net::recv(socket, buffer, RecvFlags::empty()).map(|(bytes, _)| bytes))
}

/// Sends one run of bytes; nothing where the call would block. A program of Rust ignores the signal of a broken pipe.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    unless_blocked(rustix::net::send(socket, bytes, SendFlags::empty()))
}

/// Sends several runs of bytes in order; nothing where the call would block. That more follows is not told.
pub(crate) fn send_runs(
    socket: BorrowedFd<'_>,
    runs: &[IoSlice<'_>],
    _more: bool,
) -> io::Result<Option<usize>> {
    unless_blocked(rustix::io::writev(socket, runs))
}

/// There is no pipe that pages could be lent by.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is no pipe that pages could be lent by.
pub(crate) fn set_pipe_bytes(_pipe: &OwnedFd, _bytes: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is no pipe that pages could be lent by.
pub(crate) fn lend_pages(_pipe: &OwnedFd, _runs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is no pipe that pages could be lent by.
pub(crate) fn splice(_pipe: &OwnedFd, _into: BorrowedFd<'_>, _bytes: usize) -> io::Result<Option<usize>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Takes a descriptor that whoever started this process has left open for it. Fails if it is not open.
pub(crate) fn inherit(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers and touches no memory of ours.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and was handed to this process by its environment for just this purpose: no
    // other value owns it. There is no safe way from a number to an owned descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// There are no such tables.
pub(crate) fn unshare_files() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There are no such tables, and so nothing to be closed in them.
pub(crate) fn close_range(_first: RawFd, _last: RawFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Where the peer of a connection is; nothing where it has no address, or is gone.
pub(crate) fn peer(socket: &OwnedFd) -> Option<SocketAddr> {
    SockRef::from(socket).peer_addr().ok()?.as_socket()
}
