//! HTTP/1 or HTTP/2 on a connection: requests from bytes, responses to the worker's output.
//!
//! It knows no socket.

use std::net::SocketAddr;
use std::sync::Arc;

use cannery_secure::Version;
use cannery_wire::{Output, Refusal, RequestLine, Response, h1, h2};

use super::context::{Policy, Responder, WorkerContext};
use crate::config::ListenerKind;
use crate::content::{Content, IncomingRequest, OnH1, OnStream};
use crate::observe::RefusedRequest;

/// The protocol of a connection, and its state.
#[derive(Debug)]
pub(super) enum Protocol {
    H1(h1::Connection),
    H2(Box<Http2>),
}

/// HTTP/2 on a connection.
#[derive(Debug)]
pub(super) struct Http2 {
    http: h2::Connection,
    /// The release of all bodies that wait to be sent, or `None` if no body waits.
    content: Option<Arc<Content>>,
    /// Whether our SETTINGS were written, which come first.
    has_begun: bool,
    /// Whether the client must be sent GOAWAY.
    is_going_away: bool,
    /// Body bytes that the client's windows had room for since [`Protocol::body_bytes_since_last`].
    body_bytes: u64,
}

/// The client of a connection, as far as responses and the access log depend on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client<'p> {
    pub(super) address: &'p Option<SocketAddr>,
    pub(super) has_tls: bool,
    pub(super) tls_version: Option<Version>,
}

/// The data that a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    /// The next request, if the client has one.
    Request,
    /// The rest of a request head.
    Head,
    /// The rest of a request's content.
    Content,
    /// Room in a flow-control window for the rest of a response (RFC 9113 §5.2).
    Window,
}

/// How far responding to received requests has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Every complete request has its response.
    Complete,
    /// The output must be sent before more responses can be written.
    OutputFull,
    /// The last response of the connection is written.
    Closing,
}

impl Protocol {
    /// Returns the protocol with which connections begin.
    pub(super) fn new(kind: ListenerKind, policy: &Policy) -> Protocol {
        if !policy.has_http1 {
            return Protocol::h2();
        }
        let is_secured = kind == ListenerKind::Tls;
        Protocol::H1(h1::Connection::new(is_secured))
    }

    /// Returns HTTP/2 before its first frame.
    pub(super) fn h2() -> Protocol {
        Protocol::H2(Box::new(Http2::new()))
    }

    /// Returns `true` for HTTP/2.
    pub(super) fn is_h2(&self) -> bool {
        matches!(self, Protocol::H2(_))
    }

    /// Writes the start of the connection, before any response: our SETTINGS, in HTTP/2.
    pub(super) fn begin(&mut self, output: &mut Output) {
        if let Protocol::H2(http2) = self {
            http2.begin(output);
        }
    }

    /// Returns the data that the connection waits for.
    #[inline]
    pub(super) fn awaits(&self) -> Awaits {
        match self {
            Protocol::H1(http) => match http.awaits() {
                h1::Awaits::Request => Awaits::Request,
                h1::Awaits::Head => Awaits::Head,
                h1::Awaits::Content => Awaits::Content,
            },
            Protocol::H2(http2) => match http2.http.awaits() {
                h2::Awaits::Request => Awaits::Request,
                h2::Awaits::Head => Awaits::Head,
                h2::Awaits::Content => Awaits::Content,
                h2::Awaits::Window => Awaits::Window,
            },
        }
    }

    /// Returns `true` if the client has announced that it sends no more requests, and has sent its last one.
    pub(super) fn is_closed_by_peer(&self) -> bool {
        match self {
            Protocol::H1(http) => http.is_closed_by_peer(),
            Protocol::H2(_) => false,
        }
    }

    /// Begins a graceful shutdown of the connection. In HTTP/1 the next response is the last one and announces that; in
    /// HTTP/2 we send GOAWAY, and respond to requests that the client has sent before receiving it.
    pub(super) fn close_after_next(&mut self) {
        match self {
            Protocol::H1(http) => http.close_after_next(),
            Protocol::H2(http2) => http2.is_going_away = true,
        }
    }

    /// Writes the end of a connection that owes no response: GOAWAY, in HTTP/2.
    pub(super) fn end(&mut self, output: &mut Output) {
        if let Protocol::H2(http2) = self {
            // SETTINGS come first, even if only GOAWAY follows (RFC 9113 §3.4).
            http2.begin(output);
            http2.http.end(output);
        }
    }

    /// Returns the release that the output refers to, if it can be another than the current one.
    #[inline]
    pub(super) fn content(&self) -> Option<&Arc<Content>> {
        match self {
            Protocol::H1(_) => None,
            Protocol::H2(http2) => http2.content.as_ref(),
        }
    }

    /// Drops the reference to a release of which no body waits. The caller has sent the output, or keeps it.
    #[inline]
    pub(super) fn release_content(&mut self) {
        if let Protocol::H2(http2) = self
            && !http2.http.has_bodies()
        {
            http2.content = None;
        }
    }

    /// Returns `true` if responses come from a release that was replaced, and the client hasn't been sent GOAWAY.
    pub(super) fn is_outdated(&self, current: &Arc<Content>) -> bool {
        let Protocol::H2(http2) = self else { return false };
        !http2.is_going_away && http2.content.as_ref().is_some_and(|content| !Arc::ptr_eq(content, current))
    }

    /// Returns the memory of waiting requests and responses, in bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Protocol::H1(_) => 0,
            Protocol::H2(http2) => http2.http.memory(),
        }
    }

    /// Returns how many body bytes the client's windows had room for since the last call.
    pub(super) fn body_bytes_since_last(&mut self) -> u64 {
        match self {
            Protocol::H1(_) => 0,
            Protocol::H2(http2) => std::mem::take(&mut http2.body_bytes),
        }
    }

    /// Writes responses until `rest` holds no complete request or the output is full, and removes the processed
    /// bytes from `rest`.
    #[inline]
    pub(super) fn respond(
        &mut self,
        rest: &mut &[u8],
        client: Client<'_>,
        cx: &mut WorkerContext,
    ) -> Progress {
        match self {
            Protocol::H1(http) => match respond_h1(http, rest, client, cx) {
                Some(progress) => progress,
                None => self.switch_to_h2(rest, client, cx),
            },
            Protocol::H2(http2) => http2.respond(rest, client, cx),
        }
    }

    /// Continues with HTTP/2. Its connection preface is in `rest`.
    #[cold]
    fn switch_to_h2(&mut self, rest: &mut &[u8], client: Client<'_>, cx: &mut WorkerContext) -> Progress {
        let mut http2 = Box::new(Http2::new());
        let progress = http2.respond(rest, client, cx);
        *self = Protocol::H2(http2);
        progress
    }

    /// Writes the response to invalid data, and ends the connection. HTTP/2 has no response without a
    /// request, so there it has no effect.
    ///
    /// The access log gets the request line in `input`, if there is one.
    pub(super) fn refuse(
        &mut self,
        refusal: Refusal,
        input: &[u8],
        client: Client<'_>,
        cx: &mut WorkerContext,
    ) {
        if let Protocol::H1(http) = self {
            refuse_h1(http, refusal, input, client, cx);
        }
    }
}

/// Implements [`Protocol::respond`] for HTTP/1. Returns `None` if the client begins with the connection preface of HTTP/2
/// (RFC 9113 §3.3).
#[inline]
fn respond_h1(
    http: &mut h1::Connection,
    rest: &mut &[u8],
    client: Client<'_>,
    cx: &mut WorkerContext,
) -> Option<Progress> {
    let mut head = h1::Head::EMPTY;
    while cx.responder.output.has_room() {
        let (used, step) = http.next_request(rest, &mut head);
        match step {
            h1::Step::Request => {
                if let Some(folder) = &cx.policy.live_folder
                    && folder.is_pending(head.common.request.target)
                    && used == rest.len()
                {
                    // It is the last request so far, and is read again when the worker is woken.
                    return Some(Progress::Complete);
                }
                let WorkerContext { policy, release, responder, observer, .. } = &mut *cx;
                let Responder { fields, scratch, output, .. } = responder;
                let incoming = IncomingRequest {
                    exchange: OnH1 { http, head: &head },
                    peer: client.address,
                    tls: client.tls_version,
                    https_port: if client.has_tls { None } else { policy.https_port },
                    fields: fields.for_connection(client.has_tls),
                };
                release.content.answer(incoming, scratch, output, observer);
            }
            h1::Step::More => {
                *rest = &rest[used..];
                return Some(Progress::Complete);
            }
            h1::Step::Refused(refusal) => {
                let may_be_h2 = refusal == Refusal::Version && cx.policy.has_http2 && !client.has_tls;
                if may_be_h2 && !http.has_responded() && rest.starts_with(H2_PREFACE_LINE) {
                    return None;
                }
                refuse_h1(http, refusal, &rest[used..], client, cx);
            }
            // The response was sent before.
            h1::Step::End => {}
        }
        *rest = &rest[used..];
        if http.is_closing() {
            return Some(Progress::Closing);
        }
    }
    Some(Progress::OutputFull)
}

/// The first line of the connection preface (RFC 9113 §3.4), which no version of HTTP/1 accepts as a request line.
const H2_PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

#[cold]
fn refuse_h1(
    http: &mut h1::Connection,
    refusal: Refusal,
    input: &[u8],
    client: Client<'_>,
    cx: &mut WorkerContext,
) {
    let Responder { fields, output, .. } = &mut cx.responder;
    let (answer, archive) = cx.release.content.refusal(refusal);
    let fields = fields.for_connection(client.has_tls);
    let content_bytes = http.refuse(&Response { answer: &answer, archive, fields }, output);
    cx.observer.request_refused(&RefusedRequest {
        peer: *client.address,
        tls: client.tls_version,
        refusal,
        line: RequestLine::from_http1(input),
        head: None,
        content_bytes,
    });
}

impl Http2 {
    fn new() -> Http2 {
        Http2 {
            http: h2::Connection::new(),
            content: None,
            has_begun: false,
            is_going_away: false,
            body_bytes: 0,
        }
    }

    fn begin(&mut self, output: &mut Output) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.http.begin(output);
        }
    }

    // Not inlined: its caller would save registers for HTTP/1 that only HTTP/2 needs.
    #[inline(never)]
    fn respond(&mut self, rest: &mut &[u8], client: Client<'_>, cx: &mut WorkerContext) -> Progress {
        let WorkerContext { policy, release, responder, observer, .. } = &mut *cx;
        let Responder { fields, scratch, heads, output } = responder;
        let fields = fields.for_connection(client.has_tls);
        let https_port = if client.has_tls { None } else { policy.https_port };

        self.begin(output);
        if self.is_going_away {
            self.http.go_away(output);
        }

        // Bodies of one connection come from one release at a time.
        let pinned = self.content.take();
        let content = pinned.as_ref().unwrap_or(&release.content);
        let last = loop {
            let (used, step) = self.http.next_request(rest, heads, output);
            *rest = &rest[used..];
            let (stream, refusal) = match step {
                h2::Step::Request(stream) => (stream, None),
                h2::Step::Refused(stream, refusal) => (stream, Some(refusal)),
                step => break step,
            };

            let head = heads.head();
            let incoming = IncomingRequest {
                exchange: OnStream { http: &mut self.http, stream, head: &head },
                peer: client.address,
                tls: client.tls_version,
                https_port,
                fields,
            };
            match refusal {
                None => content.answer(incoming, scratch, output, observer),
                Some(refusal) => content.refuse(refusal, incoming, output, observer),
            }
        };

        if self.http.has_bodies() {
            let before = output.length();
            self.http.fill(output);
            self.body_bytes += output.length() - before;
            self.content = pinned.or_else(|| Some(Arc::clone(&release.content)));
        }

        if self.http.has_ended() {
            Progress::Closing
        } else if last == h2::Step::Full || self.content.is_some() && !output.is_empty() {
            Progress::OutputFull
        } else {
            Progress::Complete
        }
    }
}
