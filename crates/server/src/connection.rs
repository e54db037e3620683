//! One TCP connection: bytes in, `wire`, `site`, segments out.
//!
//! Never parses a byte itself. While it is idle it holds no buffer: what is received lies in the worker's,
//! and only the beginning of a request, or answers that the peer is slow to take, are kept here. What comes before
//! requests, what is waited for and how it ends are in files of their own below.

mod ack_tracker;
mod close;
mod context;
mod deadlines;
mod handshake;
#[cfg(test)]
mod limits_page;
mod memory;
pub(crate) mod memory_budget;
mod pending_write;
mod protocol;
mod recv;
mod send_batch;
mod tls_stream;
mod transport;

#[cfg(test)]
pub(crate) use context::DRAIN_GRACE;
pub(crate) use context::{AddedFields, Fields, Shared};
pub(crate) use memory_budget::Memory;
pub(crate) use recv::Share;
pub(crate) use send_batch::Due;
pub(crate) use transport::Buffers;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use cannery_eventloop::{Accepted, Socket};
use cannery_wire::Refusal;

use crate::config::{ListenerKind, Timeouts};
pub(crate) use close::LINGER;
use deadlines::Waits;
use pending_write::Unsent;
use protocol::{Asker, Protocol, Spelled};
use recv::Came;
use send_batch::Body;
use transport::Transport;

/// Bytes that one connection may receive and send in a turn of the loop. A peer whose network is as fast as we are
/// could else keep all others waiting for as long as its download takes. So many take a tenth of a millisecond.
pub(crate) const TURN_BYTES_MAX: u64 = 256 * 1024;

/// How long a peer is silent until what it is sent begins as at first. A kernel forgets what it has learned of the way in
/// about as long.
const PAUSE: Duration = Duration::from_secs(1);

/// One TCP connection.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    transport: Transport<S>,
    /// Where its peer is, as far as anybody wants to know.
    peer: Option<SocketAddr>,
    protocol: Protocol,
    /// Bytes that were received and not yet answered.
    held: Vec<u8>,
    /// Answers that the peer has not taken yet. While there are any, nothing is received.
    unsent: Option<Box<Unsent>>,
    state: State,
    /// Whether the peer has said that its last request is its last, and has sent nothing behind it.
    parts: bool,
    waits: Waits,
    /// Whether it ends because its peer was waited for too long.
    was_late: bool,
    /// What is to be spoken, also before it is.
    kind: ListenerKind,
    /// When the peer must have done what it is waited for.
    deadline: Option<Instant>,
    /// Whether it is to go on in the next turn without an event, and if so, whether its peer sends no more.
    put_off: Option<bool>,
    /// Whether its last answer waits among those that are sent together.
    is_due: bool,
    /// Memory that it keeps, in bytes, as the worker's sum has it.
    memory: u32,
    /// Memory that it keeps while it is idle.
    idle_memory: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The PROXY header is not read yet: nothing is known of who asks, and nothing is answered.
    Unnamed,
    /// Requests are read and answered.
    Open,
    /// The last answer is spelled: when it is sent, the connection ends.
    Ending,
    /// All is sent, and the peer has been told so; what it still sends is thrown away.
    Lingering,
}

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It waits for its next event.
    Open,
    /// It is to go on in the next turn, without an event: its share of this one is used up.
    PutOff,
    /// The same when there is time for its handshake.
    Handshake,
    /// Its answer is to be sent together with others'.
    Due,
    /// It is over.
    Closed,
}

impl<S: Socket> Connection<S> {
    pub(crate) fn new(accepted: Accepted<S>, kind: ListenerKind, shared: &Shared) -> Connection<S> {
        let state = if shared.proxied { State::Unnamed } else { State::Open };
        let waits = match (shared.proxied, kind) {
            (true, _) => Waits::Header,
            (false, ListenerKind::Tls) => Waits::Handshake,
            (false, ListenerKind::Plain) => Waits::Request,
        };
        let patience =
            |timeouts: Timeouts| if waits == Waits::Request { timeouts.idle } else { timeouts.head };
        let deadline = shared.timeouts.map(|timeouts| shared.now + patience(timeouts));
        let protocol = Protocol::new(kind == ListenerKind::Tls, shared);
        let Accepted { socket, peer } = accepted;
        let (held, unsent, put_off) = (Vec::new(), None, None);
        Connection {
            transport: Transport::new(socket),
            peer,
            protocol,
            held,
            unsent,
            state,
            parts: false,
            waits,
            was_late: false,
            kind,
            deadline,
            put_off,
            is_due: false,
            memory: memory::PLAIN_BYTES,
            idle_memory: memory::PLAIN_BYTES,
        }
    }

    pub(crate) fn socket(&self) -> &S {
        self.transport.socket()
    }

    /// Whether it ends because its peer was waited for too long, however it ended then.
    pub(crate) fn was_late(&self) -> bool {
        self.was_late
    }

    /// Goes on as far as the socket and its share of a turn let it. `ended` says that the peer sends no more, so
    /// that the end is to be read for too: no event will come for it alone.
    pub(crate) fn turn(&mut self, shared: &mut Shared, ended: bool) -> Outcome {
        shared.share.bytes = shared.turn_bytes_max;
        let outcome = self.try_turn(shared, ended);
        self.count_sealed(shared);
        match outcome {
            Ok(Outcome::Open) if shared.share.bytes == 0 => Outcome::PutOff,
            Ok(Outcome::Closed) => self.close(shared),
            Ok(outcome) => outcome,
            // A peer that is gone is no error worth telling: it happens all the time.
            Err(_) => Outcome::Closed,
        }
    }

    /// Whether its last answer waits among those that are sent together. Nothing may be done with it until then.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Sends the answer that waited.
    #[inline]
    pub(crate) fn send_due(
        &mut self,
        bytes: Range<usize>,
        body: Option<Body>,
        shared: &mut Shared,
    ) -> Outcome {
        self.is_due = false;
        if let Some(body) = body {
            return self.send_due_parts(bytes, body, shared);
        }
        let length = bytes.len();
        match self.transport.send_plain(shared.due.bytes(bytes.clone())) {
            Ok(sent) if sent == length => Outcome::Open,
            Ok(sent) => self.keep_due(bytes, None, sent as u64, shared),
            // A peer that is gone is no error worth telling: it happens all the time.
            Err(_) => Outcome::Closed,
        }
    }

    /// Sends bytes that waited, and what comes behind them.
    #[inline(never)]
    fn send_due_parts(&mut self, own: Range<usize>, body: Body, shared: &mut Shared) -> Outcome {
        let Shared { due, content, buffers, .. } = shared;
        let length = own.len() as u64 + body.1.length;
        let outlet = &mut self.transport.outlet(buffers);
        match pending_write::send_answer(outlet, due.bytes(own.clone()), body, content) {
            Ok(sent) if sent == length => Outcome::Open,
            Ok(sent) => self.keep_due(own, Some(body), sent, shared),
            Err(_) => Outcome::Closed,
        }
    }

    /// Keeps what there was no room for until there is.
    #[cold]
    fn keep_due(&mut self, own: Range<usize>, body: Option<Body>, sent: u64, shared: &mut Shared) -> Outcome {
        let Shared { due, output, content, now, .. } = shared;
        output.put(due.bytes(own));
        if let Some((archive, extent)) = body {
            output.set_archive(archive);
            output.put_archive(extent);
        }
        self.unsent = Some(pending_write::keep(output, sent, content, *now));
        output.clear();
        shared.observer.deferred();
        self.set_deadline(true, shared);
        Outcome::Open
    }

    /// Whether it is to go on in the next turn without an event.
    #[inline]
    pub(crate) fn is_put_off(&self) -> bool {
        self.put_off.is_some()
    }

    /// Remembers that it is to go on in the next turn; tells whether that is new.
    #[cold]
    pub(crate) fn put_off(&mut self, ended: bool) -> bool {
        let before = self.put_off.replace(ended || self.put_off == Some(true));
        before.is_none()
    }

    /// That turn has come; tells whether the peer sends no more.
    pub(crate) fn take_up(&mut self) -> bool {
        self.put_off.take() == Some(true)
    }

    fn try_turn(&mut self, shared: &mut Shared, ended: bool) -> io::Result<Outcome> {
        if !self.flush(shared)? {
            return Ok(Outcome::Open);
        }
        loop {
            if self.state == State::Ending {
                if self.may_close_at_once(shared) {
                    return Ok(Outcome::Closed);
                }
                if !self.transport.end_sending(&mut shared.buffers)? {
                    return Ok(Outcome::Open);
                }
                self.state = State::Lingering;
                self.waits = Waits::End;
                self.deadline = Some(shared.now + LINGER);
            }
            if shared.share.bytes == 0 {
                return Ok(Outcome::Open);
            }
            let came = self.transport.receive(&mut shared.buffers, &mut shared.share, ended)?;
            let has_bytes = matches!(came, Came::Bytes { .. });
            if self.waits == Waits::Handshake && !self.establish(has_bytes, shared)? {
                return Ok(Outcome::Open);
            }
            let Came::Bytes { bytes, is_all } = came else {
                let Some(outcome) = self.take_none(came, shared)? else { continue };
                return Ok(outcome);
            };
            if self.reads() && !self.answer_received(bytes, is_all, shared)? {
                return Ok(Outcome::Open);
            }
            if self.is_due {
                return Ok(Outcome::Due);
            }
            if self.reads() && is_all && !self.has_begun_handshake() {
                return Ok(Outcome::Open);
            }
        }
    }

    /// Does what there is to do where no bytes came; tells how the turn ends by that, if it does.
    fn take_none(&mut self, came: Came, shared: &mut Shared) -> io::Result<Option<Outcome>> {
        Ok(match came {
            Came::Bytes { .. } => None,
            // What waits to be sent has to go before anything is received.
            Came::NotYet => Some(Outcome::Open),
            Came::Later => Some(Outcome::Handshake),
            Came::End => Some(Outcome::Closed),
            Came::Failed { is_plain_http } => (!self.fail(is_plain_http, shared)?).then_some(Outcome::Open),
        })
    }

    /// Whether what the peer sends is read, and not thrown away.
    fn reads(&self) -> bool {
        matches!(self.state, State::Unnamed | State::Open)
    }

    /// Sends what is unsent and answers what is held, as far as it may; tells whether nothing of either is left to do.
    fn flush(&mut self, shared: &mut Shared) -> io::Result<bool> {
        if self.transport.is_blocked() {
            if !self.transport.flush()? {
                return Ok(false);
            }
            if self.unsent.is_none() {
                self.answer_held(shared)?;
            }
        }
        while let Some(unsent) = &mut self.unsent {
            if shared.share.bytes == 0 {
                return Ok(false);
            }
            let outlet = &mut self.transport.outlet(&mut shared.buffers);
            let sent = unsent.send(outlet, &mut shared.share.bytes)?;
            if unsent.is_done() {
                shared.observer.sent(shared.now.saturating_duration_since(unsent.since()));
                self.unsent = None;
                if !self.transport.is_blocked() {
                    self.answer_held(shared)?;
                }
            } else if sent == 0 {
                return Ok(false);
            }
        }
        Ok(!self.transport.is_blocked())
    }

    /// Whether something waits to be sent.
    #[inline]
    fn is_sending(&self) -> bool {
        self.unsent.is_some() || self.transport.is_blocked()
    }

    fn answer_held(&mut self, shared: &mut Shared) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.answer(&held, false, shared)
    }

    /// Answers the requests in what was just received; tells whether all answers are sent, or due. `is_all` says that the
    /// turn ends there.
    #[inline]
    fn answer_received(&mut self, bytes: usize, is_all: bool, shared: &mut Shared) -> io::Result<bool> {
        if let Some(secured) = self.transport.secured() {
            if secured.is_wearing_out() {
                self.protocol.end_after_next();
            }
            self.rest_if_idle(shared);
        }
        let received = self.transport.lend_received(&mut shared.buffers);
        let done = if self.held.is_empty() {
            self.answer(&received.bytes[..bytes], is_all, shared)
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(&received.bytes[..bytes]);
            self.answer(&held, is_all, shared)
        };
        shared.buffers.give_back(received);
        done?;
        Ok(!self.is_sending())
    }

    /// What is sent behind a pause begins as the connection did.
    #[inline]
    fn rest_if_idle(&mut self, shared: &Shared) {
        if self.waits == Waits::Request
            && let (Some(deadline), Some(timeouts)) = (self.deadline, shared.timeouts)
            && shared.now + timeouts.idle > deadline + PAUSE
        {
            self.transport.rest();
        }
    }

    /// Answers the requests in `input` until they end or no more may be sent, and holds what is left. `is_all` says that
    /// nothing else is done with the connection in this turn, so that its answers may wait for others.
    fn answer(&mut self, input: &[u8], is_all: bool, shared: &mut Shared) -> io::Result<()> {
        let mut rest = input;
        if self.state == State::Unnamed && !self.read_proxy_header(&mut rest, shared)? {
            self.held = rest.to_vec();
            return Ok(());
        }
        if self.kind == ListenerKind::Tls && self.transport.secured().is_none() {
            return self.secure(rest, shared);
        }
        let mut answered = false;
        while self.state == State::Open && !self.is_sending() {
            let is_secured = self.kind == ListenerKind::Tls;
            let asker = Asker { peer: &self.peer, is_secured, tls: self.transport.tls_version() };
            let spelled = self.protocol.spell_answers(&mut rest, asker, shared);
            if spelled == Spelled::Last {
                self.state = State::Ending;
                self.parts = rest.is_empty() && self.protocol.is_ended_by_peer();
            }
            answered |= !shared.output.is_empty();
            if is_all && spelled == Spelled::All && self.defer_output(shared) {
                break;
            }
            self.unsent = self.send_output(shared)?;
            self.protocol.let_go();
            if self.unsent.is_some() {
                self.parts = false;
                shared.observer.deferred();
            }
            if spelled != Spelled::Full {
                break;
            }
        }
        if self.state == State::Open && !rest.is_empty() {
            self.held = rest.to_vec();
        }
        self.set_deadline(answered, shared);
        Ok(())
    }

    /// Lets what is spelled wait for other connections' answers, if it is not large; tells whether it does.
    #[inline]
    fn defer_output(&mut self, shared: &mut Shared) -> bool {
        let Some(own) = shared.output.inline_only() else { return self.defer_parts(shared) };
        let length = own.len() as u64;
        if !self.may_defer(own, length, shared) {
            return false;
        }
        shared.due.put(own);
        self.has_deferred(length, shared);
        true
    }

    /// The same where a range of the archive is behind our own bytes.
    fn defer_parts(&mut self, shared: &mut Shared) -> bool {
        let Some((own, archive, extent)) = shared.output.inline_and_range() else { return false };
        let length = own.len() as u64 + extent.length;
        // From another release than the current one it would have to say from which.
        if self.protocol.content().is_some() || !self.may_defer(own, length, shared) {
            return false;
        }
        shared.due.put(own);
        shared.due.put_body((archive, extent));
        self.has_deferred(length, shared);
        true
    }

    /// Whether an answer of so many bytes, of which some are our own, may wait. What TLS seals would wait in a buffer that it
    /// shares with others.
    #[inline]
    fn may_defer(&self, own: &[u8], length: u64, shared: &Shared) -> bool {
        Due::takes(own.len()) && length < shared.share.bytes && self.transport.secured().is_none()
    }

    /// What was spelled waits now.
    #[inline]
    fn has_deferred(&mut self, length: u64, shared: &mut Shared) {
        shared.share.bytes -= length;
        shared.output.clear();
        self.protocol.let_go();
        self.is_due = true;
    }

    /// Sends what is spelled, as far as it may. What is left comes back.
    #[inline]
    fn send_output(&mut self, shared: &mut Shared) -> io::Result<Option<Box<Unsent>>> {
        let Shared { output, content, buffers, now, share, .. } = shared;
        let content = self.protocol.content().unwrap_or(content);
        pending_write::send_output(
            &mut self.transport.outlet(buffers),
            output,
            content,
            *now,
            &mut share.bytes,
        )
    }

    /// Spells the answer to what is no request; false where nothing can be said.
    fn refuse(&mut self, refusal: Refusal, shared: &mut Shared) -> bool {
        let is_secured = self.kind == ListenerKind::Tls;
        let asker = Asker { peer: &self.peer, is_secured, tls: self.transport.tls_version() };
        self.protocol.refuse(refusal, &self.held, asker, shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_eventloop::KernelSocket;

    #[test]
    fn an_idle_connection_takes_no_more_than_two_hundred_bytes() {
        // What it holds besides is empty while it is idle, and the slab adds its generation.
        assert!(size_of::<Connection<KernelSocket>>() <= 192, "{}", size_of::<Connection<KernelSocket>>());
    }
}
