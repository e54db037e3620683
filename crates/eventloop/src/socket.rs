//! Connected sockets in non-blocking mode: the operations that connections need, and their implementation for kernel sockets.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::platform::{SplicePipe, syscalls};

/// A connected, non-blocking socket. Dropping it closes the connection.
pub trait Socket {
    /// Receives up to `buffer.len()` bytes (the buffer must not be empty). A shorter result means that there is nothing more to
    /// receive right now.
    ///
    /// # Errors
    /// Returns an error if the connection has failed.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received>;

    /// Returns the number of bytes that the loop has received for this connection but that have not been read yet.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Sends as many of `bytes` as there is room for. Returns the number of bytes sent.
    ///
    /// # Errors
    /// Returns an error if the connection has failed.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Sends as much of the concatenated `runs` as there is room for and returns the number of bytes sent.
    ///
    /// # Errors
    /// Returns an error if the connection has failed.
    fn send_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends as much of `runs` followed by `body` as there is room for, if possible without copying `body`. Returns the total
    /// number of bytes sent.
    ///
    /// Note that the kernel may read the pages of `body` long after this call, even when they are no longer mapped. These bytes
    /// must therefore never change, and they must be unmapped all at once. `runs`, however, may change right after the call.
    ///
    /// # Errors
    /// Returns an error if the connection has failed.
    fn send_zero_copy(&self, runs: &[IoSlice<'_>], body: &[u8], pipe: &SplicePipe) -> io::Result<usize> {
        let _ = pipe;
        let runs_bytes = runs.iter().map(|run| run.len()).sum();
        let sent = if runs_bytes == 0 { 0 } else { self.send_vectored(runs)? };
        if sent < runs_bytes {
            return Ok(sent);
        }
        Ok(sent + self.send(body)?)
    }

    /// Closes the sending direction. You can still receive.
    ///
    /// # Errors
    /// Returns an error if the connection has failed.
    fn shutdown_write(&self) -> io::Result<()>;

    /// Returns the number of bytes sent but not acknowledged by the peer. With a large send buffer, this is the only way to tell a
    /// slow peer from one that has stopped reading.
    ///
    /// # Errors
    /// Returns an error if the connection has failed.
    fn unacknowledged_bytes(&self) -> io::Result<u64>;

    /// Makes sure that the connection is reset when the socket is closed. The kernel will then discard unacknowledged bytes at
    /// once. Otherwise, it might retransmit them for minutes.
    ///
    /// # Errors
    /// Returns an error if the connection has failed.
    fn reset_on_close(&self) -> io::Result<()>;
}

/// The result of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Number of bytes received, at least one.
    Bytes(usize),
    /// There is nothing to receive yet.
    WouldBlock,
    /// The peer has closed the sending direction.
    Closed,
}

/// A connection that was just accepted.
#[derive(Debug)]
pub struct Accepted<S> {
    /// The connection.
    pub socket: S,
    /// The peer's address, or `None` for local sockets and when addresses are not needed.
    pub peer: Option<SocketAddr>,
}

/// A socket of the kernel.
#[derive(Debug)]
pub struct KernelSocket(OwnedFd);

impl KernelSocket {
    pub(crate) fn new(descriptor: OwnedFd) -> KernelSocket {
        KernelSocket(descriptor)
    }

    /// Wraps a connection that was accepted by another loop and then transferred to this one.
    pub(crate) fn from_transfer(descriptor: OwnedFd) -> Accepted<KernelSocket> {
        let peer = syscalls::peer_address(&descriptor);
        Accepted { socket: KernelSocket::new(descriptor), peer }
    }
}

impl AsFd for KernelSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Socket for KernelSocket {
    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        Ok(match syscalls::recv(self.0.as_fd(), buffer)? {
            None => Received::WouldBlock,
            Some(0) => Received::Closed,
            Some(bytes) => Received::Bytes(bytes),
        })
    }

    #[inline]
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(syscalls::send(self.0.as_fd(), bytes)?.unwrap_or(0))
    }

    #[inline]
    fn send_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(syscalls::send_vectored(self.0.as_fd(), runs)?.unwrap_or(0))
    }

    fn send_zero_copy(&self, runs: &[IoSlice<'_>], body: &[u8], pipe: &SplicePipe) -> io::Result<usize> {
        pipe.send(self.0.as_fd(), runs, body)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        socket2::SockRef::from(&self.0).shutdown(Shutdown::Write)
    }

    fn unacknowledged_bytes(&self) -> io::Result<u64> {
        syscalls::unacknowledged_bytes(self.0.as_fd())
    }

    fn reset_on_close(&self) -> io::Result<()> {
        socket2::SockRef::from(&self.0).set_linger(Some(Duration::ZERO))
    }
}
