//! Sets a connection's deadlines, and acts when one has passed.

use std::time::{Duration, Instant};

use cannery_eventloop::Socket;
use cannery_wire::Refusal;

use super::protocol::{Awaits, StreamBytes};
use super::{Connection, Next, Phase, ReadUntil};
use crate::config::Timeouts;
use crate::context::{DRAIN_GRACE, WorkerContext};
use crate::deadlines::{OLD_RELEASE_TIMEOUT, Wait, bytes_min};

/// Content of the data that was processed since the deadline was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Processed {
    /// No complete requests.
    Part,
    /// Requests that have been answered.
    Requests,
}

impl<S: Socket> Connection<S> {
    /// Sets the reason to wait, and the deadline. Must be called after data was `processed`.
    pub(super) fn set_deadline(&mut self, processed: Processed, cx: &mut WorkerContext) {
        let awaits = self.protocol.awaits();
        if awaits == Awaits::Request && !self.is_sending() {
            self.wait = Wait::Request;
            self.deadline = self.protocol.idle_until(cx.clock.idle_until);
            self.count_idle_memory(cx);
            return;
        }
        self.count_memory(cx);
        if self.is_sending() {
            self.protocol.pause(cx.clock.now);
        }

        if matches!(awaits, Awaits::Handler | Awaits::Body) && !self.is_sending() {
            return self.await_handler(awaits, cx);
        }

        let Some(timeouts) = cx.policy.timeouts else {
            self.deadline = None;
            return;
        };
        let wait = match awaits {
            _ if self.is_sending() => Wait::SendRoom,
            Awaits::Streams => return self.await_streams(&timeouts, cx),
            Awaits::Head => Wait::Head,
            Awaits::Content { blocks } => Wait::Content { blocks },
            Awaits::Request | Awaits::Handler | Awaits::Body => Wait::Request,
        };

        // The timeout starts at the first byte of the request. Further bytes must not extend it because
        // otherwise a client could send one every now and then.
        let is_rest = matches!(wait, Wait::Head | Wait::Content { .. });
        if wait == self.wait && is_rest && processed == Processed::Part {
            return;
        }
        self.wait = wait;
        self.deadline = wait.timeout(&timeouts).map(|timeout| cx.clock.now + timeout);
    }

    /// Waits for the HTTP/2 stream with the earliest deadline.
    fn await_streams(&mut self, timeouts: &Timeouts, cx: &WorkerContext) {
        let next = self.protocol.next_deadline(cx.clock.now, timeouts);
        // Without a deadline, it must be a handler that is going to write more of a body.
        self.wait = next.map_or(Wait::Body, |(wait, _)| wait);
        self.deadline = next.map(|(_, deadline)| deadline);
    }

    /// Waits for a handler. If it is the response, then the deadline is that of the longest-running handler.
    /// If it is the next part of a body, then the handler may take as long as it likes.
    #[cold]
    fn await_handler(&mut self, awaits: Awaits, cx: &WorkerContext) {
        self.wait = if awaits == Awaits::Body { Wait::Body } else { Wait::Handler };
        let timeouts = cx.policy.timeouts;
        self.deadline = timeouts.and_then(|timeouts| self.protocol.handler_deadline(timeouts.handler));
    }

    /// Whether the deadline has passed. While the worker `is_crowded`, other clients are waiting to be
    /// accepted, so idle connections have an earlier deadline.
    pub(crate) fn is_late(&self, is_crowded: bool, cx: &WorkerContext) -> bool {
        let now = cx.clock.now;
        if now >= cx.release.since + OLD_RELEASE_TIMEOUT && self.protocol.is_outdated(&cx.release.content) {
            return true;
        }
        let Some(deadline) = self.deadline else { return false };
        now + self.wait.shortening(is_crowded, cx.policy.timeouts.as_ref()) >= deadline
    }

    /// Closes a connection once its deadline has passed, unless the peer is still receiving a response
    /// at a sufficient rate.
    pub(crate) fn on_deadline(&mut self, cx: &mut WorkerContext) -> Next {
        cx.renew_byte_budget();
        if self.protocol.is_outdated(&cx.release.content) {
            return self.go_away(cx);
        }

        // Without timeouts, only closing connections have a deadline.
        let timeouts = cx.policy.timeouts.unwrap_or_default();

        match self.wait {
            Wait::SendRoom => self.check_progress(cx.clock.now, timeouts.send),
            Wait::Head => self.refuse_slow_request(timeouts.send, cx),
            Wait::Window => {
                // If a client opens its window in large steps, the window stays closed while earlier data is
                // in flight, so acknowledged bytes need to be considered as well. Other frames must not
                // count, however, since the client can request as many of these as it likes (e.g. with PING).
                let StreamBytes { body, other } = self.protocol.bytes_since_last();
                let Ok(acked) = self.transport.acked_since_last() else { return Next::Close };
                if acked.is_some_and(|acked| body.max(acked.saturating_sub(other)) < bytes_min(timeouts.send))
                {
                    return self.end_idle(cx);
                }
                self.protocol.renew_window_deadline(cx.clock.now + timeouts.send);
                self.await_streams(&timeouts, cx);
                Next::Event
            }
            Wait::Handler => {
                self.protocol.give_up_handlers(cx.clock.now, timeouts.handler);
                self.process_again(cx)
            }
            Wait::Request | Wait::Content { .. } | Wait::OldestRequest | Wait::Body => self.end_idle(cx),
            Wait::Start | Wait::PeerClose => Next::Close,
        }
    }

    /// Responds with 408 because the request head has taken too long (RFC 9110 §15.5.9).
    fn refuse_slow_request(&mut self, send_timeout: Duration, cx: &mut WorkerContext) -> Next {
        self.refuse(Refusal::Timeout, cx);
        self.has_timed_out = true;
        self.phase = Phase::Draining { is_peer_done: false };
        self.unprocessed = Vec::new();
        let Ok(flow) = self.send_output(cx) else { return Next::Close };
        if !flow.is_blocked() {
            return self.run(ReadUntil::Blocked, cx);
        }
        // The page might be custom and might not fit into the socket buffer.
        self.wait = Wait::SendRoom;
        self.deadline = Some(cx.clock.now + send_timeout);
        if cx.budget.bytes == 0 { Next::Iteration } else { Next::Event }
    }

    /// Closes the connection if the peer receives too slowly.
    ///
    /// We count acknowledged bytes rather than the room in the socket: with a large send buffer and a slow
    /// line, there might be no new room for minutes.
    fn check_progress(&mut self, now: Instant, window: Duration) -> Next {
        let Ok(acked) = self.transport.acked_since_last() else { return Next::Close };
        if acked.is_some_and(|acked| acked < bytes_min(window)) {
            // Without a reset, the kernel would keep the data and continue trying to deliver it.
            self.abandon();
            return Next::Close;
        }
        // From now on, acknowledged bytes count for both deadlines.
        self.protocol.renew_window_deadline(now + window);
        self.deadline = Some(now + window);
        Next::Event
    }

    /// Gives the peer [`DRAIN_GRACE`] at most because it does not owe us anything.
    pub(super) fn shorten_deadline(&mut self, cx: &WorkerContext) {
        let end = cx.clock.now + DRAIN_GRACE;
        self.deadline = Some(self.deadline.map_or(end, |deadline| deadline.min(end)));
    }
}
