//! The TLS of one connection: sealed bytes between the network and a session, plain ones on the other side.
//!
//! Holds bytes only where it must: the beginning of a record that came, and records that the socket had no room for.
//! While the latter wait nothing more is sealed, and nothing is received, so both are bounded. Never looks at a plain
//! byte.

use std::io::{self, IoSlice};

use cannery_eventloop::{Received, Socket};
use cannery_secure::limits::RECORD_BYTES_MAX;
use cannery_secure::{Failure, HandshakeStep, OpenOutcome, Protocol, Session};
use cannery_wire::limits::{SEALED_BYTES_MAX, SEALED_BYTES_MIN, SEGMENTS_MAX};

use super::ack_tracker::Confirmed;
use super::recv::{Came, RECEIVE_BYTES, Share};

/// What every session of a worker uses in turn. It takes no memory before the first one needs it.
#[derive(Default)]
pub(super) struct SealedBuffers {
    /// What was just received, behind the beginning of a record that came before.
    received: Vec<u8>,
    /// What was opened of it.
    pub(crate) plain: Vec<u8>,
    /// What is to be sent.
    sealed: Vec<u8>,
}

/// The TLS of one connection.
pub(super) struct Secured {
    session: Session,
    /// The beginning of a record that came; or more, where the handshake's work is put off.
    begun: Vec<u8>,
    /// Whether what has begun can go on as soon as there is time for the handshake's work.
    is_put_off: bool,
    /// Whether the peer sends no more.
    ended: bool,
    /// Whether nothing more is sealed: the peer has been told so, or the session broke.
    closed: bool,
    /// Records that the socket had no room for.
    waiting: Vec<u8>,
    /// Of those, the bytes that are sent.
    waiting_sent: usize,
    /// Plain bytes that are sealed at once: as many as the socket is likely to take.
    piece: usize,
    /// Of sealed bytes.
    confirmed: Confirmed,
}

impl Secured {
    /// The TLS of a connection whose first bytes have come.
    pub(crate) fn new(session: Session, begun: &[u8]) -> Secured {
        Secured {
            session,
            begun: begun.to_vec(),
            is_put_off: !begun.is_empty(),
            ended: false,
            closed: false,
            waiting: Vec::new(),
            waiting_sent: 0,
            piece: SEALED_BYTES_MAX / 4,
            confirmed: Confirmed::default(),
        }
    }

    /// Whether the handshake is done.
    pub(super) fn is_established(&self) -> bool {
        !self.session.is_handshaking()
    }

    /// Whether what has come can be gone on with, without waiting for more.
    pub(crate) fn is_put_off(&self) -> bool {
        self.is_put_off
    }

    /// Whether it goes on from an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.session.is_resumed()
    }

    /// The version of TLS, once the handshake is done.
    pub(crate) fn version(&self) -> Option<cannery_secure::Version> {
        self.session.version()
    }

    /// What was agreed on, if anything was.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        self.session.protocol()
    }

    /// The peer was silent for a while: what follows is sent as at the beginning.
    pub(crate) fn rest(&mut self) {
        self.session.reset_record_size();
    }

    /// The memory of what it keeps, in bytes.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.begun.capacity() + self.waiting.capacity()
    }

    /// See [`Session::is_near_key_limit`].
    pub(super) fn is_wearing_out(&self) -> bool {
        self.session.is_near_key_limit()
    }

    /// Whether records wait that the socket had no room for.
    pub(super) fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Receives until there are plain bytes in the buffers, or nothing more is there. `ended` says that the peer's end is
    /// to be read for.
    // Within its caller it would lengthen the way of those who have no TLS; so would the next ones.
    #[inline(never)]
    pub(crate) fn receive(
        &mut self,
        socket: &impl Socket,
        buffers: &mut SealedBuffers,
        share: &mut Share,
        ended: bool,
    ) -> io::Result<Came> {
        if self.closed {
            return discard(socket, buffers, share);
        }
        while !self.ended {
            let begun = self.begun.len();
            // What comes before the handshake is done may have to be kept: no more of it than a record.
            let room = begun + if self.is_established() { RECEIVE_BYTES } else { RECORD_BYTES_MAX };
            buffers.received.resize(buffers.received.len().max(room), 0);
            let was_put_off = std::mem::take(&mut self.is_put_off);
            let came = if was_put_off {
                begun
            } else {
                match socket.receive(&mut buffers.received[begun..room])? {
                    Received::Bytes(bytes) => begun + bytes,
                    Received::WouldBlock => return Ok(Came::NotYet),
                    Received::Closed => return Ok(Came::End),
                }
            };
            share.bytes = share.bytes.saturating_sub((came - begun) as u64);
            buffers.received[..begun].copy_from_slice(&self.begun);
            let opened = match self.open(socket, buffers, came, share)? {
                Ok(opened) => opened,
                Err(failure) => {
                    return Ok(Came::Failed { is_plain_http: matches!(failure, Failure::PlainHttp) });
                }
            };
            // No event tells of an end that came as a record.
            let is_all = came < room && !ended && !was_put_off && !self.ended;
            if !buffers.plain.is_empty() {
                return Ok(Came::Bytes { bytes: buffers.plain.len(), is_all });
            }
            if self.is_blocked() {
                return Ok(Came::NotYet);
            }
            if opened.handshake_step == HandshakeStep::Deferred {
                return Ok(Came::Later);
            }
            if is_all || share.bytes == 0 && !self.ended {
                return Ok(Came::NotYet);
            }
        }
        Ok(Came::End)
    }

    /// Opens the first `came` bytes of what was received, keeps what cannot be yet, and sends what the session says.
    fn open(
        &mut self,
        socket: &impl Socket,
        buffers: &mut SealedBuffers,
        came: usize,
        share: &mut Share,
    ) -> io::Result<Result<OpenOutcome, Failure>> {
        buffers.plain.clear();
        buffers.sealed.clear();
        let SealedBuffers { received, plain, sealed } = buffers;
        let outcome = self.session.open(&mut received[..came], plain, sealed, share.handshakes > 0);
        if let Ok(opened) = &outcome {
            share.handshakes =
                share.handshakes.saturating_sub(u32::from(opened.handshake_step == HandshakeStep::Taken));
            self.ended = opened.peer_has_closed;
            self.is_put_off = opened.handshake_step == HandshakeStep::Deferred;
            // An idle connection shall hold no buffer: what is empty here takes no memory.
            self.begun = received[opened.consumed..came].to_vec();
        } else {
            self.begun = Vec::new();
            self.closed = true;
        }
        self.send_sealed(socket, sealed)?;
        Ok(outcome)
    }

    /// Takes of several runs as many bytes as the socket has room for, and perhaps a piece more; none while records wait.
    #[inline(never)]
    pub(crate) fn send_runs(
        &mut self,
        socket: &impl Socket,
        buffers: &mut SealedBuffers,
        runs: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let (mut taken, mut blocked) = (0, !self.flush(socket)?);
        while !blocked {
            let mut cut = [IoSlice::new(&[]); SEGMENTS_MAX];
            let (count, bytes) = cut_out(runs, taken, self.piece, &mut cut);
            if bytes == 0 {
                break;
            }
            buffers.sealed.clear();
            let sealed = self.session.seal(&cut[..count], &mut buffers.sealed);
            if let Err(failure) = sealed {
                // What is sealed is sent, and the end said: an answer that is cut must not look like a broken line.
                self.closed = true;
                self.session.close(&mut buffers.sealed);
                self.send_sealed(socket, &buffers.sealed)?;
                return Err(io::Error::other(failure.to_string()));
            }
            self.send_sealed(socket, &buffers.sealed)?;
            taken += bytes;
            blocked = self.is_blocked();
            self.piece = if blocked { SEALED_BYTES_MIN } else { (self.piece * 2).min(SEALED_BYTES_MAX) };
        }
        Ok(taken)
    }

    /// Sends what waits; tells whether nothing does any more.
    #[inline(never)]
    pub(crate) fn flush(&mut self, socket: &impl Socket) -> io::Result<bool> {
        while self.is_blocked() {
            let sent = socket.send(&self.waiting[self.waiting_sent..])?;
            if sent == 0 {
                return Ok(false);
            }
            self.confirmed.hand(sent as u64);
            self.waiting_sent += sent;
            if self.waiting_sent == self.waiting.len() {
                (self.waiting, self.waiting_sent) = (Vec::new(), 0);
            }
        }
        Ok(true)
    }

    /// Says that nothing more will be sent; tells whether that is on its way.
    #[inline(never)]
    pub(crate) fn close(&mut self, socket: &impl Socket, buffers: &mut SealedBuffers) -> io::Result<bool> {
        if !self.closed {
            self.closed = true;
            buffers.sealed.clear();
            self.session.close(&mut buffers.sealed);
            self.send_sealed(socket, &buffers.sealed)?;
        }
        self.flush(socket)
    }

    /// See [`Confirmed::since_last`]; counts sealed bytes.
    pub(super) fn confirmed_since_last(&mut self, unconfirmed: u64) -> Option<u64> {
        self.confirmed.since_last(unconfirmed)
    }

    /// Sends records behind those that wait, and keeps what there is no room for.
    fn send_sealed(&mut self, socket: &impl Socket, sealed: &[u8]) -> io::Result<()> {
        let sent = if self.is_blocked() || sealed.is_empty() { 0 } else { socket.send(sealed)? };
        self.confirmed.hand(sent as u64);
        self.waiting.extend_from_slice(&sealed[sent..]);
        Ok(())
    }
}

impl std::fmt::Debug for Secured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secured").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

/// Receives what is to be thrown away.
fn discard(socket: &impl Socket, buffers: &mut SealedBuffers, share: &mut Share) -> io::Result<Came> {
    buffers.received.resize(buffers.received.len().max(RECEIVE_BYTES), 0);
    Ok(match socket.receive(&mut buffers.received)? {
        Received::Bytes(bytes) => {
            share.bytes = share.bytes.saturating_sub(bytes as u64);
            buffers.plain.clear();
            Came::Bytes { bytes: 0, is_all: false }
        }
        Received::WouldBlock => Came::NotYet,
        Received::Closed => Came::End,
    })
}

/// Of several runs, without their first `skip` bytes, the first `bytes_max`, in `cut`: how many runs these are, and how
/// many bytes.
fn cut_out<'a>(
    runs: &'a [IoSlice<'_>],
    mut skip: usize,
    bytes_max: usize,
    cut: &mut [IoSlice<'a>; SEGMENTS_MAX],
) -> (usize, usize) {
    let (mut count, mut taken) = (0, 0);
    for run in runs {
        let skipped = skip.min(run.len());
        skip -= skipped;
        let bytes = (run.len() - skipped).min(bytes_max - taken);
        if bytes > 0 && count < cut.len() {
            cut[count] = IoSlice::new(&run[skipped..][..bytes]);
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
    fn pieces_of_runs_follow_each_other_whatever_their_size() {
        let texts: [&[u8]; 4] = [b"abc", b"", b"d", b"efghij"];
        let runs = texts.map(IoSlice::new);
        for piece in 1..12 {
            let mut out = Vec::new();
            loop {
                let mut cut = [IoSlice::new(&[]); SEGMENTS_MAX];
                let (count, bytes) = cut_out(&runs, out.len(), piece, &mut cut);
                if bytes == 0 {
                    break;
                }
                assert!(bytes <= piece);
                cut[..count].iter().for_each(|run| out.extend_from_slice(run));
            }
            assert_eq!(out, b"abcdefghij", "in pieces of {piece}");
        }
    }
}
