//! What a worker tells of its work: called where something happens, and never in the way of it.
//!
//! One for each worker, so that nothing is shared on the request path. Where nobody counts or logs, a call costs
//! a comparison.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cannery_site::Method;

use super::access_log::LogBuffer;
use super::metrics::{Counters, MethodKind};
use super::request_log::{LoggedRequest, RefusedRequest};

/// Watches one worker.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    counters: Option<Arc<Counters>>,
    log: Option<LogBuffer>,
    /// Requests answered in this turn of the loop, which are sent at its end at the latest.
    answered_in_turn: u64,
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The peer ended it, or its last answer was sent.
    InOrder,
    /// The peer was waited for too long.
    TimedOut,
    /// It broke.
    Broken,
    /// All connections together kept too much memory.
    Shed,
}

impl Observer {
    pub(crate) fn new(counters: Option<Arc<Counters>>, log: Option<LogBuffer>) -> Observer {
        Observer { counters, log, answered_in_turn: 0 }
    }

    /// A connection was accepted.
    #[inline]
    pub(crate) fn accepted(&mut self) {
        if let Some(counters) = &self.counters {
            counters.accepted.add(1);
        }
    }

    /// Whether anybody is told who asks.
    pub(crate) fn names_peers(&self) -> bool {
        self.log.is_some()
    }

    /// Whether anybody is told of requests.
    #[inline]
    pub(crate) fn watches(&self) -> bool {
        self.counters.is_some() || self.log.is_some()
    }

    /// A request was answered: the answer is spelled, and sent next.
    #[inline]
    pub(crate) fn answered(&mut self, answered: &LoggedRequest<'_>) {
        if let Some(counters) = &self.counters {
            self.answered_in_turn += 1;
            count(counters, answered);
        }
        if let Some(log) = &mut self.log {
            log.write(answered);
        }
    }

    /// What a peer sent was no request.
    #[inline]
    pub(crate) fn refused(&mut self, refused: &RefusedRequest<'_>) {
        if let Some(counters) = &self.counters {
            counters.refusals[refused.refusal as usize].add(1);
            counters.count_status(refused.refusal.status());
        }
        if let Some(log) = &mut self.log {
            log.write_refused(refused);
        }
    }

    /// What a peer sent is no PROXY header, and had to begin with one.
    #[cold]
    pub(crate) fn bad_proxy_header(&mut self) {
        if let Some(counters) = &self.counters {
            counters.unnamed.add(1);
        }
    }

    /// A handshake of TLS is done; whether it went on from an earlier session.
    #[cold]
    pub(crate) fn handshake_done(&mut self, is_resumed: bool) {
        if let Some(counters) = &self.counters {
            let counter = if is_resumed { &counters.handshakes_resumed } else { &counters.handshakes_full };
            counter.add(1);
        }
    }

    /// TLS has failed, by the peer's fault or for lack of anything in common.
    #[cold]
    pub(crate) fn tls_failed(&mut self) {
        if let Some(counters) = &self.counters {
            counters.tls_failures.add(1);
        }
    }

    /// The last answer could not be sent at once.
    pub(crate) fn response_deferred(&mut self) {
        self.answered_in_turn = self.answered_in_turn.saturating_sub(1);
    }

    /// An answer that could not be sent at once is sent, so long after its request.
    pub(crate) fn sent(&mut self, took: Duration) {
        if let Some(counters) = &self.counters {
            counters.latency.add(took, 1);
        }
    }

    /// A connection ended.
    #[inline]
    pub(crate) fn closed(&mut self, closed: Closed) {
        let Some(counters) = &self.counters else { return };
        counters.closed.add(1);
        match closed {
            Closed::InOrder => {}
            Closed::TimedOut => counters.timed_out.add(1),
            Closed::Broken => counters.broken.add(1),
            Closed::Shed => counters.shed.add(1),
        }
    }

    /// Whether it wants to know how long a turn took: only where something was answered in it.
    #[inline]
    pub(crate) fn asks_for_time(&self) -> bool {
        self.answered_in_turn > 0
    }

    /// All that was answered in a turn is sent; the turn took so long.
    pub(crate) fn iteration_done(&mut self, took: Duration) {
        let answered = std::mem::take(&mut self.answered_in_turn);
        if let Some(counters) = &self.counters {
            counters.latency.add(took, answered);
        }
    }

    /// Whether something waits for the next tick.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        self.log.as_ref().is_some_and(LogBuffer::has_lines)
    }

    /// A second has passed.
    pub(crate) fn tick(&mut self) {
        if let Some(log) = &mut self.log {
            let dropped = log.hand_over();
            if let Some(counters) = &self.counters {
                counters.log_lines_dropped.add(dropped);
            }
        }
    }

    /// The loop has woken up.
    #[inline]
    pub(crate) fn begin_turn(&mut self, now: Instant) {
        if let Some(log) = &mut self.log {
            log.begin_turn(now);
        }
    }

    /// The worker's thread has this number.
    pub(crate) fn set_thread(&self, thread: u32) {
        if let Some(counters) = &self.counters {
            counters.thread.store(thread, Ordering::Relaxed);
        }
    }

    /// The time has changed, in seconds since 1970.
    #[inline]
    pub(crate) fn set_time(&mut self, seconds: u64) {
        if let Some(log) = &mut self.log {
            log.set_time(seconds);
        }
    }

    /// The worker ends.
    pub(crate) fn finish(&mut self) {
        if let Some(log) = &mut self.log {
            let dropped = log.finish();
            if let Some(counters) = &self.counters {
                counters.log_lines_dropped.add(dropped);
            }
        }
    }
}

fn count(counters: &Counters, answered: &LoggedRequest<'_>) {
    let status = answered.response.status();
    counters.count_status(status);
    counters.bytes.add(answered.bytes);
    let method = match answered.head.request.method {
        Method::Get => MethodKind::Get,
        Method::Head => MethodKind::Head,
        Method::Options => MethodKind::Options,
        Method::Other | Method::Unknown => MethodKind::Other,
    };
    counters.methods[method as usize].add(1);
    if status == 404 {
        counters.count_missing(answered.head.request.target);
    }
}
