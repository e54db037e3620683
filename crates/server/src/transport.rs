//! What a connection sends and receives by: plain bytes on this side, whatever the network has on the other.
//!
//! Knows no HTTP.

use std::io::{self, IoSlice};

use cannery_eventloop::{PagePipe, Received, Socket};

/// Bytes that one call receives.
pub(crate) const RECEIVE_BYTES: usize = 64 * 1024;

/// What every transport of a worker uses in turn, so that an idle one has no buffer of its own.
pub(crate) struct Buffers {
    /// What was just received.
    pub(crate) input: Box<[u8]>,
    /// By way of which large bodies are lent to the kernel.
    pipe: PagePipe,
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers { input: vec![0; RECEIVE_BYTES].into(), pipe: PagePipe::new() }
    }
}

/// What a connection sends and receives by.
#[derive(Debug)]
pub(crate) struct Transport<S> {
    socket: S,
}

impl<S: Socket> Transport<S> {
    pub(crate) fn new(socket: S) -> Transport<S> {
        Transport { socket }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// Receives what is there into the input of the buffers. Less than that has room for means that no more is there
    /// now.
    #[inline]
    pub(crate) fn receive(&mut self, buffers: &mut Buffers) -> io::Result<Received> {
        self.socket.receive(&mut buffers.input)
    }

    /// What takes the bytes that are to be sent.
    #[inline]
    pub(crate) fn outlet<'a>(&'a mut self, buffers: &'a mut Buffers) -> Outlet<'a, S> {
        Outlet { socket: &self.socket, pipe: &buffers.pipe }
    }

    /// Tells the peer that nothing more will be sent.
    pub(crate) fn end_sending(&mut self) -> io::Result<()> {
        self.socket.end_sending()
    }

    /// How many bytes of those that were sent the peer has not confirmed yet.
    pub(crate) fn unconfirmed(&self) -> io::Result<u64> {
        self.socket.unconfirmed()
    }

    /// Makes the end a reset, which forgets what was sent and not confirmed.
    pub(crate) fn abandon(&self) -> io::Result<()> {
        self.socket.abandon()
    }
}

/// Takes bytes that are to be sent, as many as there is room for; each call returns how many that were.
pub(crate) struct Outlet<'a, S> {
    socket: &'a S,
    pipe: &'a PagePipe,
}

impl<S: Socket> Outlet<'_, S> {
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(bytes)
    }

    /// Takes several runs, in order.
    #[inline]
    pub(crate) fn send_runs(&mut self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.send_runs(runs)
    }

    /// Takes several runs, and then pages that are lent: bytes of an archive, which never change.
    pub(crate) fn send_pages(&mut self, runs: &[IoSlice<'_>], pages: &[u8]) -> io::Result<usize> {
        self.socket.send_pages(runs, pages, self.pipe)
    }
}
