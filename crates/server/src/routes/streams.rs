//! Handler responses on HTTP/2 and HTTP/3 streams.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cannery_routes::{BodyReader, ContentDemand, ContentFailure, ContentSender, HeldBytes, Response};
use cannery_transport::Version;
use cannery_wire::{
    Arrival, BodyFollows, Multiplexed, Output, RequestHead, Resumption, ServerFields, StoredRequest,
};

use super::encode::with_head;
use super::{
    Awaited, BODY_STATE_BYTES, ConnectionAddress, DeliveryContent, Expectation, HandledRequest, Prepared,
    PreparedBody, RouteClient, Treatment, WorkerRoutes,
};
use crate::content::Content;
use crate::observe::{LoggedRequest, LoggedResponse, Observer};

/// A connection's requests for handlers, and the bodies that handlers write.
#[derive(Debug)]
pub(crate) struct StreamRoutes<S> {
    /// Requests whose handler is running on the pool, or whose response waits for a thread that writes its body.
    running: Vec<Running<S>>,
    /// Responses that are ready to be written.
    finished: VecDeque<(S, Box<HandledRequest>)>,
    /// Bodies that are being written.
    pub(crate) bodies: Vec<(S, BodyReader)>,
    /// Content that handlers read while it arrives.
    uploads: Vec<Upload<S>>,
}

/// Content that a handler reads while it arrives.
#[derive(Debug)]
struct Upload<S> {
    stream: S,
    sender: ContentSender,
    /// Whether the client waits until it is asked to send the content.
    expects_continue: bool,
    /// Whether the client must not send more until the handler has read.
    is_held: bool,
}

impl<S> Upload<S> {
    /// Returns `true` if content stays in the stream's window. A client that waits until it is asked has sent none.
    fn keeps_content(&self) -> bool {
        self.is_held && !self.expects_continue
    }
}

/// Streams on which callers have something to do after content was passed on.
#[derive(Debug)]
pub(crate) struct PassedContent<S> {
    /// On these, ask the client for the content.
    pub(crate) asked: Vec<S>,
    /// On these, there is room again.
    pub(crate) released: Vec<S>,
    /// On these, the handler does not want the rest.
    pub(crate) unwanted: Vec<S>,
}

/// A request whose response a pool will deliver.
#[derive(Debug)]
struct Running<S> {
    stream: S,
    expected: Expectation,
    /// When the request was sent to the first pool.
    since: Instant,
    /// When the client began to wait for the pool, and not the handler for content.
    waits_since: Option<Instant>,
    /// The request without its content.
    request: StoredRequest,
}

impl<S> Running<S> {
    /// Returns the request with its response, or with what it has waited for in vain.
    fn finish(
        self,
        response: Result<Response, Awaited>,
        held: Option<HeldBytes>,
    ) -> (S, Box<HandledRequest>) {
        let Running { stream, since, request, .. } = self;
        (stream, Box::new(HandledRequest { request, response, held, since: Some(since) }))
    }

    /// Returns `None` if the handler may take practically forever, or if it waits for content.
    fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.waits_since?.checked_add(self.expected.timeout(timeout))
    }

    fn is_late(&self, now: Instant, timeout: Duration) -> bool {
        self.deadline(timeout).is_some_and(|deadline| deadline <= now)
    }
}

/// Everything that a handler's response depends on.
pub(crate) struct Dispatch<'a> {
    pub(crate) routes: &'a WorkerRoutes,
    /// The site beside the routes.
    pub(crate) content: &'a Content,
    pub(crate) address: ConnectionAddress,
    pub(crate) client: RouteClient,
    pub(crate) now: Instant,
    pub(crate) tls: Option<Version>,
    pub(crate) fields: &'a ServerFields,
    pub(crate) output: &'a mut Output,
    pub(crate) observer: &'a mut Observer,
}

impl Dispatch<'_> {
    /// Returns the request, the response, and when the request was sent to the pool. If that took too long, the response is a
    /// 503.
    pub(crate) fn complete(&mut self, handled: HandledRequest) -> (StoredRequest, Response, Option<Instant>) {
        let HandledRequest { request, response, since, .. } = handled;
        let response = response.unwrap_or_else(|awaited| match awaited {
            Awaited::Handler => {
                self.observer.handler_timed_out();
                self.routes.too_slow(&request.head(), self.client)
            }
            Awaited::BodyThread => self.routes.busy(&request.head(), self.client),
        });
        (request, response, since)
    }
}

/// Result of routing a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamOutcome {
    /// No route matches, so the site has to answer it.
    Site,
    /// The response was written. More of the body may follow.
    Answered,
    /// The response will follow.
    Later,
}

impl<S> Default for StreamRoutes<S> {
    fn default() -> StreamRoutes<S> {
        StreamRoutes::new()
    }
}

impl<S> StreamRoutes<S> {
    pub(crate) const fn new() -> StreamRoutes<S> {
        StreamRoutes {
            running: Vec::new(),
            finished: VecDeque::new(),
            bodies: Vec::new(),
            uploads: Vec::new(),
        }
    }
}

impl<S: Copy + PartialEq> StreamRoutes<S> {
    /// Returns `true` unless it is empty.
    pub(crate) fn is_used(&self) -> bool {
        !(self.running.is_empty()
            && self.finished.is_empty()
            && self.bodies.is_empty()
            && self.uploads.is_empty())
    }

    /// Returns the memory that this takes, in bytes, except for [`kept_bytes`](Self::kept_bytes).
    pub(crate) fn memory(&self) -> usize {
        let running = self.running.iter().map(|running| running.request.memory());
        let finished = self.finished.iter().map(|(_, finished)| finished.request.memory());
        let uploads = self.uploads.iter().map(|upload| upload.sender.memory());
        let lists = self.running.capacity() * size_of::<Running<S>>()
            + self.finished.capacity() * size_of::<(S, Box<HandledRequest>)>()
            + self.bodies.capacity() * size_of::<(S, BodyReader)>()
            + self.uploads.capacity() * size_of::<Upload<S>>();
        let states = (self.bodies.len() + self.uploads.len()) * BODY_STATE_BYTES;
        lists + states + running.chain(finished).chain(uploads).sum::<usize>()
    }

    /// Returns the response bytes that handlers have written and that were not taken yet.
    pub(crate) fn kept_bytes(&self) -> usize {
        let finished = self.finished.iter().map(|(_, finished)| finished.kept_bytes());
        finished.chain(self.bodies.iter().map(|(_, body)| body.kept_bytes())).sum()
    }

    /// Handles a request whose head has arrived.
    pub(crate) fn begin<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        stream: S,
        head: &RequestHead<'_>,
        dispatch: &mut Dispatch<'_>,
    ) -> StreamOutcome {
        let awaits_content = http.awaits_content(stream);
        let at_path = || dispatch.content.at_path(&head.request);
        match dispatch.routes.treat(head, awaits_content, dispatch.client, at_path) {
            Treatment::Site => StreamOutcome::Site,
            // Refuse the content now if we know that it is too long.
            Treatment::Receive { bytes_max } | Treatment::Upload { bytes_max: Some(bytes_max), .. }
                if http.announced_content(stream).is_some_and(|bytes| bytes > bytes_max) =>
            {
                let response = dispatch.routes.content_too_long(head, dispatch.client);
                self.respond(http, stream, head, response, None, dispatch)
            }
            Treatment::Receive { bytes_max } => {
                if http.expects_continue(stream) {
                    http.put_continue(stream, dispatch.output);
                }
                let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
                http.receive_content(stream, StoredRequest::new(head), bytes_max);
                StreamOutcome::Later
            }
            Treatment::Upload { bytes_max, timeout } => {
                self.upload(http, stream, head, bytes_max, timeout, dispatch)
            }
            Treatment::Run(route) => {
                let response = dispatch.routes.run(&route, head, b"", dispatch.client);
                self.respond(http, stream, head, response, None, dispatch)
            }
            Treatment::Send { timeout } => {
                self.send(http, stream, StoredRequest::new(head), timeout, dispatch)
            }
            Treatment::Respond(response) => self.respond(http, stream, head, response, None, dispatch),
        }
    }

    /// Handles a request whose content has arrived or is too long.
    pub(crate) fn receive<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        stream: S,
        is_whole: bool,
        dispatch: &mut Dispatch<'_>,
    ) -> StreamOutcome {
        let Some(request) = http.take_received(stream) else { return StreamOutcome::Later };
        let head = request.head();

        let at_path = || dispatch.content.at_path(&head.request);
        let response = match dispatch.routes.treat(&head, false, dispatch.client, at_path) {
            _ if !is_whole => dispatch.routes.content_too_long(&head, dispatch.client),
            Treatment::Run(route) => dispatch.routes.run(&route, &head, request.content(), dispatch.client),
            Treatment::Respond(response) => response,
            Treatment::Send { timeout } => return self.send(http, stream, request, timeout, dispatch),
            // Cannot happen because we found the route when the head arrived.
            Treatment::Receive { .. } | Treatment::Upload { .. } | Treatment::Site => {
                return self.send(http, stream, request, None, dispatch);
            }
        };
        self.respond(http, stream, &head, response, None, dispatch)
    }

    fn send<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        stream: S,
        request: StoredRequest,
        timeout: Option<Duration>,
        dispatch: &mut Dispatch<'_>,
    ) -> StreamOutcome {
        let copy = StoredRequest::new(&request.head());
        match dispatch.routes.send(request, timeout, dispatch.client, dispatch.address) {
            Ok(expected) => {
                http.postpone(stream);
                self.run(stream, expected, copy, dispatch.now);
                StreamOutcome::Later
            }
            Err(refused) => {
                let (request, response, since) = dispatch.complete(*refused);
                self.respond(http, stream, &request.head(), response, since, dispatch)
            }
        }
    }

    fn run(&mut self, stream: S, expected: Expectation, request: StoredRequest, now: Instant) {
        self.running.push(Running { stream, expected, since: now, waits_since: Some(now), request });
    }

    /// Lets a handler read content while it arrives. Without content, `bytes_max` is `None`.
    fn upload<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        stream: S,
        head: &RequestHead<'_>,
        bytes_max: Option<u64>,
        timeout: Option<Duration>,
        dispatch: &mut Dispatch<'_>,
    ) -> StreamOutcome {
        let request = StoredRequest::new(head);
        match dispatch.routes.upload(request, timeout, dispatch.client, dispatch.address) {
            Ok((expected, sender)) => {
                let expects_continue = http.expects_continue(stream);
                http.postpone(stream);
                self.run(stream, expected, StoredRequest::new(head), dispatch.now);
                match bytes_max {
                    Some(bytes_max) => {
                        http.stream_content(stream, bytes_max);
                        self.uploads.push(Upload { stream, sender, expects_continue, is_held: false });
                    }
                    None => sender.finish(),
                }
                StreamOutcome::Later
            }
            Err(refused) => {
                let (request, response, since) = dispatch.complete(*refused);
                self.respond(http, stream, &request.head(), response, since, dispatch)
            }
        }
    }

    /// Returns `true` if nothing should be read from this stream until the handler has read.
    pub(crate) fn is_held(&self, stream: S) -> bool {
        self.uploads.iter().any(|upload| upload.stream == stream && upload.keeps_content())
    }

    /// Returns the number of streams from which nothing should be read.
    pub(crate) fn held(&self) -> usize {
        self.uploads.iter().filter(|upload| upload.keeps_content()).count()
    }

    /// Passes on content that has arrived, and lets clients send as much as handlers want.
    ///
    /// While a client may send more, its own deadline counts, but not the handler's.
    #[cold]
    pub(crate) fn pass_content<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        now: Instant,
        output: &mut Output,
    ) -> PassedContent<S> {
        let mut passed = PassedContent { asked: Vec::new(), released: Vec::new(), unwanted: Vec::new() };
        let mut bytes = Vec::new();

        for index in (0..self.uploads.len()).rev() {
            let stream = self.uploads[index].stream;
            let arrival = http.take_content(stream, &mut bytes);
            let running = self.running.iter_mut().find(|running| running.stream == stream);
            let has_begun = running.is_none();
            let is_complete = has_begun
                && self.finished.iter().all(|(finished, _)| *finished != stream)
                && self.bodies.iter().all(|(open, _)| *open != stream);

            let upload = &mut self.uploads[index];
            if !bytes.is_empty() {
                // The client has not waited until it is asked.
                upload.expects_continue = false;
            }
            upload.sender.send_from(&mut bytes);
            let demand = match arrival {
                Arrival::Open if !is_complete => upload.sender.demand(upload.expects_continue),
                _ => ContentDemand::Ended,
            };
            let may_send = match demand {
                ContentDemand::More => true,
                ContentDemand::Unread => !upload.expects_continue,
                ContentDemand::Nothing | ContentDemand::Ended => false,
            };
            if let Some(running) = running
                && running.expected.awaited() == Awaited::Handler
            {
                running.waits_since = if may_send { None } else { running.waits_since.or(Some(now)) };
            }
            // After the final response, the client will not send content that it has held back.
            let is_late = upload.expects_continue && has_begun;

            if demand == ContentDemand::Ended || is_late {
                let Upload { sender, .. } = self.uploads.swap_remove(index);
                match arrival {
                    Arrival::Complete => sender.finish(),
                    Arrival::TooLong => sender.fail(ContentFailure::TooLong),
                    // The handler can tell that it is incomplete.
                    Arrival::Open | Arrival::Cancelled => drop(sender),
                }
                if matches!(arrival, Arrival::Open | Arrival::TooLong) {
                    // Until the response, the client is not late with content that its handler does not want.
                    http.hold_content(stream);
                    http.discard_content(stream);
                    passed.unwanted.push(stream);
                }
            } else if may_send {
                if std::mem::take(&mut upload.expects_continue) {
                    passed.asked.push(stream);
                }
                if std::mem::take(&mut upload.is_held) {
                    passed.released.push(stream);
                }
                http.permit_content(stream, now, output);
            } else {
                upload.is_held = true;
                http.hold_content(stream);
            }
        }
        passed
    }

    /// Takes output from a handler.
    pub(crate) fn deliver(&mut self, delivered: DeliveryContent) {
        if let DeliveryContent::Response(ticket, response, held) = delivered
            && let Some(index) = self.running.iter().position(|running| running.expected.is_for(ticket))
        {
            self.finished.push_back(self.running.swap_remove(index).finish(Ok(*response), Some(held)));
        }
    }

    /// Forgets requests that the client has cancelled. If their handlers have not started yet, they do not
    /// have to run any more.
    pub(crate) fn forget_cancelled<C: Multiplexed<StreamId = S>>(&mut self, http: &mut C) {
        self.running.retain(|running| http.is_postponed(running.stream));
    }

    /// Returns when we will give up on the next handler. `timeout` is for handlers without a limit of their own.
    pub(crate) fn next_deadline(&self, timeout: Duration) -> Option<Instant> {
        self.running.iter().filter_map(|running| running.deadline(timeout)).min()
    }

    /// Gives up on handlers that have been running for `timeout`, or for the limit of their own, and on threads for bodies.
    pub(crate) fn give_up(&mut self, now: Instant, timeout: Duration) {
        while let Some(index) = self.running.iter().position(|running| running.is_late(now, timeout)) {
            let running = self.running.swap_remove(index);
            let awaited = running.expected.awaited();
            self.finished.push_back(running.finish(Err(awaited), None));
        }
    }

    /// Writes the next response that a handler has delivered. Returns its stream.
    pub(crate) fn write_next<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        dispatch: &mut Dispatch<'_>,
    ) -> Option<S> {
        while let Some((stream, finished)) = self.finished.pop_front() {
            // The client might have cancelled the request in the meantime.
            if http.resume(stream) == Resumption::Ready {
                let (request, response, since) = dispatch.complete(*finished);
                let outcome = self.respond(http, stream, &request.head(), response, since, dispatch);
                if outcome == StreamOutcome::Answered {
                    return Some(stream);
                }
            }
        }
        None
    }

    fn respond<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        stream: S,
        head: &RequestHead<'_>,
        response: Response,
        since: Option<Instant>,
        dispatch: &mut Dispatch<'_>,
    ) -> StreamOutcome {
        let length_before = dispatch.output.length();
        let (response, body) =
            match dispatch.routes.prepare(response, head, dispatch.client, dispatch.address) {
                Prepared::Ready(response, body) => (response, body),
                Prepared::Later(expected) => {
                    http.postpone(stream);
                    let waits_since = Some(dispatch.now);
                    let since = since.unwrap_or(dispatch.now);
                    let request = StoredRequest::new(head);
                    self.running.push(Running { stream, expected, since, waits_since, request });
                    return StreamOutcome::Later;
                }
            };

        let output = &mut *dispatch.output;
        let content_bytes = match body {
            PreparedBody::Bytes(bytes) => {
                with_head(&response, Some(bytes.len()), dispatch.fields, |head| {
                    http.respond_with_head(stream, head, &bytes, output);
                });
                bytes.len()
            }
            PreparedBody::Stream(reader) => {
                let follows = with_head(&response, None, dispatch.fields, |head| {
                    http.begin_response(stream, head, output)
                });
                if follows == BodyFollows::Yes {
                    self.bodies.push((stream, reader));
                }
                0
            }
        };

        if dispatch.observer.records_requests() {
            let logged = LoggedResponse::Own {
                status: response.status(),
                content_bytes: if head.method_name == b"HEAD" { 0 } else { content_bytes as u64 },
            };
            let bytes = dispatch.output.length() - length_before;
            let peer = dispatch.client.peer;
            let handled = dispatch.routes.handled(&response, since, dispatch.now);
            dispatch.observer.request_answered(&LoggedRequest {
                handled,
                peer,
                tls: dispatch.tls,
                head,
                response: &logged,
                bytes,
            });
        }
        StreamOutcome::Answered
    }
}

#[cfg(test)]
mod tests {
    use cannery_routes::content_channel;

    use super::*;

    #[test]
    fn client_that_waits_to_be_asked_keeps_no_window() {
        let (sender, _content) = content_channel();
        let mut routes = StreamRoutes::default();
        routes.uploads.push(Upload { stream: 4, sender, expects_continue: true, is_held: true });
        assert_eq!((routes.held(), routes.is_held(4)), (0, false));
        routes.uploads[0].expects_continue = false;
        assert_eq!((routes.held(), routes.is_held(4)), (1, true));
    }
}
