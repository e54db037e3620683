//! A connected socket that never blocks.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys;

/// A connected socket that never blocks. Closed when dropped.
#[derive(Debug)]
pub struct Socket(OwnedFd);

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

impl Socket {
    pub(crate) fn new(descriptor: OwnedFd) -> Socket {
        Socket(descriptor)
    }

    /// Receives what is there, up to the length of `buffer`, which is not empty.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        Ok(match sys::recv(self.0.as_fd(), buffer)? {
            None => Received::NotYet,
            Some(0) => Received::End,
            Some(bytes) => Received::Bytes(bytes),
        })
    }

    /// Sends as much of `bytes` as there is room for, and returns how much that was.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(sys::send(self.0.as_fd(), bytes)?.unwrap_or(0))
    }

    /// Sends as much of several runs as there is room for, in order, and returns how much that was.
    #[inline]
    pub fn send_runs(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(sys::send_runs(self.0.as_fd(), runs)?.unwrap_or(0))
    }

    /// Tells the peer that nothing more will be sent; receiving goes on.
    pub fn end_sending(&self) -> io::Result<()> {
        socket2::SockRef::from(&self.0).shutdown(Shutdown::Write)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
