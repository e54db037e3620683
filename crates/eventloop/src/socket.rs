//! A connected socket that never blocks: what a connection does with one, and the kernel's.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::Accepted;
use crate::platform::syscalls as sys;
use crate::zero_copy::PagePipe;

/// A connected socket that never blocks. Closed when dropped.
pub trait Socket {
    /// Receives what is there, up to the length of `buffer`, which is not empty. Less than that means that
    /// no more is there now.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received>;

    /// Memory in which the loop keeps what it has received for this connection and the connection has not read, in bytes.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Sends as much of `bytes` as there is room for, and returns how much that was.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Sends as much of several runs as there is room for, in order, and returns how much that was.
    fn send_runs(&self, runs: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends as much of several runs as there is room for, and then of `pages`, whose bytes are lent to the kernel where
    /// that can be done: it may read them after this call, and after their mapping is gone. So they are bytes that
    /// never change, of a mapping that is given back whole. The runs may change. Returns how much was sent of both
    /// together.
    fn send_pages(&self, runs: &[IoSlice<'_>], pages: &[u8], pipe: &PagePipe) -> io::Result<usize> {
        // Where nothing can be lent, it is sent.
        let _ = pipe;
        let before = runs.iter().map(|run| run.len()).sum();
        match if before == 0 { 0 } else { self.send_runs(runs)? } {
            sent if sent < before => Ok(sent),
            sent => Ok(sent + self.send(pages)?),
        }
    }

    /// Tells the peer that nothing more will be sent; receiving goes on.
    fn end_sending(&self) -> io::Result<()>;

    /// How many bytes that were sent the peer has not confirmed yet: what tells a slow peer from one that
    /// takes nothing, where the kernel's buffer is large.
    fn unconfirmed(&self) -> io::Result<u64>;

    /// Makes the end of this socket a reset: what was sent and not confirmed is forgotten at once, where else the
    /// kernel would keep it for minutes and try to deliver it.
    fn abandon(&self) -> io::Result<()>;
}

/// What came of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, at least one.
    Bytes(usize),
    /// Nothing is there yet.
    NotYet,
    /// The peer sends no more.
    End,
}

/// A socket of the kernel's.
#[derive(Debug)]
pub struct KernelSocket(OwnedFd);

impl KernelSocket {
    pub(crate) fn new(descriptor: OwnedFd) -> KernelSocket {
        KernelSocket(descriptor)
    }

    /// A connection that another loop has accepted and handed over, as if it were accepted here.
    pub(crate) fn handed_over(descriptor: OwnedFd) -> Accepted<KernelSocket> {
        let peer = sys::peer(&descriptor);
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
        Ok(match sys::recv(self.0.as_fd(), buffer)? {
            None => Received::NotYet,
            Some(0) => Received::End,
            Some(bytes) => Received::Bytes(bytes),
        })
    }

    #[inline]
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(sys::send(self.0.as_fd(), bytes)?.unwrap_or(0))
    }

    #[inline]
    fn send_runs(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(sys::send_runs(self.0.as_fd(), runs, false)?.unwrap_or(0))
    }

    fn send_pages(&self, runs: &[IoSlice<'_>], pages: &[u8], pipe: &PagePipe) -> io::Result<usize> {
        pipe.send(self.0.as_fd(), runs, pages)
    }

    fn end_sending(&self) -> io::Result<()> {
        socket2::SockRef::from(&self.0).shutdown(Shutdown::Write)
    }

    fn unconfirmed(&self) -> io::Result<u64> {
        sys::unconfirmed(self.0.as_fd())
    }

    fn abandon(&self) -> io::Result<()> {
        socket2::SockRef::from(&self.0).set_linger(Some(Duration::ZERO))
    }
}
