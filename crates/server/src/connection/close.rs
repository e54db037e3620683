//! How a connection ends: with a word to its peer if it is owed one, and behind what is still to be sent.
//!
//! Never decides that a peer is late.

use std::time::Duration;

use cannery_eventloop::Socket;

use super::context::Shared;
use super::deadlines::Waits;
use super::protocol::Protocol;
use super::{Connection, Outcome, State};

/// How long a peer that was refused may go on sending before the connection is closed under it. Closed at
/// once, the kernel would throw the answer away with the bytes that nobody reads.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// What a turn may have received and sent for its connection to be closed without a word.
const CLOSED_AT_ONCE_BYTES_MAX: u64 = 64 * 1024;

impl<S: Socket> Connection<S> {
    /// Ends a late connection that owes nothing: at once where nothing is said, else behind the word. Its peer may be sending
    /// just then, and the kernel would throw the word away with what nobody reads.
    pub(super) fn end(&mut self, shared: &mut Shared) -> Outcome {
        self.was_late = true;
        self.protocol.end(shared);
        if shared.output.is_empty() {
            return self.close(shared);
        }
        let Ok(unsent) = self.send_output(shared) else { return Outcome::Closed };
        self.unsent = unsent;
        self.state = State::Ending;
        self.held = Vec::new();
        self.waits = Waits::End;
        self.deadline = Some(shared.now + LINGER);
        self.turn(shared, false)
    }

    /// Tells the peer of HTTP/2 that the connection ends when what it has asked is answered.
    pub(super) fn announce_end(&mut self, shared: &mut Shared) -> Outcome {
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
    pub(super) fn close(&mut self, shared: &mut Shared) -> Outcome {
        // Whoever does not get it sees the end itself.
        let _ = self.transport.say_end(&mut shared.buffers);
        Outcome::Closed
    }

    /// Whether the connection may be closed without waiting for the peer's end, which takes two calls more. If anything
    /// came behind, the kernel would throw away the answer that is on its way; but the peer has said that nothing does.
    /// What is much may not find a reader: that is not left to the kernel alone.
    pub(super) fn may_close_at_once(&self, shared: &Shared) -> bool {
        let moved = shared.turn_bytes_max - shared.share.bytes;
        self.parts && moved <= CLOSED_AT_ONCE_BYTES_MAX && self.transport.secured().is_none()
    }

    /// Ends a connection gracefully: after the answer to the request that is under way, or after [`DRAIN_GRACE`] if none
    /// comes. The answer that is being sent may not have said that it is the last, so a request may follow it.
    ///
    /// [`DRAIN_GRACE`]: super::context::DRAIN_GRACE
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
        self.protocol.end_after_next();
        // The rest of a request has its own deadline, and so has a peer that takes an answer.
        if !self.is_sending() && !matches!(self.waits, Waits::Rest(_)) {
            self.hurry(shared);
        }
        Outcome::Open
    }
}
