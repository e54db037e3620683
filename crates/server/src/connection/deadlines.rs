//! What a connection waits for, until when, and what becomes of it when its peer is late.
//!
//! Never looks at what is received: whoever answers says that something has come.

use std::time::{Duration, Instant};

use cannery_eventloop::Socket;
use cannery_wire::Refusal;
use cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN;

use super::context::{DRAIN_GRACE, Shared};
use super::protocol::Awaits;
use super::{Connection, Outcome, State};

/// How long a connection may answer from a release that was replaced, until its peer is told to make a new one.
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
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

impl<S: Socket> Connection<S> {
    /// Sets the deadline of what is waited for now; `answered` says that a request has come since the last.
    pub(super) fn set_deadline(&mut self, answered: bool, shared: &mut Shared) {
        let awaits = self.protocol.awaits();
        if awaits == Awaits::Request && !self.is_sending() {
            self.waits = Waits::Request;
            self.deadline = shared.idle_until;
            self.count_if_not_idle(shared);
            return;
        }
        self.count_memory(shared);
        let Some(timeouts) = shared.timeouts else {
            self.deadline = None;
            return;
        };
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
        let Some(deadline) = self.deadline else { return false };
        let shortened = match shared.timeouts {
            Some(timeouts) if crowded && self.waits == Waits::Request => {
                timeouts.idle.saturating_sub(timeouts.idle_crowded)
            }
            _ => Duration::ZERO,
        };
        shared.now + shortened >= deadline
    }

    /// Ends a connection whose peer is late, unless it still takes what it is sent; tells whether it goes on.
    pub(crate) fn end_wait(&mut self, shared: &mut Shared) -> Outcome {
        shared.share.bytes = shared.turn_bytes_max;
        if self.protocol.is_behind(shared) {
            return self.announce_end(shared);
        }
        // Without timeouts only connections that end have deadlines.
        let timeouts = shared.timeouts.unwrap_or_default();
        let waits = self.waits;
        match waits {
            Waits::Room => self.check_progress(shared.now, timeouts.send),
            // RFC 9110 §15.5.9: who is slow is told.
            Waits::Rest(Awaits::Head) if self.refuse(Refusal::Timeout, shared) => {
                self.was_late = true;
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
                // A window that is opened in large steps stays shut while the bytes before it are still on their way.
                let taken = self.protocol.taken_since_last();
                let Ok(confirmed) = self.transport.confirmed_since_last() else { return Outcome::Closed };
                if confirmed.is_some_and(|confirmed| taken.max(confirmed) < least_bytes(timeouts.send)) {
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
        let Ok(confirmed) = self.transport.confirmed_since_last() else { return Outcome::Closed };
        if confirmed.is_some_and(|confirmed| confirmed < least_bytes(window)) {
            // Without the reset the kernel would keep what the peer doesn't take, and go on trying to deliver it.
            let reset = self.transport.abandon();
            debug_assert!(reset.is_ok(), "a connection cannot be reset: {reset:?}");
            return Outcome::Closed;
        }
        self.deadline = Some(now + window);
        Outcome::Open
    }

    /// Gives a peer that owes nothing no more than a moment.
    pub(super) fn hurry(&mut self, shared: &Shared) {
        let end = shared.now + DRAIN_GRACE;
        self.deadline = Some(self.deadline.map_or(end, |deadline| deadline.min(end)));
    }
}

/// The least that a peer must take in this time.
fn least_bytes(window: Duration) -> u64 {
    window.as_secs() * SEND_BYTES_PER_SECOND_MIN
}
