//! An HTTP/2 connection. Requests for the site are answered immediately, while requests for handlers
//! have to wait until the response is available.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cannery_routes::BodyProgress;
use cannery_wire::{Multiplexed, Output, RequestHead, h2};

use super::{Progress, StreamBytes};
use crate::config::Timeouts;
use crate::content::{Content, IncomingRequest, OnStream};
use crate::context::{Client, RequestContext, ResponseContext, WorkerContext};
use crate::deadlines::{self, Wait};
use crate::routes::limits::HANDLER_BODY_PENDING_BYTES;
use crate::routes::{ConnectionAddress, DeliveryContent, StreamOutcome, StreamRoutes};

/// An HTTP/2 connection.
#[derive(Debug)]
pub(in crate::connection) struct Http2 {
    pub(super) http: h2::Connection,
    /// Release that pending bodies (if any) come from.
    pub(super) content: Option<Arc<Content>>,
    /// Whether our SETTINGS have been written.
    has_begun: bool,
    /// Whether we need to send GOAWAY.
    pub(super) is_going_away: bool,
    /// Bytes written since the last call of [`Protocol::bytes_since_last`](super::Protocol::bytes_since_last).
    pub(super) bytes: StreamBytes,
    /// Whether there has been a request since the connection was last idle.
    is_active: bool,
    /// Time at which we will close the connection if the client does not send another request.
    idle_until: Option<Instant>,
    /// When the client must have opened its windows further. `None` if nothing is waiting for that.
    window_deadline: Option<Instant>,
    /// When we stopped receiving because the socket is full.
    paused_since: Option<Instant>,
    /// Total duration of earlier pauses of this kind.
    paused: Duration,
    /// Requests for handlers.
    handled: StreamRoutes<h2::StreamId>,
}

impl Http2 {
    pub(super) fn new() -> Http2 {
        Http2 {
            http: h2::Connection::new(),
            content: None,
            has_begun: false,
            is_going_away: false,
            bytes: StreamBytes::default(),
            is_active: true,
            idle_until: None,
            window_deadline: None,
            paused_since: None,
            paused: Duration::ZERO,
            handled: StreamRoutes::default(),
        }
    }

    pub(super) fn begin(&mut self, output: &mut Output) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.http.begin(output);
        }
    }

    // Not inlined because the caller would then save registers for HTTP/1 that are only needed here.
    #[inline(never)]
    pub(super) fn respond(
        &mut self,
        rest: &mut &[u8],
        client: Client<'_>,
        cx: &mut WorkerContext,
    ) -> Progress {
        let https_port = if client.has_tls { None } else { cx.policy.https_port };
        let connection = cx.current.map(ConnectionAddress::Tcp);
        let RequestContext { heads, scratch, mut response } = cx.request(client.has_tls);
        let ResponseContext { content: current, now, .. } = response;

        self.resume(now);
        // The time during which we did not receive does not count as the client's.
        let time = now.checked_sub(self.paused).unwrap_or(now);
        heads.set_time(time);
        self.begin(response.output);

        if self.is_going_away {
            self.http.go_away(response.output);
        }

        // First, write the responses that handlers have finished. These might be older than the requests we
        // are about to read.
        if self.handled.is_used()
            && let Some(mut dispatch) = response.dispatch(connection, client, current)
        {
            self.http.set_time(time);
            while let Some(stream) = self.handled.write_next(&mut self.http, &mut dispatch) {
                self.http.settle(stream, dispatch.output);
            }
        }

        // All pending bodies of a connection must come from the same release.
        let pinned = self.content.take();
        let content = pinned.as_ref().unwrap_or(current);
        let last = loop {
            let before = response.output.length();
            let (used, step) = self.http.next_request(rest, heads, response.output);
            self.bytes.other += response.output.length() - before;
            *rest = &rest[used..];
            self.is_active |=
                matches!(step, h2::Step::Request(_) | h2::Step::Refused(..) | h2::Step::Received(..));
            let (stream, refusal) = match step {
                h2::Step::Request(stream) => (stream, None),
                h2::Step::Refused(stream, refusal) => (stream, Some(refusal)),
                h2::Step::Received(stream, received) => {
                    if let Some(mut dispatch) = response.dispatch(connection, client, content) {
                        let is_whole = received == h2::ReceivedContent::Whole;
                        self.handled.receive(&mut self.http, stream, is_whole, &mut dispatch);
                    }
                    continue;
                }
                step => break step,
            };

            // Requests that we redirect to `https` must not reach a handler.
            let mut head = RequestHead::EMPTY;
            heads.put_head(&mut head);
            if https_port.is_none()
                && refusal.is_none()
                && let Some(mut dispatch) = response.dispatch(connection, client, content)
            {
                let outcome = self.handled.begin(&mut self.http, stream, &head, &mut dispatch);
                if outcome != StreamOutcome::Site {
                    continue;
                }
            }

            let incoming = IncomingRequest {
                exchange: OnStream { http: &mut self.http, stream, head: &head },
                peer: client.address,
                tls: client.tls_version,
                https_port,
                fields: response.fields,
            };
            match refusal {
                None => content.answer(incoming, scratch, response.output, response.observer),
                Some(refusal) => content.refuse(refusal, incoming, response.output, response.observer),
            }
        };

        let has_handled = self.handled.is_used();
        if has_handled {
            self.handled.forget_cancelled(&mut self.http);
            self.pass_content(time, response.output);
            self.take_body_bytes(response.output);
        }
        let has_bodies = self.http.has_bodies();
        // This may also be the rest of a body whose handler has finished.
        let has_pending_bytes = self.http.has_pending_bytes();
        if has_pending_bytes {
            let before = response.output.length();
            self.http.fill(response.output);
            self.bytes.body += response.output.length() - before;
        }

        if self.window_deadline.is_some() && !self.http.has_pending_bytes() {
            self.window_deadline = None;
        }
        if has_bodies {
            // Even if everything fits into the output, the output might still refer to the release.
            self.content = pinned.or_else(|| Some(Arc::clone(current)));
        }

        let may_have_more = has_pending_bytes || has_handled;
        if self.http.has_ended() {
            self.handled = StreamRoutes::default();
            Progress::Closing
        } else if last == h2::Step::Full || may_have_more && !response.output.is_empty() {
            Progress::OutputFull
        } else {
            Progress::Complete
        }
    }

    /// Passes on content to handlers that read it while it arrives.
    #[cold]
    fn pass_content(&mut self, now: Instant, output: &mut Output) {
        let before = output.length();
        let passed = self.handled.pass_content(&mut self.http, now, output);
        for stream in passed.asked {
            self.http.put_continue(stream, output);
        }
        // If the response is complete, the stream is reset once the client has used up its window.
        for stream in passed.unwanted {
            self.http.settle(stream, output);
        }
        self.bytes.other += output.length() - before;
    }

    /// Takes more body bytes from handlers, unless the stream still has enough.
    #[cold]
    fn take_body_bytes(&mut self, output: &mut Output) {
        let http = &mut self.http;
        self.handled.bodies.retain(|(stream, body)| {
            match http.pending_body_bytes(*stream) {
                Some(pending) if pending > HANDLER_BODY_PENDING_BYTES => return true,
                Some(_) => {}
                None => return false,
            }
            let mut bytes = Vec::new();
            let progress = body.take(&mut bytes);
            if progress == BodyProgress::Broken {
                http.abort_response(*stream, output);
                return false;
            }
            http.append_body(*stream, &bytes, progress == BodyProgress::Complete);
            progress == BodyProgress::Open
        });
    }

    /// Closes the connection at once. Handlers learn that their clients are gone.
    pub(super) fn end(&mut self, output: &mut Output) {
        self.http.end(output);
        self.handled = StreamRoutes::default();
    }

    /// Returns the memory that pending requests and responses take, in bytes, except for [`kept_bytes`](Self::kept_bytes).
    pub(super) fn memory(&self) -> usize {
        self.http.memory() + self.handled.memory()
    }

    /// Returns the response bytes that handlers have written and that were not taken yet.
    pub(super) fn kept_bytes(&self) -> usize {
        self.handled.kept_bytes()
    }

    pub(super) fn give_up_handlers(&mut self, now: Instant, timeout: Duration) {
        self.handled.give_up(now, timeout);
    }

    /// Finds the earliest deadline of the oldest incomplete request, the longest-running handler, or a
    /// client that does not open its windows.
    pub(super) fn next_deadline(&mut self, now: Instant, timeouts: &Timeouts) -> Option<(Wait, Instant)> {
        // At the start of a frame, it could still turn out to be a PING, so its first bytes do not
        // count.
        self.is_active |= self.http.awaits() != h2::Awaits::Head;
        self.window_deadline = match self.window_deadline {
            _ if !self.http.has_pending_bytes() => None,
            // Small window updates should not extend it; the bytes are compared at the end of the whole
            // period instead.
            deadline => deadline.or(Some(now + timeouts.send)),
        };

        let request = self.http.incomplete_since().map(|since| since + self.paused + timeouts.head);
        let handler = self.handled.next_deadline(timeouts.handler);
        deadlines::earliest([
            (Wait::Window, self.window_deadline),
            (Wait::OldestRequest, request),
            (Wait::Handler, handler),
        ])
    }

    pub(super) fn renew_window_deadline(&mut self, deadline: Instant) {
        self.window_deadline = Some(deadline);
    }

    /// The time at which an idle connection should be closed. It is only extended (to `renewed`) by
    /// requests, not by other frames such as PING.
    pub(super) fn idle_until(&mut self, renewed: Option<Instant>) -> Option<Instant> {
        if std::mem::take(&mut self.is_active) {
            self.idle_until = renewed;
        }
        // The time gets shorter while the server drains.
        self.idle_until.min(renewed)
    }

    pub(super) fn pause(&mut self, now: Instant) {
        self.paused_since.get_or_insert(now);
    }

    fn resume(&mut self, now: Instant) {
        if let Some(since) = self.paused_since.take() {
            self.paused += now.saturating_duration_since(since);
        }
    }

    /// Returns when we will give up on the next handler. `timeout` is for handlers without a limit of their own.
    pub(super) fn handler_deadline(&self, timeout: Duration) -> Option<Instant> {
        self.handled.next_deadline(timeout)
    }

    /// Takes output from a handler.
    pub(super) fn deliver(&mut self, delivered: DeliveryContent) {
        self.handled.deliver(delivered);
    }
}
