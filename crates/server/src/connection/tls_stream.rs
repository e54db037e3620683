//! A TLS stream: records on the socket's side, plaintext on ours.
//!
//! It has two buffers of its own: one for a received record that is still incomplete, and one for records
//! that did not fit into the socket. Both are bounded because it will not encrypt or receive any more while
//! the latter is in use.

use std::io::{self, IoSlice};

use cannery_eventloop::{Received, Socket};
use cannery_transport::limits::RECORD_BYTES_MAX;
use cannery_transport::{
    Failure, HandshakeKind, HandshakePermit, HandshakeStep, OpenOutcome, Protocol, Session,
};
use cannery_wire::limits::{SEALED_BYTES_MAX, SEALED_BYTES_MIN, SEGMENTS_MAX};

use super::ack_tracker::AckTracker;
use super::flow::Flow;
use super::recv::{ReadUntil, RecvOutcome};
use crate::context::{IterationBudget, RECEIVE_BYTES, TlsBuffers};

/// TLS on one connection.
pub(super) struct TlsStream {
    session: Session,
    /// Incomplete record. May contain more than that if the handshake was deferred.
    incomplete: Vec<u8>,
    /// Whether we can process `incomplete` as soon as the budget allows for the handshake.
    is_handshake_deferred: bool,
    /// Whether the peer has sent `close_notify`.
    has_peer_closed: bool,
    /// Whether we have sent `close_notify` or the session has failed. We must not encrypt any more data
    /// then.
    is_closed: bool,
    /// Records that did not fit into the socket.
    pending: Vec<u8>,
    /// Bytes of `pending` that have been sent.
    pending_sent: usize,
    /// The number of plaintext bytes to encrypt at once, which should be close to what the socket
    /// will take.
    chunk_bytes: usize,
    /// Counts record bytes.
    acks: AckTracker,
}

impl TlsStream {
    /// Starts TLS on a connection that has already `received` some data.
    pub(super) fn new(session: Session, received: &[u8]) -> TlsStream {
        TlsStream {
            session,
            incomplete: received.to_vec(),
            is_handshake_deferred: !received.is_empty(),
            has_peer_closed: false,
            is_closed: false,
            pending: Vec::new(),
            pending_sent: 0,
            chunk_bytes: SEALED_BYTES_MAX / 4,
            acks: AckTracker::default(),
        }
    }

    pub(super) fn is_established(&self) -> bool {
        !self.session.is_handshaking()
    }

    /// Returns `true` if the handshake can continue without more data.
    pub(super) fn is_handshake_deferred(&self) -> bool {
        self.is_handshake_deferred
    }

    pub(super) fn handshake_kind(&self) -> HandshakeKind {
        self.session.handshake_kind()
    }

    /// Returns the negotiated TLS version once the handshake is complete.
    pub(super) fn version(&self) -> Option<cannery_transport::Version> {
        self.session.version()
    }

    /// Returns the protocol negotiated by ALPN (RFC 7301).
    pub(super) fn protocol(&self) -> Option<Protocol> {
        self.session.protocol()
    }

    /// Goes back to small records, as for a new connection.
    pub(super) fn reset_record_size(&mut self) {
        self.session.reset_record_size();
    }

    /// Returns the capacity of the stream's own buffers, in bytes.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        self.incomplete.capacity() + self.pending.capacity()
    }

    /// See [`Session::is_near_key_limit`].
    pub(super) fn is_near_key_limit(&self) -> bool {
        self.session.is_near_key_limit()
    }

    /// Returns `true` if some records are waiting for room in the socket.
    pub(super) fn is_blocked(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Receives until there is some plaintext, or the socket is empty.
    // Not inlined, and neither are the functions below: this would slow down connections without TLS.
    #[inline(never)]
    pub(super) fn receive(
        &mut self,
        socket: &impl Socket,
        until: ReadUntil,
        buffers: &mut TlsBuffers,
        budget: &mut IterationBudget,
    ) -> io::Result<RecvOutcome> {
        if self.is_closed {
            return discard(socket, buffers, budget);
        }
        while !self.has_peer_closed {
            // During the handshake, everything that we have received might have to be kept, so do not read more
            // than a record.
            let before = self.incomplete.len();
            let room = before + if self.is_established() { RECEIVE_BYTES } else { RECORD_BYTES_MAX };
            buffers.received.resize(buffers.received.len().max(room), 0);

            let was_deferred = std::mem::take(&mut self.is_handshake_deferred);
            let len = if was_deferred {
                before
            } else {
                match socket.receive(&mut buffers.received[before..room])? {
                    Received::Bytes(bytes) => before + bytes,
                    Received::WouldBlock => return Ok(RecvOutcome::Blocked),
                    Received::Closed => return Ok(RecvOutcome::Eof),
                }
            };
            budget.bytes = budget.bytes.saturating_sub((len - before) as u64);

            buffers.received[..before].copy_from_slice(&self.incomplete);
            let opened = match self.decrypt(socket, buffers, len, budget)? {
                Ok(opened) => opened,
                Err(failure) => {
                    let is_plain_http = matches!(failure, Failure::PlainHttp);
                    return Ok(RecvOutcome::TlsFailed { is_plain_http });
                }
            };

            // If the end of the stream arrived as a record, we will not get an event for it.
            let is_announced = until == ReadUntil::Blocked && !self.has_peer_closed;
            let is_drained = len < room && !was_deferred && is_announced;
            if !buffers.plaintext.is_empty() {
                return Ok(RecvOutcome::Data { len: buffers.plaintext.len(), is_drained });
            }
            if self.is_blocked() {
                return Ok(RecvOutcome::Blocked);
            }
            if opened.handshake_step == HandshakeStep::Deferred {
                return Ok(RecvOutcome::HandshakeDeferred);
            }
            if is_drained || budget.bytes == 0 && !self.has_peer_closed {
                return Ok(RecvOutcome::Blocked);
            }
        }
        Ok(RecvOutcome::Eof)
    }

    /// Decrypts the first `len` bytes of the receive buffer, keeping any incomplete record. If the session
    /// has something to send (e.g. handshake messages or alerts), this will be sent too.
    fn decrypt(
        &mut self,
        socket: &impl Socket,
        buffers: &mut TlsBuffers,
        len: usize,
        budget: &mut IterationBudget,
    ) -> io::Result<Result<OpenOutcome, Failure>> {
        buffers.plaintext.clear();
        buffers.records.clear();
        let TlsBuffers { received, plaintext, records } = buffers;
        let permit = if budget.handshakes > 0 { HandshakePermit::Granted } else { HandshakePermit::Withheld };
        let outcome = self.session.open(&mut received[..len], plaintext, records, permit);

        if let Ok(opened) = &outcome {
            let has_taken_step = opened.handshake_step == HandshakeStep::Taken;
            budget.handshakes = budget.handshakes.saturating_sub(u32::from(has_taken_step));
            self.has_peer_closed = opened.peer_has_closed;
            self.is_handshake_deferred = opened.handshake_step == HandshakeStep::Deferred;
            // Note that copying an empty slice does not allocate, so idle connections have no
            // buffer.
            self.incomplete = received[opened.consumed..len].to_vec();
        } else {
            self.incomplete = Vec::new();
            self.is_closed = true;
        }

        self.send_records(socket, records)?;
        Ok(outcome)
    }

    /// Encrypts and sends as much as the socket has room for, plus at most one chunk. Returns the number of
    /// plaintext bytes (0 if some records are already waiting).
    #[inline(never)]
    pub(super) fn send_vectored(
        &mut self,
        socket: &impl Socket,
        buffers: &mut TlsBuffers,
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let mut taken = 0;
        let mut is_blocked = self.flush(socket)?.is_blocked();
        while !is_blocked {
            let mut chunk = [IoSlice::new(&[]); SEGMENTS_MAX];
            let (count, bytes) = cut_chunk(slices, taken, self.chunk_bytes, &mut chunk);
            if bytes == 0 {
                break;
            }

            buffers.records.clear();
            if let Err(failure) = self.session.seal(&chunk[..count], &mut buffers.records) {
                // Send `close_notify` anyway. Otherwise, the client could not tell a truncated response from a
                // lost connection.
                self.is_closed = true;
                self.session.close(&mut buffers.records);
                self.send_records(socket, &buffers.records)?;
                return Err(io::Error::other(failure.to_string()));
            }
            self.send_records(socket, &buffers.records)?;
            taken += bytes;

            is_blocked = self.is_blocked();
            // Encrypt less if the socket is full because records that have to wait take memory.
            self.chunk_bytes =
                if is_blocked { SEALED_BYTES_MIN } else { (self.chunk_bytes * 2).min(SEALED_BYTES_MAX) };
        }
        Ok(taken)
    }

    /// Sends records that are waiting.
    #[inline(never)]
    pub(super) fn flush(&mut self, socket: &impl Socket) -> io::Result<Flow> {
        while self.is_blocked() {
            let sent = socket.send(&self.pending[self.pending_sent..])?;
            if sent == 0 {
                return Ok(Flow::Blocked);
            }
            self.acks.add_sent(sent as u64);
            self.pending_sent += sent;
            if self.pending_sent == self.pending.len() {
                self.pending = Vec::new();
                self.pending_sent = 0;
            }
        }
        Ok(Flow::Done)
    }

    /// Sends `close_notify`, unless it was sent before.
    #[inline(never)]
    pub(super) fn close(&mut self, socket: &impl Socket, buffers: &mut TlsBuffers) -> io::Result<Flow> {
        if !self.is_closed {
            self.is_closed = true;
            buffers.records.clear();
            self.session.close(&mut buffers.records);
            self.send_records(socket, &buffers.records)?;
        }
        self.flush(socket)
    }

    /// See [`AckTracker::acked_since_last`]. This counts record bytes.
    pub(super) fn acked_since_last(&mut self, unacked: u64) -> Option<u64> {
        self.acks.acked_since_last(unacked)
    }

    /// Sends records, after those that are already waiting. Keeps any that do not fit into the socket.
    fn send_records(&mut self, socket: &impl Socket, records: &[u8]) -> io::Result<()> {
        let sent = if self.is_blocked() || records.is_empty() { 0 } else { socket.send(records)? };
        self.acks.add_sent(sent as u64);
        self.pending.extend_from_slice(&records[sent..]);
        Ok(())
    }
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsStream").field("pending", &self.pending.len()).finish_non_exhaustive()
    }
}

/// Receives some data and discards it.
fn discard(
    socket: &impl Socket,
    buffers: &mut TlsBuffers,
    budget: &mut IterationBudget,
) -> io::Result<RecvOutcome> {
    buffers.received.resize(buffers.received.len().max(RECEIVE_BYTES), 0);
    Ok(match socket.receive(&mut buffers.received)? {
        Received::Bytes(bytes) => {
            budget.bytes = budget.bytes.saturating_sub(bytes as u64);
            buffers.plaintext.clear();
            RecvOutcome::Data { len: 0, is_drained: false }
        }
        Received::WouldBlock => RecvOutcome::Blocked,
        Received::Closed => RecvOutcome::Eof,
    })
}

/// Fills `chunk` with up to `bytes_max` bytes of `slices` after skipping the first `skip` bytes. Returns the
/// number of slices and bytes in the chunk.
fn cut_chunk<'a>(
    slices: &'a [IoSlice<'_>],
    mut skip: usize,
    bytes_max: usize,
    chunk: &mut [IoSlice<'a>; SEGMENTS_MAX],
) -> (usize, usize) {
    let mut count = 0;
    let mut taken = 0;
    for slice in slices {
        let skipped = skip.min(slice.len());
        skip -= skipped;
        let bytes = (slice.len() - skipped).min(bytes_max - taken);
        if bytes > 0 && count < chunk.len() {
            chunk[count] = IoSlice::new(&slice[skipped..][..bytes]);
            count += 1;
            taken += bytes;
        }
    }
    (count, taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_any_size_join_to_the_slices() {
        let texts: [&[u8]; 4] = [b"abc", b"", b"d", b"efghij"];
        let slices = texts.map(IoSlice::new);
        for chunk_bytes in 1..12 {
            let mut joined = Vec::new();
            loop {
                let mut chunk = [IoSlice::new(&[]); SEGMENTS_MAX];
                let (count, bytes) = cut_chunk(&slices, joined.len(), chunk_bytes, &mut chunk);
                if bytes == 0 {
                    break;
                }
                assert!(bytes <= chunk_bytes);
                for slice in &chunk[..count] {
                    joined.extend_from_slice(slice);
                }
            }
            assert_eq!(joined, b"abcdefghij", "in chunks of {chunk_bytes}");
        }
    }
}
