//! Responses of handlers on the streams of HTTP/2 and HTTP/3.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cannery_routes::{BodyReader, Response};
use cannery_secure::Version;
use cannery_wire::{BodyFollows, Multiplexed, Output, RequestHead, Resumption, ServerFields, StoredRequest};

use super::encode::with_head;
use super::{
    ConnectionAddress, DeliveryContent, Expectation, HandledRequest, PreparedBody, RouteClient, Treatment,
    WorkerRoutes,
};
use crate::observe::{LoggedRequest, LoggedResponse, Observer};

/// Requests of a connection that handlers answer, and bodies that they write.
#[derive(Debug)]
pub(crate) struct StreamRoutes<S> {
    /// Requests with handlers that run on the pool.
    running: Vec<Running<S>>,
    /// Responses that are to be written.
    finished: VecDeque<(S, Box<HandledRequest>)>,
    /// Bodies that are being written.
    pub(crate) bodies: Vec<(S, BodyReader)>,
}

/// A request with a handler that runs on the pool.
#[derive(Debug)]
struct Running<S> {
    stream: S,
    expected: Expectation,
    since: Instant,
    /// The request without its content, for the response if the handler takes too long.
    request: StoredRequest,
}

/// Everything that the response of a handler depends on.
pub(crate) struct Dispatch<'a> {
    pub(crate) routes: &'a WorkerRoutes,
    pub(crate) address: ConnectionAddress,
    pub(crate) client: RouteClient,
    pub(crate) now: Instant,
    pub(crate) tls: Option<Version>,
    pub(crate) fields: &'a ServerFields,
    pub(crate) output: &'a mut Output,
    pub(crate) observer: &'a mut Observer,
}

impl Dispatch<'_> {
    /// Returns a request and the response to it: a 503 if its handler has taken too long.
    pub(crate) fn complete(&mut self, handled: HandledRequest) -> (StoredRequest, Response) {
        let HandledRequest { request, response } = handled;
        let response = response.unwrap_or_else(|| {
            self.observer.handler_timed_out();
            self.routes.too_slow(&request.head(), self.client)
        });
        (request, response)
    }
}

/// The outcome of routing a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamOutcome {
    /// It has no route, so the site answers it.
    Site,
    /// Its response is written, and its body may follow.
    Answered,
    /// Its response comes later.
    Later,
}

impl<S> Default for StreamRoutes<S> {
    fn default() -> StreamRoutes<S> {
        StreamRoutes { running: Vec::new(), finished: VecDeque::new(), bodies: Vec::new() }
    }
}

impl<S: Copy + PartialEq> StreamRoutes<S> {
    /// Returns `true` if it is worth keeping.
    pub(crate) fn is_used(&self) -> bool {
        !(self.running.is_empty() && self.finished.is_empty() && self.bodies.is_empty())
    }

    /// Handles a request after its head has arrived.
    pub(crate) fn begin<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        stream: S,
        head: &RequestHead<'_>,
        dispatch: &mut Dispatch<'_>,
    ) -> StreamOutcome {
        match dispatch.routes.treat(head, http.awaits_content(stream), dispatch.client) {
            Treatment::Site => StreamOutcome::Site,
            Treatment::Receive { bytes_max }
                if http.announced_content(stream).is_some_and(|bytes| bytes > bytes_max.into()) =>
            {
                let response = dispatch.routes.content_too_long(head, dispatch.client);
                self.respond(http, stream, head, response, dispatch);
                StreamOutcome::Answered
            }
            Treatment::Receive { bytes_max } => {
                http.receive_content(stream, StoredRequest::new(head), bytes_max as usize);
                StreamOutcome::Later
            }
            Treatment::Run(route) => {
                let response = dispatch.routes.run(&route, head, b"", dispatch.client);
                self.respond(http, stream, head, response, dispatch);
                StreamOutcome::Answered
            }
            Treatment::Send => self.send(http, stream, StoredRequest::new(head), dispatch),
            Treatment::Respond(response) => {
                self.respond(http, stream, head, response, dispatch);
                StreamOutcome::Answered
            }
        }
    }

    /// Handles a request after its content has arrived, or became too long.
    pub(crate) fn receive<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        stream: S,
        is_whole: bool,
        dispatch: &mut Dispatch<'_>,
    ) -> StreamOutcome {
        let Some(request) = http.take_received(stream) else { return StreamOutcome::Later };
        let head = request.head();
        let response = match dispatch.routes.treat(&head, false, dispatch.client) {
            _ if !is_whole => dispatch.routes.content_too_long(&head, dispatch.client),
            Treatment::Run(route) => dispatch.routes.run(&route, &head, request.content(), dispatch.client),
            Treatment::Respond(response) => response,
            // The route was found when the head arrived.
            Treatment::Send | Treatment::Receive { .. } | Treatment::Site => {
                return self.send(http, stream, request, dispatch);
            }
        };
        self.respond(http, stream, &head, response, dispatch);
        StreamOutcome::Answered
    }

    fn send<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        stream: S,
        request: StoredRequest,
        dispatch: &mut Dispatch<'_>,
    ) -> StreamOutcome {
        let copy = StoredRequest::new(&request.head());
        match dispatch.routes.send(request, dispatch.client, dispatch.address) {
            Ok(expected) => {
                http.postpone(stream);
                self.running.push(Running { stream, expected, since: dispatch.now, request: copy });
                StreamOutcome::Later
            }
            Err(refused) => {
                let (request, response) = dispatch.complete(*refused);
                self.respond(http, stream, &request.head(), response, dispatch);
                StreamOutcome::Answered
            }
        }
    }

    /// Takes what a handler has made.
    pub(crate) fn deliver(&mut self, delivered: DeliveryContent) {
        if let DeliveryContent::Response(ticket, finished) = delivered
            && let Some(index) = self.running.iter().position(|running| running.expected.is_for(ticket))
        {
            let running = self.running.swap_remove(index);
            self.finished.push_back((running.stream, finished));
        }
    }

    /// Gives up the requests that the client has cancelled, so that their handlers needn't run.
    pub(crate) fn forget_cancelled<C: Multiplexed<StreamId = S>>(&mut self, http: &mut C) {
        self.running.retain(|running| http.is_postponed(running.stream));
    }

    /// Returns when the handler was called that runs longest.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.running.iter().map(|running| running.since).min()
    }

    /// Responds instead of the handlers that have run for `timeout`.
    pub(crate) fn give_up(&mut self, now: Instant, timeout: Duration) {
        while let Some(index) = self.running.iter().position(|running| running.since + timeout <= now) {
            let Running { stream, request, .. } = self.running.swap_remove(index);
            self.finished.push_back((stream, Box::new(HandledRequest { request, response: None })));
        }
    }

    /// Writes the next of the responses that were delivered, and returns its stream.
    pub(crate) fn write_next<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        dispatch: &mut Dispatch<'_>,
    ) -> Option<S> {
        while let Some((stream, finished)) = self.finished.pop_front() {
            // The client may have cancelled it.
            if http.resume(stream) == Resumption::Ready {
                let (request, response) = dispatch.complete(*finished);
                self.respond(http, stream, &request.head(), response, dispatch);
                return Some(stream);
            }
        }
        None
    }

    fn respond<C: Multiplexed<StreamId = S>>(
        &mut self,
        http: &mut C,
        stream: S,
        head: &RequestHead<'_>,
        mut response: Response,
        dispatch: &mut Dispatch<'_>,
    ) {
        let length_before = dispatch.output.length();
        let body = dispatch.routes.take_body(&mut response, head, dispatch.client, dispatch.address);
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
            dispatch.observer.request_answered(&LoggedRequest {
                peer,
                tls: dispatch.tls,
                head,
                response: &logged,
                bytes,
            });
        }
    }
}
