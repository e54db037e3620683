//! Deadlines of a connection, and the consequences if one passes.

use std::time::{Duration, Instant};

use cannery_eventloop::Socket;
use cannery_wire::Refusal;
use cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN;

use super::context::{DRAIN_GRACE, WorkerContext};
use super::protocol::Awaits;
use super::{Connection, Next, Phase, ReadUntil};

/// How long a connection may send from a release that was replaced before its client is sent GOAWAY.
const OLD_RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// The reason why a connection waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The rest of the PROXY header or of the TLS handshake, depending on the phase.
    Start,
    /// The next request, if the client has one.
    Request,
    /// The rest of a request's head or content.
    Rest(Awaits),
    /// The response of a handler.
    Handler,
    /// The next bytes of a body that a handler makes.
    Body,
    /// Room in the socket.
    SendRoom,
    /// Room in a flow-control window of HTTP/2.
    Window,
    /// The end of the peer's sending direction.
    PeerClose,
}

/// The content of the data that was processed since the deadline was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Processed {
    /// No complete request.
    Part,
    /// Requests that got responses.
    Requests,
}

impl<S: Socket> Connection<S> {
    /// Sets the reason to wait, and its deadline, after data was `processed`.
    pub(super) fn set_deadline(&mut self, processed: Processed, cx: &mut WorkerContext) {
        let awaits = self.protocol.awaits();
        if awaits == Awaits::Request && !self.is_sending() {
            self.wait = Wait::Request;
            self.deadline = cx.clock.idle_until;
            self.count_idle_memory(cx);
            return;
        }
        self.count_memory(cx);

        if matches!(awaits, Awaits::Handler | Awaits::Body) && !self.is_sending() {
            return self.await_handler(awaits, cx);
        }
        let Some(timeouts) = cx.policy.timeouts else {
            self.deadline = None;
            return;
        };
        let (wait, timeout) = match awaits {
            _ if self.is_sending() => (Wait::SendRoom, timeouts.send),
            Awaits::Request => (Wait::Request, timeouts.idle),
            Awaits::Window => (Wait::Window, timeouts.send),
            rest => (Wait::Rest(rest), timeouts.head),
        };

        // The time counts from the first byte of a request: a byte from time to time doesn't extend it. Small window
        // updates don't either, because `on_deadline` compares the bytes of the whole time.
        let is_unchanged = wait == self.wait;
        let continues_request = matches!(wait, Wait::Rest(_)) && processed == Processed::Part;
        if is_unchanged && (wait == Wait::Window || continues_request) {
            return;
        }
        self.wait = wait;
        self.deadline = Some(cx.clock.now + timeout);
    }

    /// Waits for a handler: for its response, until the one that runs longest is late, or for the next bytes of a body, as long as
    /// the handler takes.
    #[cold]
    fn await_handler(&mut self, awaits: Awaits, cx: &WorkerContext) {
        let oldest = self.protocol.oldest_handler();
        self.wait = if awaits == Awaits::Body { Wait::Body } else { Wait::Handler };
        self.deadline = oldest.zip(cx.policy.timeouts).map(|(since, timeouts)| since + timeouts.handler);
    }

    /// Returns `true` if the deadline has passed. The deadline of an idle connection is earlier while the worker
    /// `is_crowded`, because other clients wait to be accepted.
    pub(crate) fn is_late(&self, is_crowded: bool, cx: &WorkerContext) -> bool {
        let now = cx.clock.now;
        if now >= cx.release.since + OLD_RELEASE_TIMEOUT && self.protocol.is_outdated(&cx.release.content) {
            return true;
        }
        let Some(deadline) = self.deadline else { return false };
        let shortened = match cx.policy.timeouts {
            Some(timeouts) if is_crowded && self.wait == Wait::Request => {
                timeouts.idle.saturating_sub(timeouts.idle_crowded)
            }
            _ => Duration::ZERO,
        };
        now + shortened >= deadline
    }

    /// Ends a connection after its deadline, unless its peer still receives a response fast enough.
    pub(crate) fn on_deadline(&mut self, cx: &mut WorkerContext) -> Next {
        cx.renew_byte_budget();
        if self.protocol.is_outdated(&cx.release.content) {
            return self.go_away(cx);
        }

        // Without timeouts, only connections that are closing have a deadline.
        let timeouts = cx.policy.timeouts.unwrap_or_default();

        match self.wait {
            Wait::SendRoom => self.check_progress(cx.clock.now, timeouts.send),
            Wait::Rest(Awaits::Head) if !self.protocol.is_h2() => self.refuse_slow_request(timeouts.send, cx),
            Wait::Window => {
                // A client that opens its window in large steps keeps it closed while the data before is on its way. So
                // acknowledged bytes count as well.
                let filled = self.protocol.body_bytes_since_last();
                let Ok(acked) = self.transport.acked_since_last() else { return Next::Close };
                if acked.is_some_and(|acked| filled.max(acked) < bytes_min(timeouts.send)) {
                    return self.end_idle(cx);
                }
                self.deadline = Some(cx.clock.now + timeouts.send);
                Next::Event
            }
            Wait::Handler => {
                self.protocol.give_up_handlers(cx.clock.now, timeouts.handler);
                self.process_again(cx)
            }
            Wait::Request | Wait::Rest(_) | Wait::Body => self.end_idle(cx),
            Wait::Start | Wait::PeerClose => Next::Close,
        }
    }

    /// Responds with 408 to a request head that has taken too long (RFC 9110 §15.5.9).
    fn refuse_slow_request(&mut self, send_timeout: Duration, cx: &mut WorkerContext) -> Next {
        self.refuse(Refusal::Timeout, cx);
        self.has_timed_out = true;
        self.phase = Phase::Draining { is_peer_done: false };
        self.unprocessed = Vec::new();
        let Ok(flow) = self.send_output(cx) else { return Next::Close };
        if !flow.is_blocked() {
            return self.run(ReadUntil::Blocked, cx);
        }
        // The site's own page can be larger than the socket's buffer.
        self.wait = Wait::SendRoom;
        self.deadline = Some(cx.clock.now + send_timeout);
        if cx.budget.bytes == 0 { Next::Iteration } else { Next::Event }
    }

    /// Closes the connection if its peer receives slower than the minimum rate. That counts the bytes that the peer has
    /// acknowledged: on a slow line, a large send buffer has no new room for minutes.
    fn check_progress(&mut self, now: Instant, window: Duration) -> Next {
        let Ok(acked) = self.transport.acked_since_last() else { return Next::Close };
        if acked.is_some_and(|acked| acked < bytes_min(window)) {
            // Without the reset, the kernel would keep the data and go on trying to deliver it.
            self.abandon();
            return Next::Close;
        }
        self.deadline = Some(now + window);
        Next::Event
    }

    /// Gives a peer that owes no data [`DRAIN_GRACE`] at most.
    pub(super) fn shorten_deadline(&mut self, cx: &WorkerContext) {
        let end = cx.clock.now + DRAIN_GRACE;
        self.deadline = Some(self.deadline.map_or(end, |deadline| deadline.min(end)));
    }
}

/// Returns the bytes that a peer must receive at least in this time.
fn bytes_min(window: Duration) -> u64 {
    window.as_secs() * SEND_BYTES_PER_SECOND_MIN
}
