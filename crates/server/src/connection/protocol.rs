//! Speaks HTTP/1 or HTTP/2: takes received bytes and writes responses to the worker's output.
//!
//! Note that it knows nothing about sockets.

mod handled_h1;
mod http2;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cannery_wire::{Output, Refusal, RequestLine, Response, h1, h2};

use self::handled_h1::{HandledH1, Routed};
use self::http2::Http2;
use crate::config::{ListenerKind, Timeouts};
use crate::content::{Content, IncomingRequest, OnH1};
use crate::context::{Client, Policy, RequestContext, WorkerContext};
use crate::deadlines::Wait;
use crate::observe::RefusedRequest;
use crate::routes::DeliveryContent;

/// A connection's protocol, and the state of it.
#[derive(Debug)]
pub(super) enum Protocol {
    H1(h1::Connection),
    /// HTTP/1 while a handler is working on a response.
    HandledH1(Box<HandledH1>),
    H2(Box<Http2>),
}

/// Data that a connection is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    /// The next request, if there will be one.
    Request,
    /// The rest of a request head.
    Head,
    /// The rest of a request's content. `blocks` is the number of blocks of [`CONTENT_BLOCK_BYTES`] received
    /// for a handler so far.
    Content { blocks: usize },
    /// Various things, on HTTP/2 streams. See [`Protocol::next_deadline`].
    Streams,
    /// Nothing because a handler is working on the response.
    Handler,
    /// Nothing because a handler will write more of the body.
    Body,
}

/// Bytes written to an HTTP/2 connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StreamBytes {
    /// Body bytes. The client's windows had room for them.
    pub(super) body: u64,
    /// Bytes of frames that do not belong to any response.
    pub(super) other: u64,
}

/// Progress in responding to requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// All complete requests have been answered.
    Complete,
    /// The output must be sent before we can write more.
    OutputFull,
    /// We have written the connection's last response.
    Closing,
}

impl Protocol {
    /// Returns the protocol for a new connection.
    pub(super) fn new(kind: ListenerKind, policy: &Policy, has_routes: bool) -> Protocol {
        if !policy.has_http1 {
            return Protocol::h2();
        }
        let is_secured = kind == ListenerKind::Tls;
        let http = h1::Connection::new(is_secured);
        Protocol::H1(if has_routes { http.leaving_content() } else { http })
    }

    /// Returns HTTP/2 in its initial state.
    pub(super) fn h2() -> Protocol {
        Protocol::H2(Box::new(Http2::new()))
    }

    pub(super) fn is_h2(&self) -> bool {
        matches!(self, Protocol::H2(_))
    }

    /// Writes the start of the connection. For HTTP/2, this is our SETTINGS frame.
    pub(super) fn begin(&mut self, output: &mut Output) {
        if let Protocol::H2(http2) = self {
            http2.begin(output);
        }
    }

    /// Returns the data that we are waiting for.
    #[inline]
    pub(super) fn awaits(&self) -> Awaits {
        match self {
            Protocol::H1(http) => match http.awaits() {
                h1::Awaits::Request => Awaits::Request,
                h1::Awaits::Head => Awaits::Head,
                h1::Awaits::Content => Awaits::Content { blocks: 0 },
            },
            Protocol::HandledH1(handled) => handled.awaits(),
            Protocol::H2(http2) => match http2.http.awaits() {
                h2::Awaits::Request => Awaits::Request,
                h2::Awaits::Head
                | h2::Awaits::Content
                | h2::Awaits::Response
                | h2::Awaits::Body
                | h2::Awaits::Window => Awaits::Streams,
            },
        }
    }

    /// Returns `true` if the client has announced its last request, and we have received all of it.
    pub(super) fn is_closed_by_peer(&self) -> bool {
        match self {
            Protocol::H1(http) => http.is_closed_by_peer(),
            Protocol::HandledH1(_) | Protocol::H2(_) => false,
        }
    }

    /// Starts a graceful shutdown of the connection.
    ///
    /// With HTTP/1, the next response will be the last and will say so. With HTTP/2, we send GOAWAY, but will
    /// still respond to requests that the client sends before receiving it.
    pub(super) fn close_after_next(&mut self) {
        match self {
            Protocol::H1(http) => http.close_after_next(),
            Protocol::HandledH1(handled) => handled.close_after_next(),
            Protocol::H2(http2) => http2.is_going_away = true,
        }
    }

    /// Writes the end of a connection without pending responses. For HTTP/2, this is GOAWAY.
    pub(super) fn end(&mut self, output: &mut Output) {
        if let Protocol::H2(http2) = self {
            // We need to send SETTINGS first, even if only GOAWAY follows (RFC 9113 §3.4).
            http2.begin(output);
            http2.end(output);
        }
    }

    /// Returns the release that the output refers to, or `None` if that is the current one anyway.
    #[inline]
    pub(super) fn content(&self) -> Option<&Arc<Content>> {
        match self {
            Protocol::H1(_) | Protocol::HandledH1(_) => None,
            Protocol::H2(http2) => http2.content.as_ref(),
        }
    }

    /// Drops the reference to an old release once all bodies from it have been sent. Callers must have sent
    /// the output or stored the rest of it.
    #[inline]
    pub(super) fn release_content(&mut self) {
        if let Protocol::H2(http2) = self
            && !http2.http.has_bodies()
        {
            http2.content = None;
        }
    }

    /// Returns `true` if we are still sending from an old release, and have not sent GOAWAY yet.
    pub(super) fn is_outdated(&self, current: &Arc<Content>) -> bool {
        let Protocol::H2(http2) = self else { return false };
        !http2.is_going_away && http2.content.as_ref().is_some_and(|content| !Arc::ptr_eq(content, current))
    }

    /// For HTTP/2, returns the size of the HPACK table, in bytes.
    #[inline]
    pub(super) fn table_memory(&self) -> Option<usize> {
        match self {
            Protocol::H1(_) | Protocol::HandledH1(_) => None,
            Protocol::H2(http2) => Some(http2.http.table_memory()),
        }
    }

    /// Returns the memory that pending requests and responses take, in bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Protocol::H1(_) => 0,
            Protocol::HandledH1(handled) => handled.memory(),
            Protocol::H2(http2) => http2.memory(),
        }
    }

    /// Returns the response bytes that handlers have written and that were not taken yet. Handlers can add more at any time.
    pub(super) fn kept_bytes(&self) -> usize {
        match self {
            Protocol::H1(_) => 0,
            Protocol::HandledH1(handled) => handled.kept_bytes(),
            Protocol::H2(http2) => http2.kept_bytes(),
        }
    }

    /// Returns the number of bytes written since the last call.
    pub(super) fn bytes_since_last(&mut self) -> StreamBytes {
        match self {
            Protocol::H1(_) | Protocol::HandledH1(_) => StreamBytes::default(),
            Protocol::H2(http2) => std::mem::take(&mut http2.bytes),
        }
    }

    /// For HTTP/2, returns the earliest deadline of all streams.
    pub(super) fn next_deadline(&mut self, now: Instant, timeouts: &Timeouts) -> Option<(Wait, Instant)> {
        match self {
            Protocol::H1(_) | Protocol::HandledH1(_) => None,
            Protocol::H2(http2) => http2.next_deadline(now, timeouts),
        }
    }

    /// Sets a new deadline for the client to open its flow-control windows.
    pub(super) fn renew_window_deadline(&mut self, deadline: Instant) {
        if let Protocol::H2(http2) = self {
            http2.renew_window_deadline(deadline);
        }
    }

    /// The time at which an idle connection should be closed. This is either `renewed` or, if the HTTP/2
    /// client has not sent any requests in the meantime, an earlier time.
    pub(super) fn idle_until(&mut self, renewed: Option<Instant>) -> Option<Instant> {
        match self {
            Protocol::H2(http2) => http2.idle_until(renewed),
            Protocol::H1(_) | Protocol::HandledH1(_) => renewed,
        }
    }

    /// Must be called when we stop receiving until the socket has room. Since nothing is read during this
    /// time, incomplete requests should not be considered late.
    pub(super) fn pause(&mut self, now: Instant) {
        if let Protocol::H2(http2) = self {
            http2.pause(now);
        }
    }

    /// Responds to the complete requests in `rest` until the output is full, removing the processed bytes
    /// from `rest`.
    #[inline]
    pub(super) fn respond(
        &mut self,
        rest: &mut &[u8],
        client: Client<'_>,
        cx: &mut WorkerContext,
    ) -> Progress {
        match self {
            Protocol::H1(http) => match respond_h1(http, rest, client, cx) {
                H1Outcome::Progress(progress) => progress,
                H1Outcome::IsHttp2 => self.switch_to_h2(rest, client, cx),
                H1Outcome::Handled(handled) => {
                    *self = Protocol::HandledH1(handled);
                    self.respond_by_handler(rest, client, cx)
                }
            },
            Protocol::HandledH1(_) => self.respond_by_handler(rest, client, cx),
            Protocol::H2(http2) => http2.respond(rest, client, cx),
        }
    }

    /// Continues with a response from a handler. Once it is complete, goes back to plain HTTP/1.
    #[cold]
    fn respond_by_handler(
        &mut self,
        rest: &mut &[u8],
        client: Client<'_>,
        cx: &mut WorkerContext,
    ) -> Progress {
        let Protocol::HandledH1(handled) = self else { return Progress::Complete };
        let progress = handled.respond(rest, client, cx);
        if let Some(http) = handled.take_finished() {
            let is_closing = http.is_closing();
            *self = Protocol::H1(http);
            // The caller will send the output and then call us again.
            return if is_closing { Progress::Closing } else { Progress::OutputFull };
        }
        progress
    }

    /// Takes output from a handler. The next call of [`Protocol::respond`] will write it.
    pub(super) fn deliver(&mut self, delivered: DeliveryContent) {
        match self {
            // We have ended the request in the meantime.
            Protocol::H1(_) => {}
            Protocol::HandledH1(handled) => handled.deliver(delivered),
            Protocol::H2(http2) => http2.deliver(delivered),
        }
    }

    /// Gives up on handlers that have been running for `timeout`, and prepares an error response for each.
    pub(super) fn give_up_handlers(&mut self, now: Instant, timeout: Duration) {
        match self {
            Protocol::H1(_) => {}
            Protocol::HandledH1(handled) => handled.give_up(),
            Protocol::H2(http2) => http2.give_up_handlers(now, timeout),
        }
    }

    /// Returns the earliest time at which a handler takes too long.
    pub(super) fn handler_deadline(&self, timeout: Duration) -> Option<Instant> {
        match self {
            Protocol::H1(_) => None,
            Protocol::HandledH1(handled) => handled.deadline(timeout),
            Protocol::H2(http2) => http2.handler_deadline(timeout),
        }
    }

    /// Returns `true` if we must not receive more until a handler has read what has arrived.
    pub(super) fn holds_content(&self) -> bool {
        matches!(self, Protocol::HandledH1(handled) if handled.holds_content())
    }

    /// Returns `true` if we are keeping received bytes until a handler responds.
    pub(super) fn is_handled_h1(&self) -> bool {
        matches!(self, Protocol::HandledH1(_))
    }

    /// Switches to HTTP/2 because the connection preface was found at the start of `rest`.
    #[cold]
    fn switch_to_h2(&mut self, rest: &mut &[u8], client: Client<'_>, cx: &mut WorkerContext) -> Progress {
        let mut http2 = Box::new(Http2::new());
        let progress = http2.respond(rest, client, cx);
        *self = Protocol::H2(http2);
        progress
    }

    /// Writes the response to invalid data and ends the connection. This does nothing for HTTP/2, where
    /// each response needs a request.
    ///
    /// If `input` contains a request line, it will be logged.
    pub(super) fn refuse(
        &mut self,
        refusal: Refusal,
        input: &[u8],
        client: Client<'_>,
        cx: &mut WorkerContext,
    ) {
        if let Protocol::H1(http) = self {
            refuse_h1(http, refusal, RequestLine::from_http1(input), client, cx);
        }
    }
}

/// Result of [`respond_h1`].
enum H1Outcome {
    Progress(Progress),
    /// The client has sent the HTTP/2 connection preface (RFC 9113 §3.3).
    IsHttp2,
    /// A handler is working on the response to the last request we have read.
    Handled(Box<HandledH1>),
}

/// Like [`Protocol::respond`], for HTTP/1.
#[inline]
fn respond_h1(
    http: &mut h1::Connection,
    rest: &mut &[u8],
    client: Client<'_>,
    cx: &mut WorkerContext,
) -> H1Outcome {
    let mut head = h1::Head::EMPTY;

    while cx.responder.output.has_room() {
        let (mut used, step) = http.next_request(rest, &mut head);
        match step {
            h1::Step::Request => {
                let is_last = used == rest.len();
                if cx.policy.live.holds_back(&head.common, is_last, &cx.release.content) {
                    // The request is left in `rest`, to be read again once the worker is woken up.
                    return H1Outcome::Progress(Progress::Complete);
                }

                // Routes take precedence over the site.
                let mut routed = Routed::Site;
                if cx.routes.is_some() {
                    let content_bytes;
                    (content_bytes, routed) = handled_h1::handle(http, &head, &rest[used..], client, cx);
                    used += content_bytes;
                }
                match routed {
                    Routed::Site => answer_h1(http, &head, client, cx),
                    Routed::Answered => {}
                    Routed::Handled(handled) => {
                        *rest = &rest[used..];
                        return H1Outcome::Handled(handled);
                    }
                }
            }
            h1::Step::More => {
                *rest = &rest[used..];
                return H1Outcome::Progress(Progress::Complete);
            }
            h1::Step::Refused(refusal) => {
                // If the client speaks HTTP/2 with prior knowledge, its preface looks like an unknown version.
                let may_be_h2 = refusal == Refusal::Version && cx.policy.has_http2 && !client.has_tls;
                if may_be_h2 && !http.has_responded() && rest.starts_with(H2_PREFACE_LINE) {
                    return H1Outcome::IsHttp2;
                }
                refuse_h1(http, refusal, RequestLine::from_http1(&rest[used..]), client, cx);
            }
            // The response has already been sent.
            h1::Step::End => {}
        }

        *rest = &rest[used..];
        if http.is_closing() {
            return H1Outcome::Progress(Progress::Closing);
        }
    }
    H1Outcome::Progress(Progress::OutputFull)
}

/// Writes the site's response to a request.
#[inline]
fn answer_h1(http: &mut h1::Connection, head: &h1::Head<'_>, client: Client<'_>, cx: &mut WorkerContext) {
    let https_port = if client.has_tls { None } else { cx.policy.https_port };
    let RequestContext { scratch, response, .. } = cx.request(client.has_tls);
    let incoming = IncomingRequest {
        exchange: OnH1 { http, head },
        peer: client.address,
        tls: client.tls_version,
        https_port,
        fields: response.fields,
    };
    response.content.answer(incoming, scratch, response.output, response.observer);
}

/// First line of the connection preface (RFC 9113 §3.4), which is not a valid request line in any version
/// of HTTP/1.
const H2_PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

#[cold]
fn refuse_h1(
    http: &mut h1::Connection,
    refusal: Refusal,
    line: Option<RequestLine<'_>>,
    client: Client<'_>,
    cx: &mut WorkerContext,
) {
    let RequestContext { response, .. } = cx.request(client.has_tls);
    let (answer, archive) = response.content.refusal(refusal);
    let fields = response.fields;
    let content_bytes = http.refuse(&Response { answer: &answer, archive, fields }, response.output);
    response.observer.request_refused(&RefusedRequest {
        peer: *client.address,
        tls: client.tls_version,
        refusal,
        line,
        head: None,
        content_bytes,
    });
}
