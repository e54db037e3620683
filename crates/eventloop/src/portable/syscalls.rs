//! System calls for systems other than Linux, using libraries. Each function corresponds to one for Linux.
//!
//! Calls that only Linux has fail with `Unsupported`, and callers must be able to do without (e.g. by letting threads share a
//! descriptor table). We need `unsafe` code to take ownership of a descriptor, and for datagram calls that no library has.

#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};
use socket2::{SockRef, Socket};

use crate::datagram::batch::{BUFFER_BYTES, BUFFER_STRIDE, Envelope};
use crate::datagram::outgoing::OutgoingMessage;

/// Not all systems distribute connections among sockets that listen on the same address; some of them give everything to one
/// socket.
pub(crate) const BALANCES_LISTENERS: bool = false;

/// Only Linux can split batches into datagrams.
pub(crate) const HAS_GSO: bool = false;

/// Ratio between the reported buffer size and the one we requested.
pub(crate) const BUFFER_SIZE_FACTOR: usize = if cfg!(target_os = "linux") { 2 } else { 1 };

/// Flags for receiving descriptors. Setting close-on-exec atomically is not possible on all systems. However, processes that
/// receive descriptors do not start programs.
pub(crate) const RECV_DESCRIPTORS: RecvFlags = RecvFlags::empty();

/// Converts a result. `None` means that the call would block.
fn check_bytes(result: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Accepts the next pending connection in non-blocking mode. Returns it with the peer's address, or `None` if nothing is pending.
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

/// Returns 0, since these systems do not report unacknowledged bytes. [`set_notsent_lowat`] should keep the error small.
pub(crate) fn unacknowledged_bytes(_socket: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(0)
}

/// Does nothing because other allocators return free memory on their own.
pub(crate) fn release_free_memory() {}

/// Limits the number of bytes that the kernel buffers for a connection. On these systems, this includes bytes in flight.
pub(crate) fn set_notsent_lowat(listener: &Socket, bytes: u32) -> io::Result<()> {
    listener.set_send_buffer_size(4 * bytes as usize)
}

/// Fails because only Linux has this option.
pub(crate) fn defer_accept(_listener: &Socket) -> io::Result<()> {
    let message = "only Linux can delay connections until their peers have sent data (TCP_DEFER_ACCEPT)";
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

/// Returns `true` if a socket is not connected, since not all systems can tell if it listens.
pub(crate) fn is_listener(socket: &Socket) -> io::Result<bool> {
    Ok(socket.peer_addr().is_err())
}

/// Receives into `buffer`. `None` means that the call would block; 0 means that the peer has closed its sending direction.
pub(crate) fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    check_bytes(rustix::net::recv(socket, buffer, RecvFlags::empty()).map(|(bytes, _)| bytes))
}

/// Sends one run of bytes. `None` means that the call would block. We do not need to handle SIGPIPE, as Rust programs ignore it.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    check_bytes(rustix::net::send(socket, bytes, SendFlags::empty()))
}

/// Sends several runs of bytes in order. `None` means that the call would block.
pub(crate) fn send_vectored(socket: BorrowedFd<'_>, runs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    check_bytes(rustix::io::writev(socket, runs))
}

/// Sets a socket option whose value is an `int`.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of_val(&value)).expect("the size of an `int`");
    let start = (&raw const value).cast();
    // SAFETY: `start` points to an `int` of `length` bytes, which the system only reads, and only until the call returns.
    if unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, start, length) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Receives messages until there are none left, each into its own buffer in `memory` and its own envelope. Returns the number of
/// messages.
pub(crate) fn receive_messages(
    socket: BorrowedFd<'_>,
    memory: &mut [u8],
    envelopes: &mut [Envelope],
) -> io::Result<usize> {
    let mut count = 0;
    for (buffer, envelope) in memory.chunks_exact_mut(BUFFER_STRIDE).zip(envelopes) {
        match receive_message(socket, &mut buffer[..BUFFER_BYTES], envelope) {
            Ok(()) => count += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // We've received some messages, so return those first. If the error lasts, the next call will report it.
            Err(_) if count > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

#[allow(clippy::useless_conversion, reason = "other systems have other types")]
fn receive_message(socket: BorrowedFd<'_>, buffer: &mut [u8], envelope: &mut Envelope) -> io::Result<()> {
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid `msghdr`: no address, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = envelope.name.as_mut_ptr().cast();
    message.msg_namelen = envelope.name.len().try_into().expect("the size of an address");
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = envelope.control.0.as_mut_ptr().cast();
    message.msg_controllen = envelope.control.0.len().try_into().expect("a small buffer");
    // SAFETY: `message` points to an address, a vector and control data with their lengths, and the vector to `buffer`, all
    // of which are unique borrows. The system writes to them only until the call returns.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    envelope.bytes = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    envelope.control_bytes = message.msg_controllen.try_into().expect("not more than the buffer");
    envelope.is_truncated = message.msg_flags & libc::MSG_TRUNC != 0;
    Ok(())
}

/// Sends a message. Fails with [`io::ErrorKind::WouldBlock`] if there is not any room.
#[allow(clippy::useless_conversion, reason = "other systems have other types")]
pub(crate) fn send_message(socket: BorrowedFd<'_>, message: &OutgoingMessage<'_>) -> io::Result<()> {
    let control = message.control.as_bytes();
    let mut vector =
        libc::iovec { iov_base: message.bytes.as_ptr().cast_mut().cast(), iov_len: message.bytes.len() };
    // SAFETY: all-zero is a valid `msghdr`: no address, no control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = message.name.bytes.as_ptr().cast_mut().cast();
    header.msg_namelen = message.name.length.try_into().expect("the size of an address");
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    // Some systems do not accept an empty buffer.
    if !control.is_empty() {
        header.msg_control = control.as_ptr().cast_mut().cast();
        header.msg_controllen = control.len().try_into().expect("a small buffer");
    }
    // SAFETY: `header` points to `vector` and to parts of `message`, which live until the call returns. The system only
    // reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends messages in order until one fails. Returns the number of messages sent, or the error if it was the first one that failed.
pub(crate) fn send_messages(socket: BorrowedFd<'_>, messages: &[OutgoingMessage<'_>]) -> io::Result<usize> {
    let mut sent = 0;
    for message in messages {
        match send_message(socket, message) {
            Ok(()) => sent += 1,
            Err(_) if sent > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Takes over a descriptor that the parent process has left open for us, or fails if it is not open.
pub(crate) fn inherit(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers and touches no memory of ours.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and the parent process passed it to us: no other value owns it. There is no safe
    // conversion from a number to an owned descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Fails because threads share a descriptor table.
pub(crate) fn unshare_descriptor_table() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails because only Linux has time slices of a thread.
pub(crate) fn set_time_slice(_slice: Duration) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails because threads share a descriptor table.
pub(crate) fn close_range(_first: RawFd, _last: RawFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails because the system has no call for all descriptors.
pub(crate) fn close_on_exec(_first: RawFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the address of a connection's peer, or `None` if the peer does not have one or the connection has failed.
pub(crate) fn peer_address(socket: &OwnedFd) -> Option<SocketAddr> {
    SockRef::from(socket).peer_addr().ok()?.as_socket()
}
