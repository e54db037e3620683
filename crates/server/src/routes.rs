//! Responses that handlers make: which requests have one, where it runs, and how its response comes back.
//!
//! ```text
//! request ──▶ handler on the worker ───────────────────────▶ response
//!         └─▶ pool ──▶ handler on a thread ──▶ mailbox ──▶ response
//! ```
//!
//! How a version of HTTP carries the response is a matter of its connections.

mod encode;
pub(crate) mod limits;
mod pool;
mod streams;

use std::borrow::Cow;
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use cannery_eventloop::{Token, Waker};
use cannery_routes::{
    Answered, Body, BodyReader, HandlerThread, Lookup, Match, Parts, Response, Route, Routes, body_channel,
};
use cannery_secure::quic::ConnectionKey;
use cannery_site::{Method, Target};
use cannery_wire::{RequestHead, StoredRequest};

pub(crate) use encode::{BodyFraming, put_chunk, put_h1_head};
pub(crate) use pool::Pools;
pub(crate) use streams::{Dispatch, StreamOutcome, StreamRoutes};

use crate::notice::Notice;
use pool::Job;

/// The routes of a worker.
pub(crate) struct WorkerRoutes {
    routes: Arc<Routes>,
    pools: Pools,
    mailbox: Mailbox,
    deliveries: Receiver<Delivery>,
    last_ticket: Cell<u64>,
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
pub(crate) struct Expected {
    ticket: Ticket,
    _is_wanted: Arc<()>,
}

impl Expected {
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
    pub(crate) content: Delivered,
}

/// The content of a delivery.
pub(crate) enum Delivered {
    /// The response to a request.
    Response(Ticket, Box<Finished>),
    /// A body has more bytes.
    MoreBody,
}

/// A request, and its response.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) request: StoredRequest,
    pub(crate) response: Response,
}

/// Takes deliveries to a worker, from any thread.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: Sender<Delivery>,
    waker: Waker,
}

impl Mailbox {
    /// Delivers, unless the worker has ended.
    fn deliver(&self, address: ConnectionAddress, content: Delivered) {
        if self.sender.send(Delivery { address, content }).is_ok() {
            self.waker.wake();
        }
    }
}

impl WorkerRoutes {
    /// Creates the routes of the worker that `waker` wakes up.
    pub(crate) fn new(
        routes: Arc<Routes>,
        pools: Pools,
        waker: Waker,
        notices: Sender<Notice>,
    ) -> WorkerRoutes {
        let (sender, deliveries) = channel();
        WorkerRoutes {
            routes,
            pools,
            mailbox: Mailbox { sender, waker },
            deliveries,
            last_ticket: Cell::new(0),
            notices,
        }
    }

    /// Returns the next delivery.
    pub(crate) fn next_delivery(&self) -> Option<Delivery> {
        self.deliveries.try_recv().ok()
    }

    /// Decides what is done with a request. Content may follow its head if it `awaits_content`.
    pub(crate) fn treat<'a>(&'a self, head: &RequestHead<'a>, awaits_content: bool) -> Treatment<'a> {
        let Some(target) = Target::parse(head.request.target) else { return Treatment::Site };
        let host = target.host(head.request.host);
        let found = match self.routes.find(head.method_name, host, target.path) {
            // Handlers see the path as text, and a check of it must see the whole.
            Lookup::Found(_) if str::from_utf8(target.path).is_err() => {
                let response = Response::text("The path is not UTF-8.\n").with_status(400);
                return Treatment::Respond(response);
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
                            format!("The method {} is not allowed here.\n", head.method_name.escape_ascii());
                        let response = Response::text(message).with_status(405);
                        Treatment::Respond(response.with_header("Allow", methods.to_string()))
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
        respond(self.routes.run(&route.found, parts), &self.notices)
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
    ) -> Result<Expected, Box<Finished>> {
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
            Ok(()) => Ok(Expected { ticket, _is_wanted: is_wanted }),
            Err(refused) => match *refused {
                Job::Answer { request, .. } => Err(Box::new(Finished { request, response: busy() })),
                Job::Produce { .. } => unreachable!("the pool returns the job that it refuses"),
            },
        }
    }

    /// Prepares the body of a response for a connection: bytes, or a source of bytes.
    pub(crate) fn take_body(&self, response: &mut Response, address: ConnectionAddress) -> PreparedBody {
        let body = response.take_body();
        if encode::has_no_content(response.status()) {
            return PreparedBody::Bytes(Cow::Borrowed(b""));
        }
        let reader = match body {
            Body::Bytes(bytes) => return PreparedBody::Bytes(bytes),
            Body::Stream(reader) => reader,
            Body::Producer(produce) => {
                let (writer, reader) = body_channel();
                let job = Job::Produce { produce, writer, notices: self.notices.clone() };
                if self.pools.producers.submit(job).is_err() {
                    *response = busy();
                    return self.take_body(response, address);
                }
                reader
            }
        };
        let mailbox = self.mailbox.clone();
        reader.set_waker(Box::new(move || mailbox.deliver(address, Delivered::MoreBody)));
        PreparedBody::Stream(reader)
    }
}

/// The body of a response, ready to be sent.
pub(crate) enum PreparedBody {
    Bytes(Cow<'static, [u8]>),
    Stream(BodyReader),
}

/// Returns the response to a request with too much content for its handler (RFC 9110 §15.5.14).
pub(crate) fn content_too_long() -> Response {
    Response::text("The content of the request is too long.\n").with_status(413)
}

/// Returns the response to a request if its handler takes too long (RFC 9110 §15.6.4).
pub(crate) fn too_slow() -> Response {
    Response::text("The server takes too long to make this page. Try again later.\n").with_status(503)
}

/// Returns the response if too many requests wait for the pool.
fn busy() -> Response {
    Response::text("The server is busy. Try again in a few seconds.\n")
        .with_status(503)
        .with_header("Retry-After", "2")
}

/// Finds the route of a request that was stored, and runs its handler.
fn answer(
    routes: &Routes,
    request: &StoredRequest,
    client: RouteClient,
    notices: &Sender<Notice>,
) -> Response {
    let head = request.head();
    let parts = parts(&head, Target::parse(head.request.target), request.content(), client);
    respond(routes.answer(parts), notices)
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
fn respond(Answered { response, fault }: Answered, notices: &Sender<Notice>) -> Response {
    if let Some(why) = fault {
        // The thread that receives notices may have stopped.
        let _ = notices.send(Notice::HandlerFailed { why });
    }
    response
}
