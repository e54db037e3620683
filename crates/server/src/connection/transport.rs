//! What a connection sends and receives by: plain bytes on this side, whatever the network has on the other.
//!
//! In the clear they are handed on as they are; else the connection's TLS stands between. Knows no HTTP.

use std::io::{self, IoSlice};

use cannery_eventloop::{Received, Socket, SplicePipe};
use cannery_secure::Session;

use super::ack_tracker::Confirmed;
use super::recv::{Came, RECEIVE_BYTES, Share};
use super::tls_stream::{SealedBuffers, Secured};

/// What every transport of a worker uses in turn, so that an idle one has no buffer of its own.
pub(crate) struct Buffers {
    /// What was just received in the clear.
    input: Vec<u8>,
    /// By way of which large bodies are lent to the kernel.
    pipe: SplicePipe,
    sealed: SealedBuffers,
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers { input: vec![0; RECEIVE_BYTES], pipe: SplicePipe::new(), sealed: SealedBuffers::default() }
    }
}

impl Buffers {
    /// Takes back what was lent.
    #[inline]
    pub(crate) fn give_back(&mut self, lent: Lent) {
        *self.received(lent.is_opened) = lent.bytes;
    }

    #[inline]
    fn received(&mut self, is_opened: bool) -> &mut Vec<u8> {
        if is_opened { &mut self.sealed.plain } else { &mut self.input }
    }
}

/// What was received, lent to whoever reads it.
pub(crate) struct Lent {
    pub(crate) bytes: Vec<u8>,
    /// Whether a session has opened it. By the time it is given back its connection may have got its first one.
    is_opened: bool,
}

/// What a connection sends and receives by.
#[derive(Debug)]
pub(crate) struct Transport<S> {
    socket: S,
    secured: Option<Box<Secured>>,
    /// What was sent in the clear.
    confirmed: Confirmed,
}

impl<S: Socket> Transport<S> {
    /// In the clear.
    pub(crate) fn new(socket: S) -> Transport<S> {
        Transport { socket, secured: None, confirmed: Confirmed::default() }
    }

    /// Goes on by TLS, of which the first bytes may be here already.
    pub(super) fn secure(&mut self, session: Session, begun: &[u8]) {
        self.secured = Some(Box::new(Secured::new(session, begun)));
    }

    /// Goes on in the clear: the peer speaks no TLS.
    pub(super) fn give_up_tls(&mut self) {
        self.secured = None;
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// The TLS of the connection, if it has one.
    #[inline]
    pub(crate) fn secured(&self) -> Option<&Secured> {
        self.secured.as_deref()
    }

    /// The version of TLS that is spoken, if any is.
    #[inline]
    pub(super) fn tls_version(&self) -> Option<cannery_secure::Version> {
        self.secured.as_ref().and_then(|secured| secured.version())
    }

    /// The peer was silent for a while: what follows is sent as at the beginning.
    pub(crate) fn rest(&mut self) {
        self.secured.iter_mut().for_each(|secured| secured.rest());
    }

    /// Receives what is there. `ended` says that the peer's end is to be read for.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        buffers: &mut Buffers,
        share: &mut Share,
        ended: bool,
    ) -> io::Result<Came> {
        if let Some(secured) = &mut self.secured {
            return secured.receive(&self.socket, &mut buffers.sealed, share, ended);
        }
        Ok(match self.socket.receive(&mut buffers.input)? {
            Received::Bytes(bytes) => {
                share.bytes = share.bytes.saturating_sub(bytes as u64);
                // Less than there was room for: the socket is empty, and its next bytes make an event.
                Came::Bytes { bytes, is_all: bytes < buffers.input.len() && !ended }
            }
            Received::WouldBlock => Came::NotYet,
            Received::Closed => Came::End,
        })
    }

    /// Lends what was received last, to be given back when it is read.
    #[inline]
    pub(super) fn lend_received(&self, buffers: &mut Buffers) -> Lent {
        let is_opened = self.secured.is_some();
        Lent { bytes: std::mem::take(buffers.received(is_opened)), is_opened }
    }

    /// What takes the bytes that are to be sent.
    #[inline]
    pub(super) fn outlet<'a>(&'a mut self, buffers: &'a mut Buffers) -> Outlet<'a, S> {
        let Buffers { pipe, sealed, .. } = buffers;
        let secured = self.secured.as_deref_mut().map(|secured| (secured, sealed));
        Outlet { socket: &self.socket, pipe, confirmed: &mut self.confirmed, secured }
    }

    /// Whether bytes wait that were taken and that the socket had no room for. Until they are sent, nothing more is taken.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.secured.as_ref().is_some_and(|secured| secured.is_blocked())
    }

    /// Sends what waits; tells whether nothing does any more.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        self.secured.as_mut().map_or(Ok(true), |secured| secured.flush(&self.socket))
    }

    /// Tells the peer that nothing more will be sent; false if that has to wait until there is room.
    pub(crate) fn end_sending(&mut self, buffers: &mut Buffers) -> io::Result<bool> {
        let is_said = self.say_end(buffers)?;
        if is_said {
            self.socket.shutdown_write()?;
        }
        Ok(is_said)
    }

    /// The same where the connection ends now: what there is no room for is not said.
    pub(super) fn say_end(&mut self, buffers: &mut Buffers) -> io::Result<bool> {
        let Some(secured) = &mut self.secured else { return Ok(true) };
        secured.close(&self.socket, &mut buffers.sealed)
    }

    /// Sends bytes in the clear, on a connection without TLS.
    #[inline]
    pub(super) fn send_plain(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.socket.send(bytes)?;
        self.confirmed.hand(sent as u64);
        Ok(sent)
    }

    /// Returns how many bytes the peer has acknowledged since the last call, or `None` if this cannot be told yet.
    pub(super) fn confirmed_since_last(&mut self) -> io::Result<Option<u64>> {
        let unconfirmed = self.socket.unacknowledged_bytes()?;
        Ok(match &mut self.secured {
            Some(secured) => secured.confirmed_since_last(unconfirmed),
            None => self.confirmed.since_last(unconfirmed),
        })
    }

    /// Makes the end a reset, which forgets what was sent and not confirmed.
    pub(crate) fn abandon(&self) -> io::Result<()> {
        self.socket.reset_on_close()
    }
}

/// Takes bytes that are to be sent, as many as there is room for; each call returns how many that were.
pub(super) struct Outlet<'a, S> {
    socket: &'a S,
    pipe: &'a SplicePipe,
    /// Counts what is sent in the clear.
    confirmed: &'a mut Confirmed,
    secured: Option<(&'a mut Secured, &'a mut SealedBuffers)>,
}

impl<S: Socket> Outlet<'_, S> {
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.secured {
            None => self.count(self.socket.send(bytes)),
            Some((secured, buffers)) => secured.send_runs(self.socket, buffers, &[IoSlice::new(bytes)]),
        }
    }

    /// Takes several runs, in order.
    #[inline]
    pub(crate) fn send_runs(&mut self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.secured {
            None => self.count(self.socket.send_vectored(runs)),
            Some((secured, buffers)) => secured.send_runs(self.socket, buffers, runs),
        }
    }

    /// Whether pages can be lent: what is sealed first is copied as it is.
    #[inline]
    pub(super) fn lends(&self) -> bool {
        self.secured.is_none() && self.pipe.is_available()
    }

    /// Takes several runs, and then pages that are lent: bytes of an archive, which never change.
    pub(super) fn send_pages(&mut self, runs: &[IoSlice<'_>], pages: &[u8]) -> io::Result<usize> {
        self.count(self.socket.send_zero_copy(runs, pages, self.pipe))
    }

    #[inline]
    fn count(&mut self, sent: io::Result<usize>) -> io::Result<usize> {
        if let Ok(sent) = sent {
            self.confirmed.hand(sent as u64);
        }
        sent
    }
}
