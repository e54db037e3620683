//! Sends and receives plaintext. Uses TLS if the connection does.

use std::io::{self, IoSlice};

use cannery_eventloop::{Received, Socket, SplicePipe};
use cannery_transport::Session;

use super::ack_tracker::AckTracker;
use super::flow::Flow;
use super::recv::{ReadUntil, RecvOutcome};
use super::tls_stream::TlsStream;
use crate::context::{Buffers, IterationBudget, ReceivedBuffer, TlsBuffers};

/// A socket, possibly with TLS.
#[derive(Debug)]
pub(super) struct Transport<S> {
    socket: S,
    tls: Option<Box<TlsStream>>,
    /// Counts bytes sent without TLS.
    acks: AckTracker,
}

impl<S: Socket> Transport<S> {
    /// Creates a transport without TLS.
    pub(super) fn new(socket: S) -> Transport<S> {
        Transport { socket, tls: None, acks: AckTracker::default() }
    }

    /// Starts TLS. `received` is TLS data that has already arrived.
    pub(super) fn start_tls(&mut self, session: Session, received: &[u8]) {
        self.tls = Some(Box::new(TlsStream::new(session, received)));
    }

    /// Goes on without TLS because the peer does not speak it.
    pub(super) fn drop_tls(&mut self) {
        self.tls = None;
    }

    pub(super) fn socket(&self) -> &S {
        &self.socket
    }

    #[inline]
    pub(super) fn tls(&self) -> Option<&TlsStream> {
        self.tls.as_deref()
    }

    /// Returns the negotiated TLS version.
    #[inline]
    pub(super) fn tls_version(&self) -> Option<cannery_transport::Version> {
        self.tls.as_ref().and_then(|tls| tls.version())
    }

    /// Goes back to small TLS records.
    pub(super) fn reset_record_size(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.reset_record_size();
        }
    }

    /// Receives whatever has arrived.
    #[inline]
    pub(super) fn receive(
        &mut self,
        until: ReadUntil,
        buffers: &mut Buffers,
        budget: &mut IterationBudget,
    ) -> io::Result<RecvOutcome> {
        if let Some(tls) = &mut self.tls {
            return tls.receive(&self.socket, until, &mut buffers.tls, budget);
        }
        Ok(match self.socket.receive(&mut buffers.received)? {
            Received::Bytes(len) => {
                budget.bytes = budget.bytes.saturating_sub(len as u64);
                // After a short read, the socket is empty. There will be an event when more data arrives.
                let is_drained = len < buffers.received.len() && until == ReadUntil::Blocked;
                RecvOutcome::Data { len, is_drained }
            }
            Received::WouldBlock => RecvOutcome::Blocked,
            Received::Closed => RecvOutcome::Eof,
        })
    }

    /// Takes the buffer with the data that was received last. Callers should put it back with
    /// [`Buffers::restore`].
    #[inline]
    pub(super) fn take_received(&self, buffers: &mut Buffers) -> ReceivedBuffer {
        buffers.take(self.tls.is_some())
    }

    /// Returns a writer for plaintext.
    #[inline]
    pub(super) fn writer<'a>(&'a mut self, buffers: &'a mut Buffers) -> Writer<'a, S> {
        let Buffers { pipe, tls: tls_buffers, .. } = buffers;
        let tls = self.tls.as_deref_mut().map(|tls| (tls, tls_buffers));
        Writer { socket: &self.socket, pipe, acks: &mut self.acks, tls }
    }

    /// Whether TLS records are waiting for room in the socket. Until they are sent, writers will not take
    /// any more data.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_blocked())
    }

    /// Sends TLS records that are waiting.
    pub(super) fn flush(&mut self) -> io::Result<Flow> {
        self.tls.as_mut().map_or(Ok(Flow::Done), |tls| tls.flush(&self.socket))
    }

    /// Shuts down the sending direction. With TLS, sends `close_notify` first.
    pub(super) fn end_sending(&mut self, buffers: &mut Buffers) -> io::Result<Flow> {
        let flow = self.send_close_notify(buffers)?;
        if flow == Flow::Done {
            self.socket.shutdown_write()?;
        }
        Ok(flow)
    }

    /// Sends the `close_notify` alert in the case of TLS.
    pub(super) fn send_close_notify(&mut self, buffers: &mut Buffers) -> io::Result<Flow> {
        let Some(tls) = &mut self.tls else { return Ok(Flow::Done) };
        tls.close(&self.socket, &mut buffers.tls)
    }

    /// Sends bytes on a connection without TLS. Returns the number of bytes that the socket took.
    #[inline]
    pub(super) fn send_plain(&mut self, bytes: &[u8]) -> io::Result<usize> {
        debug_assert!(self.tls.is_none(), "these bytes are not encrypted");
        let sent = self.socket.send(bytes)?;
        self.acks.add_sent(sent as u64);
        Ok(sent)
    }

    /// Gets the number of bytes that the peer has acknowledged since the last call, or `None` if this will
    /// not be known before the next call.
    pub(super) fn acked_since_last(&mut self) -> io::Result<Option<u64>> {
        let unacked = self.socket.unacknowledged_bytes()?;
        Ok(match &mut self.tls {
            Some(tls) => tls.acked_since_last(unacked),
            None => self.acks.acked_since_last(unacked),
        })
    }

    /// Makes the kernel reset the connection on close, dropping anything that the peer has not
    /// acknowledged yet.
    pub(super) fn abandon(&self) -> io::Result<()> {
        self.socket.reset_on_close()
    }
}

/// Sends plaintext. Each method returns the number of bytes taken, which will be lower than requested if the
/// socket is full.
pub(super) struct Writer<'a, S> {
    socket: &'a S,
    pipe: &'a SplicePipe,
    /// Counts bytes sent without TLS.
    acks: &'a mut AckTracker,
    tls: Option<(&'a mut TlsStream, &'a mut TlsBuffers)>,
}

impl<S: Socket> Writer<'_, S> {
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.count(self.socket.send(bytes)),
            Some((tls, buffers)) => tls.send_vectored(self.socket, buffers, &[IoSlice::new(bytes)]),
        }
    }

    /// Sends several slices, in order.
    #[inline]
    pub(super) fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.count(self.socket.send_vectored(slices)),
            Some((tls, buffers)) => tls.send_vectored(self.socket, buffers, slices),
        }
    }

    /// Returns `true` if [`Writer::send_zero_copy`] is available. It is not with TLS because encryption copies
    /// anyway.
    #[inline]
    pub(super) fn has_zero_copy(&self) -> bool {
        self.tls.is_none() && self.pipe.is_available()
    }

    /// Sends several slices, followed by `pages`. The kernel will keep references to the latter rather than
    /// copying them, so these bytes must never change.
    pub(super) fn send_zero_copy(&mut self, slices: &[IoSlice<'_>], pages: &[u8]) -> io::Result<usize> {
        self.count(self.socket.send_zero_copy(slices, pages, self.pipe))
    }

    #[inline]
    fn count(&mut self, sent: io::Result<usize>) -> io::Result<usize> {
        if let Ok(sent) = sent {
            self.acks.add_sent(sent as u64);
        }
        sent
    }
}
