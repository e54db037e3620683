//! HTTP/1 while a handler is working on a response.
//!
//! ```text
//! Receiving ──▶ Running ──▶ Finished ──▶ Streaming ──▶ HTTP/1 again
//! ```
//!
//! Some stages can be skipped. If a response's body needs a thread of its own, the request is `Running` until there is one, a second
//! time if the handler has run on the pool. Further requests that the client sends in the meantime will have to
//! wait (RFC 9112 §9.3.2).

use std::time::{Duration, Instant};

use cannery_routes::{
    BodyProgress, BodyReader, ContentDemand, ContentFailure, ContentSender, HeldBytes, Response,
};
use cannery_site::{Method, Request};
use cannery_wire::h1::{self, ContentError, ContentTooLong, Framing};
use cannery_wire::limits::CONTENT_BLOCK_BYTES;
use cannery_wire::{Output, Refusal, RequestHead, RequestLine, StoredRequest, Version};

use super::{Awaits, Progress, refuse_h1};
use crate::context::{Client, WorkerContext};
use crate::observe::{LoggedRequest, LoggedResponse};
use crate::routes::{
    Awaited, BODY_STATE_BYTES, BodyFraming, ConnectionAddress, DeliveryContent, Dispatch, Expectation,
    HandledRequest, Prepared, PreparedBody, Treatment, put_chunk, put_h1_head,
};

/// An HTTP/1 connection with a request that a handler answers.
#[derive(Debug)]
pub(in crate::connection) struct HandledH1 {
    http: h1::Connection,
    line: Line,
    stage: Stage,
    /// Content that the handler reads while it arrives, until it has ended.
    upload: Option<Upload>,
}

/// Content that a handler reads while it arrives.
#[derive(Debug)]
struct Upload {
    sender: ContentSender,
    /// Number of content bytes so far.
    received: u64,
    bytes_max: u64,
    /// Whether we receive nothing until the handler has read.
    is_held: bool,
}

/// Properties of a request that are needed to write the response.
#[derive(Debug, Clone, Copy)]
struct Line {
    method: Method,
    version: Version,
    keep_alive: bool,
    expects_continue: bool,
    framing: Framing,
}

#[derive(Debug)]
enum Stage {
    /// We are waiting for the request's content.
    Receiving { request: StoredRequest, bytes_max: u64 },
    /// The handler is running on the pool, or the response waits for a thread that writes its body.
    Running(Running),
    /// The response is ready to be written.
    Finished(Box<HandledRequest>),
    /// The body is being written and sent at the same time.
    Streaming { body: BodyReader, framing: BodyFraming },
    /// The response is complete.
    Done,
}

/// A request whose response a pool will deliver.
#[derive(Debug)]
struct Running {
    expected: Expectation,
    /// When the request was sent to the first pool.
    since: Instant,
    /// When the client began to wait for the pool, and not the handler for content.
    waits_since: Option<Instant>,
    /// The request without its content.
    request: StoredRequest,
}

impl Running {
    fn new(expected: Expectation, request: StoredRequest, now: Instant) -> Running {
        Running { expected, since: now, waits_since: Some(now), request }
    }

    /// Returns the next stage, in which the request has a response, or an error because it has waited in vain.
    fn finish(self, response: Result<Response, Awaited>, held: Option<HeldBytes>) -> Stage {
        let Running { since, request, .. } = self;
        Stage::Finished(Box::new(HandledRequest { request, response, held, since: Some(since) }))
    }
}

/// Result of routing a request.
pub(super) enum Routed {
    /// No route matches, so the site has to answer it.
    Site,
    /// The response was written.
    Answered,
    /// The response will follow.
    Handled(Box<HandledH1>),
}

impl Routed {
    fn with_upload(mut self, upload: Option<Upload>) -> Routed {
        if let Routed::Handled(handled) = &mut self {
            handled.upload = upload;
        }
        self
    }
}

impl Line {
    fn from_head(head: &h1::Head<'_>) -> Line {
        Line {
            method: head.common.request.method,
            version: head.common.version,
            keep_alive: head.keep_alive,
            expects_continue: head.expects_continue,
            framing: head.framing,
        }
    }

    /// Returns a request head with these properties.
    fn head(self) -> h1::Head<'static> {
        let request = Request::new(self.method, b"");
        h1::Head {
            common: RequestHead { request, version: self.version, ..RequestHead::EMPTY },
            keep_alive: self.keep_alive,
            expects_continue: self.expects_continue,
            framing: self.framing,
        }
    }
}

/// Handles a request after reading its head, on a server with routes. Returns how many of the bytes after
/// the head (`rest`) belong to the request's content.
#[cold]
pub(super) fn handle(
    http: &mut h1::Connection,
    head: &h1::Head<'_>,
    rest: &[u8],
    client: Client<'_>,
    cx: &mut WorkerContext,
) -> (usize, Routed) {
    match route(http, head, rest, client, cx) {
        Ok(routed) => routed,
        Err(refusal) => {
            refuse_h1(http, refusal, RequestLine::from_refused_head(&head.common), client, cx);
            (0, Routed::Answered)
        }
    }
}

/// Implements [`handle`].
///
/// # Errors
/// Returns an error if the content is invalid.
fn route(
    http: &mut h1::Connection,
    head: &h1::Head<'_>,
    rest: &[u8],
    client: Client<'_>,
    cx: &mut WorkerContext,
) -> Result<(usize, Routed), Refusal> {
    // Requests that we redirect to `https` must not reach a handler.
    let is_redirected = cx.policy.https_port.is_some() && !client.has_tls;
    let dispatch = dispatch(client, cx).filter(|_| !is_redirected);
    let treatment = dispatch.as_ref().map_or(Treatment::Site, |dispatch| {
        let at_path = || dispatch.content.at_path(&head.common.request);
        dispatch.routes.treat(&head.common, head.framing != Framing::Length(0), dispatch.client, at_path)
    });

    // Skip the content if no handler needs it.
    let content_bytes = match treatment {
        Treatment::Receive { .. } | Treatment::Upload { bytes_max: Some(_), .. } => 0,
        _ => http.skip_content(head, rest)?,
    };
    let Some(mut dispatch) = dispatch else { return Ok((content_bytes, Routed::Site)) };

    let line = Line::from_head(head);
    let response = match treatment {
        Treatment::Site => return Ok((content_bytes, Routed::Site)),
        Treatment::Respond(response) => response,
        Treatment::Run(route) => dispatch.routes.run(&route, &head.common, b"", dispatch.client),
        Treatment::Send { timeout } => match send(StoredRequest::new(&head.common), timeout, &mut dispatch) {
            Stage::Finished(refused) => dispatch.complete(*refused).1,
            stage => return Ok((content_bytes, HandledH1::begin(http, line, stage))),
        },
        Treatment::Receive { bytes_max } => match http.receive_content(head, bytes_max, dispatch.output) {
            Ok(()) => {
                let request = StoredRequest::new(&head.common);
                let stage = Stage::Receiving { request, bytes_max };
                return Ok((content_bytes, HandledH1::begin(http, line, stage)));
            }
            Err(ContentTooLong) => dispatch.routes.content_too_long(&head.common, dispatch.client),
        },
        Treatment::Upload { bytes_max: Some(bytes_max), .. }
            if http.accept_content(head, bytes_max) == Err(ContentTooLong) =>
        {
            dispatch.routes.content_too_long(&head.common, dispatch.client)
        }
        Treatment::Upload { bytes_max, timeout } => {
            match upload(StoredRequest::new(&head.common), bytes_max, timeout, &mut dispatch) {
                Ok((running, upload)) => {
                    let routed = HandledH1::begin(http, line, Stage::Running(running));
                    return Ok((content_bytes, routed.with_upload(upload)));
                }
                Err(refused) => {
                    if head.expects_continue {
                        http.refuse_content();
                    } else {
                        // If there is too much of it, the response closes the connection.
                        let _ = http.discard_content();
                    }
                    dispatch.complete(*refused).1
                }
            }
        }
    };

    let routed = match respond(http, line, &head.common, response, None, &mut dispatch) {
        Stage::Done => Routed::Answered,
        stage => HandledH1::begin(http, line, stage),
    };
    Ok((content_bytes, routed))
}

/// Submits a request to the pool. Returns the next stage.
fn send(request: StoredRequest, timeout: Option<Duration>, dispatch: &mut Dispatch<'_>) -> Stage {
    let copy = StoredRequest::new(&request.head());
    match dispatch.routes.send(request, timeout, dispatch.client, dispatch.address) {
        Ok(expected) => Stage::Running(Running::new(expected, copy, dispatch.now)),
        Err(refused) => Stage::Finished(refused),
    }
}

/// Submits a request whose handler reads the content while it arrives. Without content, `bytes_max` is `None`.
///
/// # Errors
/// Returns an error response if too many requests are waiting for the pool.
fn upload(
    request: StoredRequest,
    bytes_max: Option<u64>,
    timeout: Option<Duration>,
    dispatch: &mut Dispatch<'_>,
) -> Result<(Running, Option<Upload>), Box<HandledRequest>> {
    let copy = StoredRequest::new(&request.head());
    let (expected, sender) = dispatch.routes.upload(request, timeout, dispatch.client, dispatch.address)?;
    let running = Running::new(expected, copy, dispatch.now);
    let Some(bytes_max) = bytes_max else {
        sender.finish();
        return Ok((running, None));
    };
    Ok((running, Some(Upload { sender, received: 0, bytes_max, is_held: false })))
}

/// Returns the parts that a handler's response depends on, or `None` if the server has no handlers.
fn dispatch<'a>(client: Client<'_>, cx: &'a mut WorkerContext) -> Option<Dispatch<'a>> {
    let connection = cx.current.map(ConnectionAddress::Tcp);
    let response = cx.request(client.has_tls).response;
    let content = response.content;
    response.into_dispatch(connection, client, content)
}

/// Writes a response. Returns the next stage.
fn respond(
    http: &mut h1::Connection,
    line: Line,
    head: &RequestHead<'_>,
    response: Response,
    since: Option<Instant>,
    dispatch: &mut Dispatch<'_>,
) -> Stage {
    let length_before = dispatch.output.length();
    let (response, body) = match dispatch.routes.prepare(response, head, dispatch.client, dispatch.address) {
        Prepared::Ready(response, body) => (response, body),
        Prepared::Later(expected) => {
            let running = Running::new(expected, StoredRequest::new(head), dispatch.now);
            return Stage::Running(Running { since: since.unwrap_or(dispatch.now), ..running });
        }
    };
    // Since HTTP/1.0 clients do not know chunks, the end of a body has to be marked by closing the
    // connection.
    let framing = match (&body, line.version) {
        (PreparedBody::Bytes(bytes), _) => BodyFraming::Length(bytes.len()),
        (PreparedBody::Stream(_), Version::Http10) => BodyFraming::Close,
        (PreparedBody::Stream(_), _) => BodyFraming::Chunked,
    };

    let h1_head = h1::Head { keep_alive: line.keep_alive && framing != BodyFraming::Close, ..line.head() };
    let option = http.begin(&h1_head, dispatch.output);
    put_h1_head(&response, framing, option, dispatch.fields, dispatch.output);

    let has_body = line.method != Method::Head && !matches!(response.status(), 204 | 304);
    let mut content_bytes = 0;
    let stage = match body {
        PreparedBody::Bytes(bytes) => {
            if has_body {
                dispatch.output.put(&bytes);
                content_bytes = bytes.len() as u64;
            }
            Stage::Done
        }
        PreparedBody::Stream(body) if has_body => Stage::Streaming { body, framing },
        PreparedBody::Stream(_) => Stage::Done,
    };

    if dispatch.observer.records_requests() {
        let logged = LoggedResponse::Own { status: response.status(), content_bytes };
        let bytes = dispatch.output.length() - length_before;
        let peer = dispatch.client.peer;
        let handled = dispatch.routes.handled(&response, since, dispatch.now);
        let logged = LoggedRequest { peer, tls: dispatch.tls, head, response: &logged, bytes, handled };
        dispatch.observer.request_answered(&logged);
    }
    stage
}

impl HandledH1 {
    /// Takes over the connection. It is returned by [`HandledH1::take_finished`].
    fn begin(http: &mut h1::Connection, line: Line, stage: Stage) -> Routed {
        Routed::Handled(Box::new(HandledH1 { http: std::mem::take(http), line, stage, upload: None }))
    }

    /// Returns the connection once the response is complete.
    pub(super) fn take_finished(&mut self) -> Option<h1::Connection> {
        matches!(self.stage, Stage::Done).then(|| std::mem::take(&mut self.http))
    }

    /// Closes the connection after this response.
    pub(super) fn close_after_next(&mut self) {
        self.http.close_after_next();
    }

    pub(super) fn awaits(&self) -> Awaits {
        match &self.stage {
            Stage::Receiving { request, .. } => {
                Awaits::Content { blocks: request.content().len() / CONTENT_BLOCK_BYTES }
            }
            // Until there is a thread for the body, its function reads no content either.
            Stage::Running(running) if running.expected.awaited() == Awaited::BodyThread => Awaits::Handler,
            Stage::Running(_) | Stage::Streaming { .. } if self.awaits_upload().is_some() => {
                let received = self.awaits_upload().unwrap_or_default();
                let blocks = received / CONTENT_BLOCK_BYTES as u64;
                Awaits::Content { blocks: usize::try_from(blocks).unwrap_or(usize::MAX) }
            }
            Stage::Running(_) | Stage::Finished(_) | Stage::Done => Awaits::Handler,
            Stage::Streaming { .. } => Awaits::Body,
        }
    }

    /// Returns the memory that this takes, in bytes, except for [`kept_bytes`](Self::kept_bytes).
    pub(super) fn memory(&self) -> usize {
        let kept = match &self.stage {
            Stage::Receiving { request, .. } => request.memory(),
            Stage::Finished(finished) => finished.request.memory(),
            Stage::Running(running) => running.request.memory(),
            Stage::Streaming { .. } => BODY_STATE_BYTES,
            Stage::Done => 0,
        };
        let waiting = self.upload.as_ref().map_or(0, |upload| upload.sender.memory());
        size_of::<HandledH1>() + kept + waiting
    }

    /// If the client should send more content for a handler that reads it while it arrives, returns the number of bytes so far.
    fn awaits_upload(&self) -> Option<u64> {
        self.upload.as_ref().filter(|upload| !upload.is_held).map(|upload| upload.received)
    }

    /// Returns `true` if nothing should be received until the handler has read what has arrived.
    pub(super) fn holds_content(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| upload.is_held)
    }

    /// Returns the response bytes that the handler has written and that were not taken yet.
    pub(super) fn kept_bytes(&self) -> usize {
        match &self.stage {
            Stage::Finished(finished) => finished.kept_bytes(),
            Stage::Streaming { body, .. } => body.kept_bytes(),
            Stage::Receiving { .. } | Stage::Running(_) | Stage::Done => 0,
        }
    }

    /// Takes output from a handler.
    pub(super) fn deliver(&mut self, delivered: DeliveryContent) {
        let DeliveryContent::Response(ticket, response, held) = delivered else { return };
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            // A late response of a handler that we have given up has another ticket.
            Stage::Running(running) if running.expected.is_for(ticket) => {
                running.finish(Ok(*response), Some(held))
            }
            stage => stage,
        };
    }

    /// Gives up on a handler, or on a thread for the body, that takes too long. The client will get an error response instead.
    pub(super) fn give_up(&mut self) {
        if matches!(self.stage, Stage::Running(_)) {
            self.end_upload(drop);
        }
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Running(running) => {
                let awaited = running.expected.awaited();
                if awaited == Awaited::Handler {
                    self.http.close_after_next();
                }
                running.finish(Err(awaited), None)
            }
            stage => stage,
        };
    }

    /// Returns when we will give up on the handler. `timeout` is for handlers without a limit of their own.
    pub(super) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        let Stage::Running(running) = &self.stage else { return None };
        running.waits_since?.checked_add(running.expected.timeout(timeout))
    }

    /// Makes progress by reading the request's content from `rest` and writing the response.
    pub(super) fn respond(
        &mut self,
        rest: &mut &[u8],
        client: Client<'_>,
        cx: &mut WorkerContext,
    ) -> Progress {
        let Some(mut dispatch) = dispatch(client, cx) else { return Progress::Closing };
        self.pass_content(rest, &mut dispatch);

        loop {
            self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
                Stage::Receiving { mut request, bytes_max } => {
                    let content = request.content_mut();
                    let bytes_left = bytes_max.saturating_sub(content.len() as u64);
                    let read =
                        self.http.read_content(rest, bytes_left, |bytes| content.extend_from_slice(bytes));
                    if read == Ok(()) && self.http.awaits_content() {
                        self.stage = Stage::Receiving { request, bytes_max };
                        return Progress::Complete;
                    }
                    self.finish_content(request, read, &mut dispatch)
                }
                Stage::Running(running) => {
                    self.stage = Stage::Running(running);
                    return Progress::Complete;
                }
                Stage::Finished(finished) => {
                    // The client sends content that it has held back before the response, or not at all.
                    if self.line.expects_continue {
                        self.end_upload(drop);
                    }
                    let (request, response, since) = dispatch.complete(*finished);
                    respond(&mut self.http, self.line, &request.head(), response, since, &mut dispatch)
                }
                Stage::Streaming { body, framing } => {
                    // The output needs to be empty because the body should not take more from the handler
                    // than we can send.
                    if !dispatch.output.is_empty() {
                        self.stage = Stage::Streaming { body, framing };
                        return Progress::OutputFull;
                    }

                    let mut bytes = Vec::new();
                    let progress = body.take(&mut bytes);
                    put_body(&bytes, framing, progress, dispatch.output);
                    match progress {
                        BodyProgress::Open => {
                            self.stage = Stage::Streaming { body, framing };
                            return if bytes.is_empty() { Progress::Complete } else { Progress::OutputFull };
                        }
                        BodyProgress::Complete => Stage::Done,
                        BodyProgress::Broken => {
                            self.http.break_off();
                            Stage::Done
                        }
                    }
                }
                Stage::Done => {
                    // The response has promised that the connection stays open.
                    self.end_upload(drop);
                    if self.http.discard_content().is_err() {
                        self.http.break_off();
                    }
                    return Progress::OutputFull;
                }
            };
        }
    }

    /// Passes on received content to a handler that reads it while it arrives.
    ///
    /// While we wait for more, the client's deadline counts, but not the handler's.
    fn pass_content(&mut self, rest: &mut &[u8], dispatch: &mut Dispatch<'_>) {
        let Some(upload) = &mut self.upload else { return };
        if !rest.is_empty() {
            // The client has not waited until it is asked.
            self.line.expects_continue = false;
        }
        let left = upload.bytes_max - upload.received;
        let read = self.http.read_content(rest, left, |bytes| {
            upload.received += bytes.len() as u64;
            upload.sender.send(bytes);
        });

        match read {
            Err(ContentError::TooLong) => self.end_upload(|sender| sender.fail(ContentFailure::TooLong)),
            Err(ContentError::Invalid) => self.end_upload(|sender| sender.fail(ContentFailure::Invalid)),
            Ok(()) if !self.http.awaits_content() => self.end_upload(ContentSender::finish),
            Ok(()) => match upload.sender.demand(self.line.expects_continue) {
                ContentDemand::More => {
                    upload.is_held = false;
                    if std::mem::take(&mut self.line.expects_continue) {
                        h1::Connection::put_continue(dispatch.output);
                    }
                }
                ContentDemand::Unread => upload.is_held = self.line.expects_continue,
                ContentDemand::Nothing => upload.is_held = true,
                ContentDemand::Ended => self.end_upload(drop),
            },
        }

        if let Stage::Running(running) = &mut self.stage
            && running.expected.awaited() == Awaited::Handler
        {
            let waits_for_client = self.upload.as_ref().is_some_and(|upload| !upload.is_held);
            running.waits_since =
                if waits_for_client { None } else { running.waits_since.or(Some(dispatch.now)) };
        }
    }

    /// Passes on no more content. The rest is discarded, unless it is too long to be worth reading.
    fn end_upload(&mut self, end: impl FnOnce(ContentSender)) {
        if let Some(upload) = self.upload.take() {
            end(upload.sender);
            if self.line.expects_continue {
                return self.http.refuse_content();
            }
            // If there is too much of it, the response closes the connection.
            let _ = self.http.discard_content();
        }
    }

    /// Runs the handler because all of the content has arrived. Returns the next stage.
    fn finish_content(
        &mut self,
        request: StoredRequest,
        read: Result<(), ContentError>,
        dispatch: &mut Dispatch<'_>,
    ) -> Stage {
        let head = request.head();
        let response = match read {
            Err(ContentError::TooLong) => dispatch.routes.content_too_long(&head, dispatch.client),
            Err(ContentError::Invalid) => dispatch.routes.content_invalid(&head, dispatch.client),
            Ok(()) => match dispatch
                .routes
                .treat(&head, false, dispatch.client, || dispatch.content.at_path(&head.request))
            {
                Treatment::Run(route) => {
                    dispatch.routes.run(&route, &head, request.content(), dispatch.client)
                }
                Treatment::Respond(response) => response,
                Treatment::Send { timeout } => return send(request, timeout, dispatch),
                // Cannot happen because we found the route when the head arrived.
                Treatment::Receive { .. } | Treatment::Upload { .. } | Treatment::Site => {
                    return send(request, None, dispatch);
                }
            },
        };
        respond(&mut self.http, self.line, &head, response, None, dispatch)
    }
}

/// Writes body bytes in the given framing. If the body is complete, also writes the end.
fn put_body(bytes: &[u8], framing: BodyFraming, progress: BodyProgress, output: &mut Output) {
    if framing != BodyFraming::Chunked {
        return output.put(bytes);
    }
    if !bytes.is_empty() {
        put_chunk(bytes, output);
    }
    if progress == BodyProgress::Complete {
        put_chunk(b"", output);
    }
}
