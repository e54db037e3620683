//! Deadlines of HTTP/3 connections.
//!
//! While QUIC has its own timers for packets, these deadlines are for clients that have vanished or are too
//! slow with requests and responses.

use super::super::limits::HANDSHAKE_SILENCE_MAX;
use super::super::liveness::{self, Presence};
use super::{Connection, Phase, Response};
use crate::config::Timeouts;
use crate::context::WorkerContext;
use crate::deadlines::{self, Pace, Progress, Wait};

/// Tells if a connection is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http3) enum Late {
    No,
    /// There has not been a request for a long time.
    Idle,
    /// A handler has not responded in time. The client will get an error response.
    Handler,
    /// The client is too slow with the handshake, a request or a response, or it has vanished while the
    /// server is draining.
    Slow,
}

/// Clients acknowledge whole packets, so they may be behind by this much.
const PACKET_BYTES: u64 = cannery_transport::limits::QUIC_DATAGRAM_BYTES_MAX as u64;

impl Connection {
    /// Sets the reason to wait, and the deadline.
    ///
    /// Note that whatever the connection is waiting for, we check every second that the client receives its
    /// responses.
    pub(super) fn set_deadline(&mut self, cx: &WorkerContext) {
        let Some(timeouts) = &cx.policy.timeouts else { return };
        match &self.phase {
            // Clients cannot get more time for the handshake by sending early data.
            Phase::Handshake => return,
            Phase::Open(_) if self.quic.is_handshaking() => return,
            Phase::Open(_) => {}
            Phase::Closed => {
                self.deadline = None;
                return;
            }
        }

        let is_active = std::mem::take(&mut self.is_active);
        let request = self.http.incomplete_since().map(|since| since + timeouts.head);
        let handler = self.handled.next_deadline(timeouts.handler);
        let earliest = deadlines::earliest([(Wait::OldestRequest, request), (Wait::Handler, handler)]);
        if let Some((wait, deadline)) = earliest {
            self.wait = wait;
            self.deadline = Some(deadline);
        } else if self.handled.is_used() {
            // A handler can take as long as it likes for a body.
            self.wait = Wait::Body;
            self.deadline = None;
        } else if !self.responses.is_empty() {
            self.wait = Wait::Window;
            self.deadline = None;
        } else if self.wait != Wait::Request || is_active {
            // Only requests extend the idle time. For example, PING does not.
            self.wait = Wait::Request;
            self.deadline = cx.clock.idle_until;
        }
    }

    /// Continues a graceful shutdown and checks whether the connection is late.
    ///
    /// If the worker `is_crowded`, idle connections are closed earlier.
    pub(in crate::http3) fn tick(&mut self, is_crowded: bool, cx: &WorkerContext) -> Late {
        self.retire(cx);
        self.continue_drain(cx);
        if cx.is_draining() {
            let stats = self.quic.stats();
            let limit =
                if self.quic.is_handshaking() { HANDSHAKE_SILENCE_MAX } else { liveness::limit(&stats) };
            if self.liveness.observe(&stats, limit, cx.clock.now) == Presence::Lost {
                return Late::Slow;
            }
            self.quic.ping();
        }

        if matches!(self.wait, Wait::Body | Wait::Handler) {
            // If we did not do this, QUIC would close the connection for being idle.
            self.quic.ping();
        }

        if let Some(timeouts) = &cx.policy.timeouts
            && !self.is_closed()
            && self.check_progress(timeouts, cx) == Pace::TooSlow
        {
            return Late::Slow;
        }

        if self.retiring_since.is_some() && self.wait == Wait::Request && self.progress.is_none() {
            // Everything we owed to the client has been delivered.
            return Late::Idle;
        }

        let now = cx.clock.now + self.wait.shortening(is_crowded, cx.policy.timeouts.as_ref());
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Late::No;
        }

        match self.wait {
            // The client has to acknowledge all of its responses first, and `check_progress` makes sure that it
            // does.
            Wait::Request if self.progress.is_some() => Late::No,
            Wait::Request => Late::Idle,
            Wait::Handler => {
                let timeouts = cx.policy.timeouts.unwrap_or_default();
                self.handled.give_up(cx.clock.now, timeouts.handler);
                Late::Handler
            }
            Wait::Body => Late::No,
            _ => Late::Slow,
        }
    }

    /// Checks if the client receives responses fast enough, judging by the stream data that it
    /// acknowledges. Neither its windows nor other packets in any direction matter here.
    fn check_progress(&mut self, timeouts: &Timeouts, cx: &WorkerContext) -> Pace {
        if !self.has_undelivered() {
            self.progress = None;
            return Pace::Sufficient;
        }

        let delivery = self.quic.delivery();
        let waiting: usize = self.responses.iter().map(Response::length).sum();
        let outstanding = delivery.unacknowledged_bytes + waiting as u64;
        let acknowledged = delivery.acknowledged_bytes;
        let (now, window) = (cx.clock.now, timeouts.send);
        match &mut self.progress {
            Some(progress) => progress.check(now, window, acknowledged, outstanding, PACKET_BYTES),
            None => {
                let progress = Progress::begin(now, window, acknowledged, outstanding);
                self.progress = Some(Box::new(progress));
                Pace::Sufficient
            }
        }
    }

    /// Returns `true` if the client has not acknowledged all responses.
    fn has_undelivered(&mut self) -> bool {
        if !self.responses.is_empty() {
            return true;
        }
        let streams = self.quic.unacknowledged_streams();
        let own = if let Phase::Open(own) = &self.phase { own.count() } else { 0 };
        if streams <= own {
            return false;
        }
        // These streams are open in our direction, even if nothing has been written to them.
        let has_open_streams = matches!(self.wait, Wait::OldestRequest | Wait::Handler | Wait::Body);
        !has_open_streams || self.quic.delivery().unacknowledged_bytes > 0
    }
}
