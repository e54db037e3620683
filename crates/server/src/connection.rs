//! One TCP connection: bytes in, `wire`, `site`, segments out.
//!
//! Never parses a byte itself. While it is idle it holds no buffer: what is received lies in the worker's,
//! and only the beginning of a request, or answers that the peer is slow to take, are kept here.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cannery_eventloop::{Accepted, Socket};
use cannery_wire::Refusal;
use cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN;
use cannery_wire::proxy::{self, Source};

use crate::config::{ListenerKind, Timeouts};
use crate::protocol::{Asker, Awaits, Protocol, Spelled};
use crate::receiving::Came;
use crate::secured::Secured;
use crate::shared::Shared;
use crate::transport::Transport;
use crate::unsent::{self, Unsent};

/// Bytes that one connection may receive and send in a turn of the loop. A peer whose network is as fast as we are
/// could else keep all others waiting for as long as its download takes. So many take a tenth of a millisecond.
pub(crate) const TURN_BYTES_MAX: u64 = 256 * 1024;

/// How long a peer that was refused may go on sending before the connection is closed under it. Closed at
/// once, the kernel would throw the answer away with the bytes that nobody reads.
const LINGER: Duration = Duration::from_secs(5);

/// What a turn may have received and sent for its connection to be closed without a word.
const CLOSED_AT_ONCE_BYTES_MAX: u64 = 64 * 1024;

/// How long a peer is silent until what it is sent begins as at first. A kernel forgets what it has learned of the way in
/// about as long.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a connection may answer from a release that was replaced, until its peer is told to make a new one.
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);

/// How long somebody who has only just connected may take to ask, once the server stops.
const NEWCOMER_GRACE: Duration = Duration::from_secs(1);

/// One TCP connection.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    transport: Transport<S>,
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
    /// What is to be spoken, also before it is.
    kind: ListenerKind,
    /// When the peer must have done what it is waited for.
    deadline: Option<Instant>,
    /// Whether it is to go on in the next turn without an event, and if so, whether its peer sends no more.
    put_off: Option<bool>,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// The PROXY header, which proxies send at once.
    Header,
    /// The end of the handshake of TLS.
    Handshake,
    /// The peer's next request, if it likes.
    Request,
    /// The rest of a head, or of a request's content.
    Rest(Awaits),
    /// Room to send.
    Room,
    /// Room in a window of the peer's own.
    Window,
    /// The peer's end.
    End,
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
            kind,
            deadline,
            put_off,
        }
    }

    pub(crate) fn socket(&self) -> &S {
        self.transport.socket()
    }

    /// Goes on as far as the socket and its share of a turn let it. `ended` says that the peer sends no more, so
    /// that the end is to be read for too: no event will come for it alone.
    pub(crate) fn turn(&mut self, shared: &mut Shared, ended: bool) -> Outcome {
        shared.share.bytes = shared.turn_bytes_max;
        match self.try_turn(shared, ended) {
            Ok(Outcome::Open) if shared.share.bytes == 0 => Outcome::PutOff,
            Ok(Outcome::Closed) => self.close(shared),
            Ok(outcome) => outcome,
            // A peer that is gone is no error worth telling: it happens all the time.
            Err(_) => Outcome::Closed,
        }
    }

    /// Says what is said at the end of a connection that owes nothing, as far as there is room, and ends it.
    fn end(&mut self, shared: &mut Shared) -> Outcome {
        self.protocol.end(shared);
        // Whoever does not get it sees the end itself.
        let _ = self.send_output(shared);
        self.close(shared)
    }

    /// Tells the peer of HTTP/2 that the connection ends when what it has asked is answered.
    fn announce_end(&mut self, shared: &mut Shared) -> Outcome {
        self.protocol.end_after_next();
        if !self.is_sending() && self.answer_held(shared).is_err() {
            return Outcome::Closed;
        }
        if self.state == State::Ending {
            return self.turn(shared, false);
        }
        // No event will come for what its share of this turn was too small for.
        if shared.share.bytes == 0 { Outcome::PutOff } else { Outcome::Open }
    }

    /// Ends the connection at once, with no more than a word if there is room for it.
    fn close(&mut self, shared: &mut Shared) -> Outcome {
        // Whoever does not get it sees the end itself.
        let _ = self.transport.say_end(&mut shared.buffers);
        Outcome::Closed
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
            if self.reads() && !self.answer_received(bytes, shared)? {
                return Ok(Outcome::Open);
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

    /// Whether the connection may be closed without waiting for the peer's end, which takes two calls more. If anything
    /// came behind, the kernel would throw away the answer that is on its way; but the peer has said that nothing does.
    /// What is much may not find a reader: that is not left to the kernel alone.
    fn may_close_at_once(&self, shared: &Shared) -> bool {
        let moved = shared.turn_bytes_max - shared.share.bytes;
        self.parts && moved <= CLOSED_AT_ONCE_BYTES_MAX && self.transport.secured().is_none()
    }

    /// Whether the first bytes of a handshake are there, and nobody has looked at them yet.
    #[inline]
    fn has_begun_handshake(&self) -> bool {
        self.transport.secured().is_some_and(Secured::is_put_off)
    }

    /// Begins to speak what was agreed on, if the handshake is done; tells whether what is said first is sent, or goes out
    /// with the answers to what has come already.
    #[cold]
    fn establish(&mut self, has_bytes: bool, shared: &mut Shared) -> io::Result<bool> {
        let Some(secured) = self.transport.secured().filter(|secured| secured.is_established()) else {
            return Ok(true);
        };
        shared.observer.shaken(secured.is_resumed());
        if secured.protocol() == Some(cannery_secure::Protocol::Http2) {
            self.protocol = Protocol::h2();
        }
        self.waits = Waits::Request;
        self.deadline = shared.timeouts.map(|timeouts| shared.now + timeouts.idle);
        self.protocol.begin(shared);
        if !has_bytes {
            self.unsent = self.send_output(shared)?;
        }
        Ok(has_bytes || !self.is_sending())
    }

    /// Ends a connection whose TLS failed: what there is to say in its own words is said. Who has asked in the clear is
    /// answered in the clear. Tells whether all of it is sent.
    #[cold]
    fn fail(&mut self, is_plain_http: bool, shared: &mut Shared) -> io::Result<bool> {
        shared.observer.not_secured();
        self.held = Vec::new();
        self.state = State::Ending;
        if is_plain_http {
            self.transport.give_up_tls();
            self.kind = ListenerKind::Plain;
            self.protocol = Protocol::new(false, shared);
            self.refuse(Refusal::RequestLine, shared);
            self.unsent = self.send_output(shared)?;
        }
        Ok(!self.is_sending())
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
        self.answer(&held, shared)
    }

    /// Answers the requests in what was just received; tells whether all answers are sent.
    #[inline]
    fn answer_received(&mut self, bytes: usize, shared: &mut Shared) -> io::Result<bool> {
        self.rest_if_idle(shared);
        let received = self.transport.lend_received(&mut shared.buffers);
        let done = if self.held.is_empty() {
            self.answer(&received.bytes[..bytes], shared)
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(&received.bytes[..bytes]);
            self.answer(&held, shared)
        };
        shared.buffers.give_back(received);
        done?;
        Ok(!self.is_sending())
    }

    /// What is sent behind a pause begins as the connection did.
    #[inline]
    fn rest_if_idle(&mut self, shared: &Shared) {
        if self.transport.secured().is_some()
            && self.waits == Waits::Request
            && let (Some(deadline), Some(timeouts)) = (self.deadline, shared.timeouts)
            && shared.now + timeouts.idle > deadline + PAUSE
        {
            self.transport.rest();
        }
    }

    /// Answers the requests in `input` until they end or no more may be sent, and holds what is left.
    fn answer(&mut self, input: &[u8], shared: &mut Shared) -> io::Result<()> {
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
            let asker = Asker { peer: &self.peer, is_secured: self.kind == ListenerKind::Tls };
            let spelled = self.protocol.spell_answers(&mut rest, asker, shared);
            if spelled == Spelled::Last {
                self.state = State::Ending;
                self.parts = rest.is_empty() && self.protocol.is_ended_by_peer();
            }
            answered |= !shared.output.is_empty();
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

    /// Goes on by TLS, with its first bytes.
    #[cold]
    fn secure(&mut self, begun: &[u8], shared: &Shared) -> io::Result<()> {
        let session = shared.tls.as_ref().map(|tls| tls.session());
        let session = session.ok_or(io::ErrorKind::Unsupported)?.map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.transport.secure(session, begun);
        self.waits = Waits::Handshake;
        Ok(())
    }

    /// Sends what is spelled, as far as it may. What is left comes back.
    #[inline]
    fn send_output(&mut self, shared: &mut Shared) -> io::Result<Option<Box<Unsent>>> {
        let Shared { output, content, buffers, now, share, .. } = shared;
        let content = self.protocol.content().unwrap_or(content);
        unsent::send_output(&mut self.transport.outlet(buffers), output, content, *now, &mut share.bytes)
    }

    /// Takes the PROXY header off the front of `rest`; tells whether it was there. Fails if it never will be: then
    /// the connection ends without an answer, as the specification wants it.
    #[cold]
    fn read_proxy_header(&mut self, rest: &mut &[u8], shared: &mut Shared) -> io::Result<bool> {
        match proxy::parse(rest) {
            proxy::Parsed::Header(source, length) => {
                match source {
                    Source::Connection => {}
                    Source::Internet(client) => self.peer = Some(client),
                    Source::Local => self.peer = None,
                }
                self.state = State::Open;
                *rest = &rest[length..];
                Ok(true)
            }
            proxy::Parsed::More => Ok(false),
            proxy::Parsed::Malformed => {
                shared.observer.unnamed();
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// Spells the answer to what is no request; false where nothing can be said.
    fn refuse(&mut self, refusal: Refusal, shared: &mut Shared) -> bool {
        let asker = Asker { peer: &self.peer, is_secured: self.kind == ListenerKind::Tls };
        self.protocol.refuse(refusal, asker, shared)
    }

    /// Sets the deadline of what is waited for now; `answered` says that a request has come since the last.
    fn set_deadline(&mut self, answered: bool, shared: &Shared) {
        let awaits = self.protocol.awaits();
        if awaits == Awaits::Request && !self.is_sending() {
            self.waits = Waits::Request;
            self.deadline = shared.idle_until;
            return;
        }
        let Some(timeouts) = shared.timeouts else { return };
        let (waits, patience) = match awaits {
            _ if self.is_sending() => (Waits::Room, timeouts.send),
            Awaits::Request => (Waits::Request, timeouts.idle),
            Awaits::Window => (Waits::Window, timeouts.send),
            rest => (Waits::Rest(rest), timeouts.head),
        };
        // Counted from the first byte of what is waited for: bytes that trickle in do not move it. Nor does room that does:
        // what counts there is how much.
        let is_the_same = waits == self.waits;
        if is_the_same && (waits == Waits::Window || matches!(waits, Waits::Rest(_)) && !answered) {
            return;
        }
        self.waits = waits;
        self.deadline = Some(shared.now + patience);
    }

    /// Whether the peer has been waited for too long. While others wait for a place, a `crowded` worker keeps no
    /// idle connection for long.
    pub(crate) fn is_late(&self, crowded: bool, shared: &Shared) -> bool {
        if shared.now >= shared.content_since + RELEASE_PATIENCE && self.protocol.is_behind(shared) {
            return true;
        }
        let (Some(deadline), Some(timeouts)) = (self.deadline, shared.timeouts) else { return false };
        let shortened = if crowded && self.waits == Waits::Request {
            timeouts.idle.saturating_sub(timeouts.idle_crowded)
        } else {
            Duration::ZERO
        };
        shared.now + shortened >= deadline
    }

    /// Ends a connection whose peer is late, unless it still takes what it is sent; tells whether it goes on.
    pub(crate) fn end_wait(&mut self, shared: &mut Shared) -> Outcome {
        shared.share.bytes = shared.turn_bytes_max;
        if self.protocol.is_behind(shared) {
            return self.announce_end(shared);
        }
        let Some(timeouts) = shared.timeouts else { return Outcome::Open };
        let waits = self.waits;
        match waits {
            Waits::Room => self.check_progress(shared.now, timeouts.send),
            // RFC 9110 §15.5.9: who is slow is told.
            Waits::Rest(Awaits::Head) if self.refuse(Refusal::Timeout, shared) => {
                self.state = State::Ending;
                self.held = Vec::new();
                match self.send_output(shared) {
                    Ok(None) => self.turn(shared, false),
                    // A page of the site's can be larger than what there is room for.
                    Ok(Some(unsent)) => {
                        self.unsent = Some(unsent);
                        self.waits = Waits::Room;
                        self.deadline = Some(shared.now + timeouts.send);
                        if shared.share.bytes == 0 { Outcome::PutOff } else { Outcome::Open }
                    }
                    Err(_) => Outcome::Closed,
                }
            }
            Waits::Window => {
                if self.protocol.taken_since_last() < timeouts.send.as_secs() * SEND_BYTES_PER_SECOND_MIN {
                    return self.end(shared);
                }
                self.deadline = Some(shared.now + timeouts.send);
                Outcome::Open
            }
            Waits::Request | Waits::Rest(_) => self.end(shared),
            Waits::Header | Waits::Handshake | Waits::End => Outcome::Closed,
        }
    }

    /// Whether a peer that is sent something takes it fast enough to be waited for. What counts is what has
    /// reached it: the kernel's buffer can be so large that there is no new room in it for minutes.
    fn check_progress(&mut self, now: Instant, window: Duration) -> Outcome {
        let Ok(unconfirmed) = self.transport.unconfirmed() else { return Outcome::Closed };
        let confirmed = self.transport.confirmed_since_last(unconfirmed);
        let confirmed = confirmed.or_else(|| Some(self.unsent.as_mut()?.confirmed_since_last(unconfirmed)));
        if confirmed.unwrap_or(0) < window.as_secs() * SEND_BYTES_PER_SECOND_MIN {
            // The kernel shall not go on waiting in our place. Where it cannot be told, it will.
            let _ = self.transport.abandon();
            return Outcome::Closed;
        }
        self.deadline = Some(now + window);
        Outcome::Open
    }

    /// Ends a connection in good order: at once if it is idle, else behind the answers that it is sending, or
    /// the one to the request that is on its way. Who has only just come is given a moment to ask.
    pub(crate) fn drain(&mut self, shared: &mut Shared) -> Outcome {
        shared.share.bytes = shared.turn_bytes_max;
        if !self.reads() {
            return Outcome::Open;
        }
        if matches!(self.protocol, Protocol::H2(_)) {
            let outcome = self.announce_end(shared);
            if self.waits == Waits::Request {
                self.hurry(shared);
            }
            return outcome;
        }
        if self.is_sending() {
            self.state = State::Ending;
            self.held = Vec::new();
            return Outcome::Open;
        }
        if self.waits == Waits::Request && self.protocol.may_end_silently() {
            return self.close(shared);
        }
        self.protocol.end_after_next();
        self.hurry(shared);
        Outcome::Open
    }

    /// Gives a peer that owes nothing no more than a moment.
    fn hurry(&mut self, shared: &Shared) {
        let end = shared.now + NEWCOMER_GRACE;
        self.deadline = Some(self.deadline.map_or(end, |deadline| deadline.min(end)));
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
