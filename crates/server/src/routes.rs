//! Runs route handlers: matches requests, runs handlers on the worker or the pool, and delivers
//! their responses.
//!
//! ```text
//! request ──▶ handler on the worker ───────────────────────▶ response
//!         └─▶ pool ──▶ handler on a thread ──▶ mailbox ──▶ response
//! ```
//!
//! The encoding of the response is up to the HTTP/1, HTTP/2 or HTTP/3 connection.

mod body_threads;
mod encode;
pub(crate) mod limits;
mod pool;
mod streams;
mod watch;

use std::borrow::Cow;
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use cannery_eventloop::{Token, Waker};
use cannery_routes::{
    Body, BodyReader, HandlerError, HandlerResponse, HandlerThread, Lookup, Match, Parts, Response, Route,
    Routes, body_channel, is_utf8_path,
};
use cannery_site::{Method, Target};
use cannery_transport::quic::ConnectionKey;
use cannery_wire::{RequestHead, StoredRequest};

pub(crate) use encode::{BodyFraming, put_chunk, put_h1_head};
pub(crate) use pool::Pools;
pub(crate) use streams::{Dispatch, StreamOutcome, StreamRoutes};
pub(crate) use watch::Watchdog;

use crate::notice::Notice;
use pool::Job;
use watch::WatchedThread;

/// A worker's routes.
pub(crate) struct WorkerRoutes {
    routes: Arc<Routes>,
    pools: Pools,
    mailbox: Mailbox,
    deliveries: Receiver<Delivery>,
    last_ticket: Cell<u64>,
    watched: WatchedThread,
    /// Sends notices to the operator.
    notices: Sender<Notice>,
}

/// The way to treat a request.
pub(crate) enum Treatment<'a> {
    /// No route matches, so the site has to answer it.
    Site,
    /// Receive the content first, which may have up to this many bytes. Then run the handler.
    Receive { bytes_max: u32 },
    /// Run the handler now.
    Run(FoundRoute<'a>),
    /// Run the handler on a thread of the pool.
    Send,
    /// Send this response.
    Respond(Response),
}

/// A request's route.
pub(crate) struct FoundRoute<'a> {
    found: Match<'a, 'a, Route>,
    target: Target<'a>,
}

/// The client of a request, from a handler's perspective.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteClient {
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) is_tls: bool,
}

/// Identifies a request that will be answered later. It is unique within the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// Stands for a response that we expect from the pool. If it is dropped in time, the handler will never
/// run.
#[derive(Debug)]
pub(crate) struct Expectation {
    ticket: Ticket,
    _is_wanted: Arc<()>,
}

impl Expectation {
    /// Returns `true` if we expect the response to the request with this ticket.
    pub(crate) fn is_for(&self, ticket: Ticket) -> bool {
        self.ticket == ticket
    }
}

/// Identifies a connection of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ConnectionAddress {
    /// HTTP/1 or HTTP/2.
    Tcp(Token),
    /// HTTP/3.
    Quic(ConnectionKey),
}

/// Output of a handler, on its way to a connection.
pub(crate) struct Delivery {
    pub(crate) address: ConnectionAddress,
    pub(crate) content: DeliveryContent,
}

/// Content of a delivery.
pub(crate) enum DeliveryContent {
    /// The response to a request.
    Response(Ticket, Box<HandledRequest>),
    /// More bytes of a body have been written.
    MoreBody,
}

/// A request and its response. The latter is `None` if the handler took too long.
#[derive(Debug)]
pub(crate) struct HandledRequest {
    pub(crate) request: StoredRequest,
    pub(crate) response: Option<Response>,
}

/// Sends deliveries to a worker. Can be used from any thread.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: Sender<Delivery>,
    waker: Waker,
}

impl Mailbox {
    /// Sends a delivery, unless the worker has exited.
    fn deliver(&self, address: ConnectionAddress, content: DeliveryContent) {
        if self.sender.send(Delivery { address, content }).is_ok() {
            self.waker.wake();
        }
    }
}

impl WorkerRoutes {
    /// Creates the routes of a worker. `waker` should wake up that worker, while `watchdog` will look
    /// for handlers that do not return.
    pub(crate) fn new(
        routes: Arc<Routes>,
        pools: Pools,
        waker: Waker,
        notices: Sender<Notice>,
        watchdog: &mut Watchdog,
    ) -> WorkerRoutes {
        let (sender, deliveries) = channel();
        let watched = WatchedThread::default();
        watchdog.watch_worker(&watched);
        WorkerRoutes {
            routes,
            pools,
            mailbox: Mailbox { sender, waker },
            deliveries,
            last_ticket: Cell::new(0),
            watched,
            notices,
        }
    }

    pub(crate) fn next_delivery(&self) -> Option<Delivery> {
        self.deliveries.try_recv().ok()
    }

    /// Decides how to treat a request. `awaits_content` tells if the head may be followed by content.
    pub(crate) fn treat<'a>(
        &'a self,
        head: &RequestHead<'a>,
        awaits_content: bool,
        client: RouteClient,
    ) -> Treatment<'a> {
        let Some(target) = Target::parse(head.request.target) else { return Treatment::Site };
        let host = target.host(head.request.host);
        let found = match self.routes.find(head.method_name, host, target.path) {
            // Handlers get the path as `&str`, and a lossy conversion could slip past their checks.
            Lookup::Found(_) if !is_utf8_path(target.path) => {
                let error = HandlerError::new(400, "The path is not UTF-8.");
                return Treatment::Respond(self.refuse(head, client, &error));
            }
            Lookup::Found(found) => found,
            Lookup::Missing => return Treatment::Site,
            Lookup::OtherMethods(methods) => {
                return match head.request.method {
                    // The site might have a page for this path.
                    Method::Get | Method::Head => Treatment::Site,
                    Method::Options => Treatment::Respond(
                        Response::new(204).with_header("Allow", format!("{methods}, OPTIONS")),
                    ),
                    Method::Other | Method::Unknown => {
                        let message =
                            format!("The method {} is not allowed here.", head.method_name.escape_ascii());
                        let response = self.refuse(head, client, &HandlerError::new(405, message));
                        // This is required by RFC 9110 §15.5.6.
                        Treatment::Respond(with_field(response, "Allow", methods.to_string()))
                    }
                };
            }
        };

        // Content has no meaning in GET and HEAD requests (RFC 9110 §9.3.1, §9.3.2).
        let has_content = awaits_content && !matches!(head.request.method, Method::Get | Method::Head);
        match found.value.thread() {
            _ if has_content => Treatment::Receive { bytes_max: found.value.content_bytes_max() },
            HandlerThread::Worker => Treatment::Run(FoundRoute { found, target }),
            HandlerThread::Pool => Treatment::Send,
        }
    }

    /// Runs a request's handler on this thread.
    pub(crate) fn run(
        &self,
        route: &FoundRoute<'_>,
        head: &RequestHead<'_>,
        content: &[u8],
        client: RouteClient,
    ) -> Response {
        let parts = parts(head, Some(route.target), content, client);
        let made = self.watched.run(route.found.number, || self.routes.run(&route.found, parts));
        respond(made, &self.notices)
    }

    /// Submits a request to the pool. The response will be delivered unless no client expects it any more.
    ///
    /// # Errors
    /// Returns an error response if too many requests are waiting for the pool.
    pub(crate) fn send(
        &self,
        request: StoredRequest,
        client: RouteClient,
        address: ConnectionAddress,
    ) -> Result<Expectation, Box<HandledRequest>> {
        let ticket = Ticket(self.last_ticket.get() + 1);
        self.last_ticket.set(ticket.0);
        let is_wanted = Arc::new(());

        let job = Job::Answer {
            routes: Arc::clone(&self.routes),
            request,
            client,
            address,
            ticket,
            is_wanted: Arc::downgrade(&is_wanted),
            mailbox: self.mailbox.clone(),
            notices: self.notices.clone(),
        };

        match self.pools.handlers.submit(job) {
            // The pool checks this reference before it runs the handler.
            Ok(()) => Ok(Expectation { ticket, _is_wanted: is_wanted }),
            Err(refused) => match *refused {
                Job::Answer { request, .. } => {
                    let response = Some(self.busy(&request.head(), client));
                    Err(Box::new(HandledRequest { request, response }))
                }
                Job::Produce { .. } => unreachable!("the pool returns the job that it refuses"),
            },
        }
    }

    /// Prepares a response's body, which is either bytes or a source of bytes.
    ///
    /// If the body needs a thread but none is available, the response is replaced with an error.
    pub(crate) fn take_body(
        &self,
        response: &mut Response,
        head: &RequestHead<'_>,
        client: RouteClient,
        address: ConnectionAddress,
    ) -> PreparedBody {
        if let Some(body) = self.prepare_body(response, address) {
            return body;
        }
        *response = self.busy(head, client);
        self.prepare_body(response, address).unwrap_or_else(|| {
            // The error handler's body needs a thread as well.
            *response = retry_later(Response::new(503));
            PreparedBody::Bytes(Cow::Borrowed(b""))
        })
    }

    /// Takes the body of a response. Returns `None` if too many bodies are waiting for a thread.
    fn prepare_body(&self, response: &mut Response, address: ConnectionAddress) -> Option<PreparedBody> {
        let body = response.take_body();
        if encode::has_no_content(response.status()) {
            return Some(PreparedBody::Bytes(Cow::Borrowed(b"")));
        }
        let reader = match body {
            Body::Bytes(bytes) => return Some(PreparedBody::Bytes(bytes)),
            Body::Stream(reader) => reader,
            Body::Producer(produce) => {
                let (writer, reader) = body_channel();
                if !self.pools.produce(produce, writer, self.notices.clone()) {
                    return None;
                }
                reader
            }
        };
        let mailbox = self.mailbox.clone();
        reader.set_waker(Box::new(move || mailbox.deliver(address, DeliveryContent::MoreBody)));
        Some(PreparedBody::Stream(reader))
    }

    /// Returns the response to a request whose content is too long for its handler (RFC 9110 §15.5.14).
    pub(crate) fn content_too_long(&self, head: &RequestHead<'_>, client: RouteClient) -> Response {
        self.refuse(head, client, &HandlerError::new(413, "The content of the request is too long."))
    }

    /// Returns the response to a request with invalid content framing.
    pub(crate) fn content_invalid(&self, head: &RequestHead<'_>, client: RouteClient) -> Response {
        self.refuse(head, client, &HandlerError::new(400, "The content of the request is invalid."))
    }

    /// Returns the response to a request if the handler takes too long (RFC 9110 §15.6.4).
    pub(crate) fn too_slow(&self, head: &RequestHead<'_>, client: RouteClient) -> Response {
        let message = "The server takes too long to make this page. Try again later.";
        self.refuse(head, client, &HandlerError::new(503, message))
    }

    /// Returns the response to a request if too many are waiting for the pool.
    fn busy(&self, head: &RequestHead<'_>, client: RouteClient) -> Response {
        let error = HandlerError::new(503, "The server is busy. Try again in a few seconds.");
        retry_later(self.refuse(head, client, &error))
    }

    /// Returns an error response that is not a handler's.
    #[cold]
    fn refuse(&self, head: &RequestHead<'_>, client: RouteClient, error: &HandlerError) -> Response {
        self.routes.refuse(parts(head, Target::parse(head.request.target), b"", client), error)
    }
}

/// Tells the client when to try again.
fn retry_later(response: Response) -> Response {
    with_field(response, "Retry-After", "2".to_owned())
}

/// Adds a field, unless the error handler has set it.
fn with_field(response: Response, name: &'static str, value: String) -> Response {
    let is_set = response.fields().any(|(field, _)| field.eq_ignore_ascii_case(name));
    if is_set { response } else { response.with_header(name, value) }
}

/// A response body that is ready to be sent.
pub(crate) enum PreparedBody {
    Bytes(Cow<'static, [u8]>),
    Stream(BodyReader),
}

/// Finds the route of a stored request again, and runs the handler.
fn answer(
    routes: &Routes,
    request: &StoredRequest,
    client: RouteClient,
    watched: &WatchedThread,
    notices: &Sender<Notice>,
) -> Response {
    let head = request.head();
    let parts = parts(&head, Target::parse(head.request.target), request.content(), client);
    let made = match routes.find(parts.method, parts.host, parts.path) {
        Lookup::Found(found) => watched.run(found.number, || routes.run(&found, parts)),
        // Cannot happen because we found the route when the head arrived.
        Lookup::OtherMethods(_) | Lookup::Missing => routes.answer(parts),
    };
    respond(made, notices)
}

/// Returns the parts of a request that handlers get to see.
fn parts<'a>(
    head: &RequestHead<'a>,
    target: Option<Target<'a>>,
    content: &'a [u8],
    client: RouteClient,
) -> Parts<'a> {
    Parts {
        method: head.method_name,
        path: target.map_or(b"", |target| target.path),
        query: target.and_then(|target| target.query),
        host: target.and_then(|target| target.host(head.request.host)),
        version: head.version.name(),
        field_lines: head.field_lines,
        content,
        peer: client.peer,
        is_tls: client.is_tls,
    }
}

/// Returns the response. If it is an error that replaces the handler's own response, reports why.
fn respond(HandlerResponse { response, fault }: HandlerResponse, notices: &Sender<Notice>) -> Response {
    if let Some(why) = fault {
        // We can ignore an error here: the receiving thread may have stopped already.
        let _ = notices.send(Notice::HandlerFailed { why });
    }
    response
}
