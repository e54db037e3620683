//! Connected sockets in non-blocking mode: the operations that a connection needs, and the kernel's sockets.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::platform::{SplicePipe, syscalls};

/// A connected, non-blocking socket. Closed when dropped.
pub trait Socket {
    /// Receives up to the length of `buffer`, which must not be empty. A shorter result means that no more is available
    /// now.
    ///
    /// # Errors
    /// The connection has failed.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received>;

    /// Returns the memory, in bytes, of data that the loop has received for this connection and that was not read.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Sends as much of `bytes` as there is room for. Returns the number of bytes sent.
    ///
    /// # Errors
    /// The connection has failed.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Sends as much of the concatenation of `runs` as there is room for. Returns the number of bytes sent.
    ///
    /// # Errors
    /// The connection has failed.
    fn send_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends as much of `runs` and then of `body` as there is room for, without copying `body` if the platform can. Returns
    /// the number of bytes sent of both together.
    ///
    /// The kernel may read the pages of `body` after this call, and after their mapping is gone. Their bytes must therefore
    /// never change, and their mapping must only be unmapped as a whole. `runs` may change after the call.
    ///
    /// # Errors
    /// The connection has failed.
    fn send_zero_copy(&self, runs: &[IoSlice<'_>], body: &[u8], pipe: &SplicePipe) -> io::Result<usize> {
        let _ = pipe;
        let runs_bytes = runs.iter().map(|run| run.len()).sum();
        let sent = if runs_bytes == 0 { 0 } else { self.send_vectored(runs)? };
        if sent < runs_bytes {
            return Ok(sent);
        }
        Ok(sent + self.send(body)?)
    }

    /// Closes the sending direction; receiving goes on.
    ///
    /// # Errors
    /// The connection has failed.
    fn shutdown_write(&self) -> io::Result<()>;

    /// Returns the number of bytes that were sent and that the peer has not acknowledged. With a large send buffer, only
    /// this distinguishes a slow peer from one that has stopped reading.
    ///
    /// # Errors
    /// The connection has failed.
    fn unacknowledged_bytes(&self) -> io::Result<u64>;

    /// Makes closing this socket reset the connection. The kernel then discards unacknowledged bytes at once, where it
    /// would otherwise retransmit them for minutes.
    ///
    /// # Errors
    /// The connection has failed.
    fn reset_on_close(&self) -> io::Result<()>;
}

/// The result of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// This number of bytes, at least one.
    Bytes(usize),
    /// No bytes are available yet.
    WouldBlock,
    /// The peer has closed its sending direction.
    Closed,
}

/// A connection that was just accepted.
#[derive(Debug)]
pub struct Accepted<S> {
    /// The connection.
    pub socket: S,
    /// The peer's address; `None` for a local socket, or if no address is needed.
    pub peer: Option<SocketAddr>,
}

/// A socket of the kernel.
#[derive(Debug)]
pub struct KernelSocket(OwnedFd);

impl KernelSocket {
    pub(crate) fn new(descriptor: OwnedFd) -> KernelSocket {
        KernelSocket(descriptor)
    }

    /// Wraps a connection that another loop accepted and transferred to this one.
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
