//! Deadlines of an HTTP/3 connection: its reasons to wait, and how long each may take.
//!
//! QUIC has timers of its own, for packets. These deadlines are for clients that are slow with requests and responses, or that
//! have vanished.

use cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN;

use super::super::limits::HANDSHAKE_SILENCE_MAX;
use super::super::silence::{self, Presence};
use super::{Connection, Phase};
use crate::connection::WorkerContext;

/// The reason why a connection waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The rest of the handshake.
    Handshake,
    /// The next request, if the client has one.
    Request,
    /// The rest of a request: this many blocks of its content, of [`CONTENT_BLOCK_BYTES`] each, were received for a handler.
    Rest { blocks: usize },
    /// The response of a handler.
    Handler,
    /// The next bytes of a body that a handler makes.
    Body,
    /// Room in the client's windows, or acknowledgments.
    Window,
}

/// A client that sends this many bytes of content gets more time for the rest.
const CONTENT_BLOCK_BYTES: usize = 16 * 1024;

/// Whether a connection is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http3) enum Late {
    No,
    /// It has had no request for long.
    Idle,
    /// A handler has no response yet, and another response is made.
    Handler,
    /// Its client is too slow with the handshake, a request, or a response, or has vanished while the server drains.
    Slow,
}

/// The number of our unidirectional streams.
const OWN_STREAMS: usize = 3;

impl Connection {
    /// Sets the reason to wait, and its deadline.
    pub(super) fn set_deadline(&mut self, cx: &WorkerContext) {
        let Some(timeouts) = cx.policy.timeouts else { return };

        let (wait, timeout) = match &self.phase {
            Phase::Handshake => return,
            Phase::Closed => {
                self.deadline = None;
                return;
            }
            // Early data does not extend the time for the handshake.
            Phase::Open(_) if self.quic.is_handshaking() => return,
            Phase::Open(_) if !self.responses.is_empty() => (Wait::Window, timeouts.send),
            Phase::Open(_) if self.http.has_incomplete_requests() => {
                (Wait::Rest { blocks: self.http.received_bytes() / CONTENT_BLOCK_BYTES }, timeouts.head)
            }
            Phase::Open(_) if self.http.has_postponed_requests() => {
                let since = self.handled.oldest();
                self.wait = Wait::Handler;
                self.deadline = since.map(|since| since + timeouts.handler);
                return;
            }
            Phase::Open(_) if self.handled.is_used() => {
                // The handler decides how long a body takes.
                self.wait = Wait::Body;
                self.deadline = None;
                return;
            }
            Phase::Open(_) => (Wait::Request, timeouts.idle),
        };

        // A byte from time to time does not extend the deadline of a request or of a response, and a PING not the idle time.
        let is_active = std::mem::take(&mut self.is_active);
        if wait == self.wait && !(wait == Wait::Request && is_active) {
            return;
        }

        self.wait = wait;
        self.sent_bytes_before = self.quic.stats().sent_bytes;
        self.deadline = match wait {
            Wait::Request => cx.clock.idle_until,
            _ => Some(cx.clock.now + timeout),
        };
    }

    /// Continues a graceful shutdown, and returns whether the connection is late.
    pub(in crate::http3) fn tick(&mut self, cx: &WorkerContext) -> Late {
        self.continue_drain(cx);
        if cx.is_draining() {
            let stats = self.quic.stats();
            let limit =
                if self.quic.is_handshaking() { HANDSHAKE_SILENCE_MAX } else { silence::limit(&stats) };
            if self.silence.observe(&stats, limit, cx.clock.now) == Presence::Vanished {
                return Late::Slow;
            }
            self.quic.ping();
        }

        if self.wait == Wait::Body {
            // Otherwise the connection would end as an idle one.
            self.quic.ping();
        }

        if self.deadline.is_none_or(|deadline| cx.clock.now < deadline) {
            return Late::No;
        }

        match self.wait {
            // The client has not acknowledged all of a response.
            Wait::Request if self.quic.unacknowledged_streams() > OWN_STREAMS => Late::No,
            Wait::Request => Late::Idle,
            Wait::Handler => {
                let timeouts = cx.policy.timeouts.unwrap_or_default();
                self.handled.give_up(cx.clock.now, timeouts.handler);
                Late::Handler
            }
            Wait::Handshake | Wait::Rest { .. } => Late::Slow,
            Wait::Body => Late::No,
            Wait::Window => self.check_progress(cx),
        }
    }

    /// Returns whether the client has received too little of a response since the wait began, and begins another wait.
    fn check_progress(&mut self, cx: &WorkerContext) -> Late {
        let Some(timeouts) = cx.policy.timeouts else { return Late::No };
        let sent_bytes = self.quic.stats().sent_bytes;
        let received_bytes = sent_bytes - self.sent_bytes_before;
        self.sent_bytes_before = sent_bytes;
        self.deadline = Some(cx.clock.now + timeouts.send);
        let bytes_min = SEND_BYTES_PER_SECOND_MIN * timeouts.send.as_secs().max(1);
        if received_bytes < bytes_min { Late::Slow } else { Late::No }
    }
}
