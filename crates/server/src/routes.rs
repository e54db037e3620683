//! Responses that handlers make: which requests have one, where it runs, and how its response comes back.
//!
//! ```text
//! request ──▶ handler on the worker ───────────────────────▶ response
//!         └─▶ pool ──▶ handler on a thread ──▶ mailbox ──▶ response
//! ```
//!
//! How a version of HTTP carries the response is a matter of its connections.

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
    Body, BodyReader, Error, HandlerResponse, HandlerThread, Lookup, Match, Parts, Response, Route, Routes,
    body_channel, is_utf8_path,
};
use cannery_secure::quic::ConnectionKey;
use cannery_site::{Method, Target};
use cannery_wire::{RequestHead, StoredRequest};

pub(crate) use encode::{BodyFraming, put_chunk, put_h1_head};
pub(crate) use pool::Pools;
pub(crate) use streams::{Dispatch, StreamOutcome, StreamRoutes};
pub(crate) use watch::Watchdog;

use crate::notice::Notice;
use pool::Job;
use watch::WatchedThread;

/// The routes of a worker.
pub(crate) struct WorkerRoutes {
    routes: Arc<Routes>,
    pools: Pools,
    mailbox: Mailbox,
    deliveries: Receiver<Delivery>,
    last_ticket: Cell<u64>,
    watched: WatchedThread,
    /// Receives notices to the operator.
    notices: Sender<Notice>,
}

/// The treatment of a request.
pub(crate) enum Treatment<'a> {
    /// It has no route, so the site answers it.
    Site,
    /// Its handler runs when its content of at most this many bytes has arrived.
    Receive { bytes_max: u32 },
    /// Its handler runs now.
    Run(FoundRoute<'a>),
    /// Its handler runs on a thread of the pool.
    Send,
    /// It has this response.
    Respond(Response),
}

/// The route of a request.
pub(crate) struct FoundRoute<'a> {
    found: Match<'a, 'a, Route>,
    target: Target<'a>,
}

/// The client of a request, as its handler sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteClient {
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) is_secured: bool,
}

/// Refers to a request that is answered later. No other request of the worker has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The expectation of a response from the pool. If it is dropped before the handler runs, the handler doesn't run.
#[derive(Debug)]
pub(crate) struct Expectation {
    ticket: Ticket,
    _is_wanted: Arc<()>,
}

impl Expectation {
    /// Returns `true` if the response to the request with this ticket is expected.
    pub(crate) fn is_for(&self, ticket: Ticket) -> bool {
        self.ticket == ticket
    }
}

/// A connection of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ConnectionAddress {
    /// Of HTTP/1 or HTTP/2.
    Tcp(Token),
    /// Of HTTP/3.
    Quic(ConnectionKey),
}

/// A response, or a part of one, that a handler has made for a connection.
pub(crate) struct Delivery {
    pub(crate) address: ConnectionAddress,
    pub(crate) content: DeliveryContent,
}

/// The content of a delivery.
pub(crate) enum DeliveryContent {
    /// The response to a request.
    Response(Ticket, Box<HandledRequest>),
    /// A body has more bytes.
    MoreBody,
}

/// A request, and its response, or `None` if its handler has taken too long.
#[derive(Debug)]
pub(crate) struct HandledRequest {
    pub(crate) request: StoredRequest,
    pub(crate) response: Option<Response>,
}

/// Takes deliveries to a worker, from any thread.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: Sender<Delivery>,
    waker: Waker,
}

impl Mailbox {
    /// Delivers, unless the worker has ended.
    fn deliver(&self, address: ConnectionAddress, content: DeliveryContent) {
        if self.sender.send(Delivery { address, content }).is_ok() {
            self.waker.wake();
        }
    }
}

impl WorkerRoutes {
    /// Creates the routes of the worker that `waker` wakes up. `watchdog` notices handlers that don't return.
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

    /// Returns the next delivery.
    pub(crate) fn next_delivery(&self) -> Option<Delivery> {
        self.deliveries.try_recv().ok()
    }

    /// Decides what is done with a request. Content may follow its head if it `awaits_content`.
    pub(crate) fn treat<'a>(
        &'a self,
        head: &RequestHead<'a>,
        awaits_content: bool,
        client: RouteClient,
    ) -> Treatment<'a> {
        let Some(target) = Target::parse(head.request.target) else { return Treatment::Site };
        let host = target.host(head.request.host);
        let found = match self.routes.find(head.method_name, host, target.path) {
            // Handlers see the path as text, and a check of it must see the whole.
            Lookup::Found(_) if !is_utf8_path(target.path) => {
                let error = Error::new(400, "The path is not UTF-8.");
                return Treatment::Respond(self.refuse(head, client, &error));
            }
            Lookup::Found(found) => found,
            Lookup::Missing => return Treatment::Site,
            Lookup::OtherMethods(methods) => {
                return match head.request.method {
                    // The site may have a page at this path.
                    Method::Get | Method::Head => Treatment::Site,
                    Method::Options => Treatment::Respond(
                        Response::new(204).with_header("Allow", format!("{methods}, OPTIONS")),
                    ),
                    Method::Other | Method::Unknown => {
                        let message =
                            format!("The method {} is not allowed here.", head.method_name.escape_ascii());
                        let response = self.refuse(head, client, &Error::new(405, message));
                        // RFC 9110 §15.5.6 requires it.
                        Treatment::Respond(with_field(response, "Allow", methods.to_string()))
                    }
                };
            }
        };
        // RFC 9110 §9.3.1, §9.3.2: content of these has no meaning.
        let has_content = awaits_content && !matches!(head.request.method, Method::Get | Method::Head);
        match found.value.thread() {
            _ if has_content => Treatment::Receive { bytes_max: found.value.content_bytes_max() },
            HandlerThread::Worker => Treatment::Run(FoundRoute { found, target }),
            HandlerThread::Pool => Treatment::Send,
        }
    }

    /// Runs the handler of a request on this thread.
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

    /// Has the pool run the handler of a request. Its response is delivered, unless it is no longer expected.
    ///
    /// # Errors
    /// Too many requests wait for the pool: returns the response to the request.
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

    /// Prepares the body of the response to a request for a connection: bytes, or a source of bytes. The response becomes another one
    /// if no thread can write its body.
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
            // The body of the error handler needs a thread, too.
            *response = retry_later(Response::new(503));
            PreparedBody::Bytes(Cow::Borrowed(b""))
        })
    }

    /// Takes the body of a response, or returns `None` if too many bodies wait for a thread.
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

    /// Returns the response to a request with too much content for its handler (RFC 9110 §15.5.14).
    pub(crate) fn content_too_long(&self, head: &RequestHead<'_>, client: RouteClient) -> Response {
        self.refuse(head, client, &Error::new(413, "The content of the request is too long."))
    }

    /// Returns the response to a request with an invalid framing of its content.
    pub(crate) fn content_invalid(&self, head: &RequestHead<'_>, client: RouteClient) -> Response {
        self.refuse(head, client, &Error::new(400, "The content of the request is invalid."))
    }

    /// Returns the response to a request if its handler takes too long (RFC 9110 §15.6.4).
    pub(crate) fn too_slow(&self, head: &RequestHead<'_>, client: RouteClient) -> Response {
        let message = "The server takes too long to make this page. Try again later.";
        self.refuse(head, client, &Error::new(503, message))
    }

    /// Returns the response if too many requests wait for the pool.
    fn busy(&self, head: &RequestHead<'_>, client: RouteClient) -> Response {
        let error = Error::new(503, "The server is busy. Try again in a few seconds.");
        retry_later(self.refuse(head, client, &error))
    }

    /// Returns the response for an error that no handler has made.
    #[cold]
    fn refuse(&self, head: &RequestHead<'_>, client: RouteClient, error: &Error) -> Response {
        self.routes.refuse(parts(head, Target::parse(head.request.target), b"", client), error)
    }
}

/// Adds the time after which a client may try again.
fn retry_later(response: Response) -> Response {
    with_field(response, "Retry-After", "2".to_owned())
}

/// Adds a field, unless the error handler has set it.
fn with_field(response: Response, name: &'static str, value: String) -> Response {
    let is_set = response.fields().any(|(field, _)| field.eq_ignore_ascii_case(name));
    if is_set { response } else { response.with_header(name, value) }
}

/// The body of a response, ready to be sent.
pub(crate) enum PreparedBody {
    Bytes(Cow<'static, [u8]>),
    Stream(BodyReader),
}

/// Finds the route of a request that was stored, and runs its handler.
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
        // The route was found when the head arrived.
        Lookup::OtherMethods(_) | Lookup::Missing => routes.answer(parts),
    };
    respond(made, notices)
}

/// Returns the parts of a request for its handler.
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
        is_secured: client.is_secured,
    }
}

/// Returns the response, and reports why it is not the one that the handler should have made.
fn respond(HandlerResponse { response, fault }: HandlerResponse, notices: &Sender<Notice>) -> Response {
    if let Some(why) = fault {
        // The thread that receives notices may have stopped.
        let _ = notices.send(Notice::HandlerFailed { why });
    }
    response
}
