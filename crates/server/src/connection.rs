//! One TCP connection: bytes in, `wire`, `site`, segments out.
//!
//! Never parses a byte itself. While it is idle it holds no buffer: what is received lies in the worker's,
//! and only the beginning of a request, or answers that the peer is slow to take, are kept here.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cannery_eventloop::{Accepted, Received, Socket};
use cannery_site::Scratch;
use cannery_wire::h1::{self, Step};
use cannery_wire::{Output, Refusal, ServerFields};

use crate::config::Timeouts;
use crate::content::{Asked, Content};
use crate::observer::Observer;
use crate::unsent::{Unsent, send_output};

/// Bytes that one call receives, and that a connection keeps at most of requests that it has not answered.
pub(crate) const RECEIVE_BYTES: usize = 64 * 1024;

/// How long a peer that was refused may go on sending before the connection is closed under it. Closed at
/// once, the kernel would throw the answer away with the bytes that nobody reads.
const LINGER: Duration = Duration::from_secs(5);

/// What every connection of a worker uses in turn.
pub(crate) struct Shared {
    pub(crate) content: Arc<Content>,
    pub(crate) fields: ServerFields,
    pub(crate) scratch: Scratch,
    pub(crate) output: Output,
    pub(crate) input: Box<[u8]>,
    pub(crate) timeouts: Option<Timeouts>,
    pub(crate) now: Instant,
    pub(crate) observer: Observer,
}

/// One TCP connection.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    socket: S,
    peer: Option<SocketAddr>,
    http: h1::Connection,
    /// Bytes that were received and not yet answered.
    held: Vec<u8>,
    /// Answers that the peer has not taken yet. While there are any, nothing is received.
    unsent: Option<Box<Unsent>>,
    state: State,
    /// When the peer must have done what it is waited for.
    deadline: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
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
    /// It is over.
    Closed,
}

impl<S: Socket> Connection<S> {
    pub(crate) fn new(accepted: Accepted<S>, shared: &Shared) -> Connection<S> {
        let deadline = shared.timeouts.map(|timeouts| shared.now + timeouts.idle);
        let http = h1::Connection::default();
        let Accepted { socket, peer } = accepted;
        Connection { socket, peer, http, held: Vec::new(), unsent: None, state: State::Open, deadline }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// Goes on as far as the socket lets it. `ended` says that the peer sends no more, so that the end is
    /// to be read for too: no event will come for it alone.
    pub(crate) fn turn(&mut self, shared: &mut Shared, ended: bool) -> Outcome {
        // A peer that is gone is no error worth telling: it happens all the time.
        self.try_turn(shared, ended).unwrap_or(Outcome::Closed)
    }

    fn try_turn(&mut self, shared: &mut Shared, ended: bool) -> io::Result<Outcome> {
        if !self.flush(shared)? {
            return Ok(Outcome::Open);
        }
        loop {
            if self.state == State::Ending {
                self.socket.end_sending()?;
                self.state = State::Lingering;
                self.deadline = Some(shared.now + LINGER);
            }
            let received = match self.socket.receive(&mut shared.input)? {
                Received::Bytes(bytes) => bytes,
                Received::NotYet => return Ok(Outcome::Open),
                Received::End => return Ok(Outcome::Closed),
            };
            if self.state == State::Open && !self.answer_received(received, shared)? {
                return Ok(Outcome::Open);
            }
            // Less than there was room for: the socket is empty, and its next bytes make an event.
            if self.state == State::Open && received < shared.input.len() && !ended {
                return Ok(Outcome::Open);
            }
        }
    }

    /// Sends what is unsent and answers what is held; tells whether nothing of either is left to do.
    fn flush(&mut self, shared: &mut Shared) -> io::Result<bool> {
        while let Some(unsent) = &mut self.unsent {
            let sent = unsent.send(&self.socket)?;
            if unsent.is_done() {
                self.unsent = None;
                let held = std::mem::take(&mut self.held);
                self.answer(&held, shared)?;
            } else if sent == 0 {
                return Ok(false);
            } else {
                self.deadline = shared.timeouts.map(|timeouts| shared.now + timeouts.send);
            }
        }
        Ok(true)
    }

    /// Answers the requests in what was just received; tells whether all answers are sent.
    #[inline]
    fn answer_received(&mut self, received: usize, shared: &mut Shared) -> io::Result<bool> {
        let input = std::mem::take(&mut shared.input);
        let done = if self.held.is_empty() {
            self.answer(&input[..received], shared)
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(&input[..received]);
            self.answer(&held, shared)
        };
        shared.input = input;
        done?;
        Ok(self.unsent.is_none())
    }

    /// Answers the requests in `input` until they end or the socket is full, and holds what is left.
    fn answer(&mut self, input: &[u8], shared: &mut Shared) -> io::Result<()> {
        let mut rest = input;
        while self.state == State::Open && self.unsent.is_none() {
            let more = self.spell_answers(&mut rest, shared);
            self.unsent = send_output(&self.socket, &mut shared.output, &shared.content)?;
            if !more {
                break;
            }
        }
        if self.state == State::Open && !rest.is_empty() {
            self.held = rest.to_vec();
        }
        self.set_deadline(shared);
        Ok(())
    }

    /// Spells answers until the requests in `rest` end or the output is full; tells whether it was the
    /// latter.
    #[inline]
    fn spell_answers(&mut self, rest: &mut &[u8], shared: &mut Shared) -> bool {
        while shared.output.has_room() {
            let (used, step) = self.http.next_request(rest);
            match step {
                Step::Request(head) => {
                    let Shared { content, fields, scratch, output, observer, .. } = &mut *shared;
                    let asked = Asked { peer: self.peer, head: &head };
                    content.answer(&mut self.http, &asked, scratch, fields, output, observer);
                }
                Step::More => {
                    *rest = &rest[used..];
                    return false;
                }
                Step::Refused(refusal) => self.refuse(refusal, shared),
            }
            *rest = &rest[used..];
            if self.http.is_closing() {
                self.state = State::Ending;
                return false;
            }
        }
        true
    }

    /// Spells the answer to what is no request.
    fn refuse(&mut self, refusal: Refusal, shared: &mut Shared) {
        self.http.refuse(refusal, &shared.fields, &mut shared.output);
        shared.observer.refused(self.peer, refusal);
    }

    /// Sets the deadline of what is waited for now.
    fn set_deadline(&mut self, shared: &Shared) {
        let Some(timeouts) = shared.timeouts else { return };
        let patience = if self.unsent.is_some() {
            timeouts.send
        } else if self.http.is_within_request() {
            // From the first byte of the request: bytes that trickle in do not move it.
            if !self.held.is_empty()
                && self.deadline.is_some_and(|deadline| deadline < shared.now + timeouts.head)
            {
                return;
            }
            timeouts.head
        } else {
            timeouts.idle
        };
        self.deadline = Some(shared.now + patience);
    }

    /// Ends a connection whose deadline has passed; tells whether it goes on.
    pub(crate) fn check_deadline(&mut self, shared: &mut Shared) -> Outcome {
        if self.deadline.is_none_or(|deadline| shared.now < deadline) {
            return Outcome::Open;
        }
        if self.state != State::Open || self.unsent.is_some() || !self.http.is_within_request() {
            return Outcome::Closed;
        }
        // RFC 9110 §15.5.9: who is slow is told.
        self.refuse(Refusal::Timeout, shared);
        self.state = State::Ending;
        match send_output(&self.socket, &mut shared.output, &shared.content) {
            Ok(None) => self.turn(shared, false),
            // No room for so small an answer, or nobody to take it.
            Ok(Some(_)) | Err(_) => Outcome::Closed,
        }
    }

    /// Ends a connection in good order: at once if it is idle, else behind the answers that it is sending.
    pub(crate) fn drain(&mut self) -> Outcome {
        if self.state == State::Open && self.unsent.is_none() {
            return Outcome::Closed;
        }
        self.state = if self.state == State::Lingering { State::Lingering } else { State::Ending };
        self.held = Vec::new();
        Outcome::Open
    }
}
