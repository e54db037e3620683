//! Counts and logs the connections and requests of a worker without blocking it.
//!
//! Each worker has its own observer in order not to share any state with other threads on the request path.
//! Without metrics and access logs, a call only costs a comparison.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cannery_site::Method;
use cannery_transport::HandshakeKind;

use super::access_log::LogBuffer;
use super::metrics::{Counters, Http3Metric, MethodKind};
use super::request_log::{LoggedRequest, RefusedRequest};

/// Records the work of a worker in its counters and its log buffer.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    counters: Option<Arc<Counters>>,
    log: Option<LogBuffer>,
    /// When the event loop woke up for this iteration.
    woken_at: Option<Instant>,
    /// Requests that were answered in this iteration. Their responses are sent before it ends.
    answered_in_iteration: u64,
    /// Those of them that waited for a handler before this iteration: their place among the others, and the time.
    waited_in_iteration: Vec<(u64, Duration)>,
}

/// Why a connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// It was closed by the peer, or after the last response.
    InOrder,
    /// It was closed by a timeout.
    TimedOut,
    /// It was closed by an I/O error or a panic.
    Broken,
    /// It was closed because all connections together took too much memory.
    Shed,
}

impl Observer {
    pub(crate) fn new(counters: Option<Arc<Counters>>, log: Option<LogBuffer>) -> Observer {
        Observer { counters, log, ..Observer::default() }
    }

    /// Records an accepted connection.
    #[inline]
    pub(crate) fn connection_accepted(&mut self) {
        if let Some(counters) = &self.counters {
            counters.accepted.add(1);
        }
    }

    /// Returns `true` if the log contains peer addresses.
    pub(crate) fn needs_peer_addresses(&self) -> bool {
        self.log.is_some()
    }

    /// Returns `true` if requests are counted or logged.
    #[inline]
    pub(crate) fn records_requests(&self) -> bool {
        self.counters.is_some() || self.log.is_some()
    }

    /// Records a request. The response has been encoded and will be sent next.
    #[inline]
    pub(crate) fn request_answered(&mut self, logged: &LoggedRequest<'_>) {
        if let Some(counters) = &self.counters {
            self.answered_in_iteration += 1;
            if !logged.handled.waited.is_zero() {
                self.waited_in_iteration.push((self.answered_in_iteration, logged.handled.waited));
            }
            count(counters, logged, self.woken_at);
        }
        if let Some(log) = &mut self.log {
            log.write(logged);
        }
    }

    /// Records bytes that were refused as a request.
    #[inline]
    pub(crate) fn request_refused(&mut self, refused: &RefusedRequest<'_>) {
        if let Some(counters) = &self.counters {
            counters.refusals[refused.refusal as usize].add(1);
            counters.count_status(refused.refusal.status());
        }
        if let Some(log) = &mut self.log {
            log.write_refused(refused);
        }
    }

    /// Records a request that a handler did not respond to in time.
    #[cold]
    pub(crate) fn handler_timed_out(&mut self) {
        if let Some(counters) = &self.counters {
            counters.handlers_timed_out.add(1);
        }
    }

    /// Records a connection that did not start with the required PROXY header.
    #[cold]
    pub(crate) fn bad_proxy_header(&mut self) {
        if let Some(counters) = &self.counters {
            counters.bad_proxy_headers.add(1);
        }
    }

    /// Records a full or resumed TLS handshake.
    #[cold]
    pub(crate) fn handshake_done(&mut self, kind: HandshakeKind) {
        if let Some(counters) = &self.counters {
            let counter = match kind {
                HandshakeKind::Full => &counters.handshakes_full,
                HandshakeKind::Resumed => &counters.handshakes_resumed,
            };
            counter.add(1);
        }
    }

    /// Adds to an HTTP/3 metric.
    pub(crate) fn count_http3(&mut self, metric: Http3Metric, more: u64) {
        if let Some(counters) = &self.counters {
            counters.http3[metric as usize].add(more);
        }
    }

    /// Records a TLS failure, which can be caused by the peer or by a lack of common parameters.
    #[cold]
    pub(crate) fn tls_failed(&mut self) {
        if let Some(counters) = &self.counters {
            counters.tls_failures.add(1);
        }
    }

    /// Excludes the last response from the latency of this iteration because it could not be sent immediately. Returns the time that
    /// its request has waited for a handler.
    pub(crate) fn response_deferred(&mut self) -> Duration {
        let last = self.answered_in_iteration;
        self.answered_in_iteration = last.saturating_sub(1);
        let waited = self.waited_in_iteration.pop_if(|(place, _)| *place == last);
        waited.map_or(Duration::ZERO, |(_, waited)| waited)
    }

    /// Records the latency of a deferred response, from the request until it was sent.
    pub(crate) fn deferred_response_sent(&mut self, took: Duration) {
        if let Some(counters) = &self.counters {
            counters.latency.add(took, 1);
        }
    }

    /// Records the end of a connection.
    #[inline]
    pub(crate) fn connection_closed(&mut self, reason: CloseReason) {
        let Some(counters) = &self.counters else { return };
        counters.closed.add(1);
        match reason {
            CloseReason::InOrder => {}
            CloseReason::TimedOut => counters.timed_out.add(1),
            CloseReason::Broken => counters.broken.add(1),
            CloseReason::Shed => counters.shed.add(1),
        }
    }

    /// Whether a request was answered in this iteration. If so, the duration of the iteration is the
    /// latency.
    #[inline]
    pub(crate) fn needs_iteration_time(&self) -> bool {
        self.answered_in_iteration > 0
    }

    /// Records `took` (the duration of an iteration) as the latency of each response that was sent in the
    /// iteration.
    pub(crate) fn iteration_done(&mut self, took: Duration) {
        let responses = std::mem::take(&mut self.answered_in_iteration);
        if let Some(counters) = &self.counters {
            for (_, waited) in &self.waited_in_iteration {
                counters.latency.add(took + *waited, 1);
            }
            counters.latency.add(took, responses.saturating_sub(self.waited_in_iteration.len() as u64));
        }
        self.waited_in_iteration.clear();
    }

    /// Returns `true` if some log lines need to be written at the next tick.
    #[inline]
    pub(crate) fn has_log_lines(&self) -> bool {
        self.log.as_ref().is_some_and(LogBuffer::has_lines)
    }

    /// Flushes the log lines. Must be called once a second.
    pub(crate) fn tick(&mut self) {
        if let Some(log) = &mut self.log {
            let dropped = log.flush();
            if let Some(counters) = &self.counters {
                counters.log_lines_dropped.add(dropped);
            }
        }
    }

    /// Records when the event loop woke up.
    #[inline]
    pub(crate) fn begin_iteration(&mut self, now: Instant) {
        self.woken_at = Some(now);
        if let Some(log) = &mut self.log {
            log.begin_iteration(now);
        }
    }

    /// Stores the ID of the worker's thread.
    pub(crate) fn set_thread(&self, thread: u32) {
        if let Some(counters) = &self.counters {
            counters.thread.store(thread, Ordering::Relaxed);
        }
    }

    /// Updates the time for log lines (Unix time in seconds).
    #[inline]
    pub(crate) fn set_time(&mut self, seconds: u64) {
        if let Some(log) = &mut self.log {
            log.set_time(seconds);
        }
    }

    /// Flushes the last log lines, before the worker exits.
    pub(crate) fn finish(&mut self) {
        if let Some(log) = &mut self.log {
            let dropped = log.finish();
            if let Some(counters) = &self.counters {
                counters.log_lines_dropped.add(dropped);
            }
        }
    }
}

fn count(counters: &Counters, logged: &LoggedRequest<'_>, woken_at: Option<Instant>) {
    let status = logged.response.status();
    counters.count_status(status);
    counters.bytes.add(logged.bytes);
    let method = match logged.head.request.method {
        Method::Get => MethodKind::Get,
        Method::Head => MethodKind::Head,
        Method::Options => MethodKind::Options,
        Method::Other | Method::Unknown => MethodKind::Other,
    };
    counters.methods[method as usize].add(1);
    if let Some((route, _)) = logged.handled.route {
        // The iteration may go on with the handlers of other routes.
        let took = logged.handled.waited + woken_at.map_or(Duration::ZERO, |at| at.elapsed());
        counters.count_route(route, status, took);
    }
    if status == 404 {
        counters.count_missing(logged.head.request.target);
    }
}
