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
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use cannery_eventloop::{Token, Waker};
use cannery_routes::{
    Body, BodyReader, Call, ContentReader, ContentSender, HandlerError, HandlerResponse, HandlerThread,
    HeldBytes, KeptBytes, Parts, Producer, Response, Routes, body_channel, content_channel, is_utf8_path,
};
use cannery_site::{Method, Target};
use cannery_transport::quic::ConnectionKey;
use cannery_wire::{RequestHead, StoredRequest};

pub(crate) use encode::{BodyFraming, put_chunk, put_h1_head};
pub(crate) use pool::Pools;
pub(crate) use streams::{Dispatch, StreamOutcome, StreamRoutes};
pub(crate) use watch::Watchdog;

use crate::content::AtPath;
use crate::notice::Notice;
use crate::observe::Handled;
use limits::{BODY_WAITS_MAX, KEPT_STEP_BYTES};
use pool::{Job, ProducedBody, Upload};
use watch::WatchedThread;

/// A worker's routes.
pub(crate) struct WorkerRoutes {
    routes: Arc<Routes>,
    pools: Pools,
    mailbox: Mailbox,
    deliveries: Receiver<Delivery>,
    /// Bytes that handlers may return on this thread until the connection's memory is counted again.
    room: Cell<u64>,
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
    Receive { bytes_max: u64 },
    /// Run the handler now.
    Run(FoundRoute<'a>),
    /// Run the handler on a thread of the pool. It may take this long, unless there is no limit of its own.
    Send { timeout: Option<Duration> },
    /// The same for a handler that reads the content while it arrives, which may have up to `bytes_max` bytes. `None` means that there is
    /// no content.
    Upload { bytes_max: Option<u64>, timeout: Option<Duration> },
    /// Send this response.
    Respond(Response),
}

/// A request's route.
pub(crate) struct FoundRoute<'a> {
    call: Call<'a, 'a>,
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

/// Stands for a response that we expect from a pool. If it is dropped in time, the handler or the body's function will never
/// run.
#[derive(Debug)]
pub(crate) struct Expectation {
    ticket: Ticket,
    awaited: Awaited,
    /// Time that this may take, unless a handler has no limit of its own.
    timeout: Option<Duration>,
    _is_wanted: Arc<()>,
}

/// The step before a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The handler, which is running on the pool or waiting for it.
    Handler,
    /// A thread that writes the body.
    BodyThread,
}

impl Expectation {
    /// Returns `true` if we expect the response to the request with this ticket.
    pub(crate) fn is_for(&self, ticket: Ticket) -> bool {
        self.ticket == ticket
    }

    pub(crate) fn awaited(&self) -> Awaited {
        self.awaited
    }

    /// Returns how long we wait for the response. `default` is for handlers without a limit of their own.
    pub(crate) fn timeout(&self, default: Duration) -> Duration {
        self.timeout.unwrap_or(default)
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
    /// The response to a request, which counts until it is sent.
    Response(Ticket, Box<Response>, HeldBytes),
    /// More bytes of a body have been written.
    MoreBody,
    /// A handler wants more content of its request, or none any more.
    ContentDemand,
}

/// A request and its response, or what we have given up waiting for.
#[derive(Debug)]
pub(crate) struct HandledRequest {
    pub(crate) request: StoredRequest,
    pub(crate) response: Result<Response, Awaited>,
    /// Counts the response while it is waiting for the connection. `None` if the server itself made it.
    pub(crate) held: Option<HeldBytes>,
    /// When it was sent to the pool. The connection fills this in.
    pub(crate) since: Option<Instant>,
}

impl HandledRequest {
    /// Returns the response bytes that count in [`WorkerRoutes::kept_bytes`].
    pub(crate) fn kept_bytes(&self) -> usize {
        let body = self.response.as_ref().map_or(0, Response::kept_body_bytes);
        self.held.as_ref().map_or(0, HeldBytes::bytes) + body
    }
}

/// Sends deliveries to a worker. Can be used from any thread.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: Sender<Delivery>,
    waker: Waker,
    /// Counts the response bytes that have not been taken by the worker's connections.
    kept: Arc<KeptBytes>,
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
        let kept = KeptBytes::new(KEPT_STEP_BYTES, {
            let waker = waker.clone();
            move || waker.wake()
        });
        WorkerRoutes {
            routes,
            pools,
            mailbox: Mailbox { sender, waker, kept },
            deliveries,
            room: Cell::new(u64::MAX),
            last_ticket: Cell::new(0),
            watched,
            notices,
        }
    }

    pub(crate) fn next_delivery(&self) -> Option<Delivery> {
        self.deliveries.try_recv().ok()
    }

    /// Returns the number of response bytes that handlers have written and that no connection has taken yet.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.mailbox.kept.get()
    }

    /// Sets the memory limit of all connections. Bodies should not take more than half of that outside of connections. Whole
    /// responses may take more, so that bodies don't keep other requests from being answered.
    pub(crate) fn set_memory_bytes_max(&self, bytes_max: u64) {
        let limit = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        self.mailbox.kept.set_limits(limit(bytes_max / 2), limit(bytes_max / 8 * 7));
    }

    /// Sets how many bytes handlers may return on this thread until the connection's memory is counted again. If memory `is_tight`,
    /// the pool refuses requests.
    #[inline]
    pub(crate) fn set_room(&self, bytes: u64, is_tight: bool) {
        self.room.set(bytes);
        self.mailbox.kept.set_tight(is_tight);
    }

    /// Returns `true` if the pool has refused a request for lack of memory since the last call.
    pub(crate) fn take_refused(&self) -> bool {
        self.mailbox.kept.take_refused()
    }

    /// Decides how to treat a request. `awaits_content` tells if the head may be followed by content.
    ///
    /// `at_path` should tell what the site has at the path of the request.
    pub(crate) fn treat<'a>(
        &'a self,
        head: &RequestHead<'a>,
        awaits_content: bool,
        client: RouteClient,
        at_path: impl FnOnce() -> AtPath,
    ) -> Treatment<'a> {
        let Some(target) = Target::parse(head.request.target) else { return Treatment::Site };
        let host = target.host(head.request.host);
        let Some(mut call) = self.routes.find(head.method_name, host, target.path) else {
            // The site answers all of its paths with 405, but a client that misspells a route should learn that there is none.
            if head.request.method == Method::Other && at_path() == AtPath::Nothing {
                let error = HandlerError::new(404, "There is no such page.");
                return Treatment::Respond(self.refuse(head, client, &error));
            }
            return Treatment::Site;
        };
        let is_reading = matches!(head.request.method, Method::Get | Method::Head);

        if call.yields_to_site() && at_path() == AtPath::Page {
            if is_reading {
                return Treatment::Site;
            }
            call.set_readable();
        }
        // Handlers get the path as `&str`, and a lossy conversion could slip past their checks.
        if !is_utf8_path(target.path) {
            let error = HandlerError::new(400, "The path is not UTF-8.");
            return Treatment::Respond(self.refuse(head, client, &error));
        }

        // Content has no meaning in GET and HEAD requests (RFC 9110 §9.3.1, §9.3.2).
        let has_content = awaits_content && !is_reading && call.has_handler();
        match call.thread() {
            HandlerThread::Upload => Treatment::Upload {
                bytes_max: has_content.then(|| call.content_bytes_max()),
                timeout: call.timeout(),
            },
            _ if has_content => Treatment::Receive { bytes_max: call.content_bytes_max() },
            HandlerThread::Worker => Treatment::Run(FoundRoute { call, target }),
            HandlerThread::Pool => Treatment::Send { timeout: call.timeout() },
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
        // A client can send many requests at once without opening a window for any response.
        if self.room.get() == 0 {
            return self.busy(head, client);
        }
        let parts = parts(head, Some(route.target), content, client);
        let made = self.watched.run(route.call.number(), || route.call.run(parts, None));
        let response = respond(made, &self.notices);
        self.room.set(self.room.get().saturating_sub(response.memory() as u64));
        response
    }

    /// Submits a request to the pool. The response will be delivered unless no client expects it any more.
    ///
    /// # Errors
    /// Returns an error response if too many requests are waiting for the pool.
    pub(crate) fn send(
        &self,
        request: StoredRequest,
        timeout: Option<Duration>,
        client: RouteClient,
        address: ConnectionAddress,
    ) -> Result<Expectation, Box<HandledRequest>> {
        self.submit(request, None, timeout, client, address)
    }

    /// Like [`send`](Self::send), for a handler that reads the content while it arrives. The connection is woken up when the demand
    /// for content changes.
    ///
    /// # Errors
    /// Returns an error response if too many requests are waiting for the pool.
    pub(crate) fn upload(
        &self,
        request: StoredRequest,
        timeout: Option<Duration>,
        client: RouteClient,
        address: ConnectionAddress,
    ) -> Result<(Expectation, ContentSender), Box<HandledRequest>> {
        let (sender, content) = content_channel();
        let mailbox = self.mailbox.clone();
        sender.set_waker(Box::new(move || mailbox.deliver(address, DeliveryContent::ContentDemand)));
        let uploads = self.pools.uploads.clone();
        let expected = self.submit(request, Some(Upload { content, uploads }), timeout, client, address)?;
        Ok((expected, sender))
    }

    fn submit(
        &self,
        request: StoredRequest,
        upload: Option<Upload>,
        timeout: Option<Duration>,
        client: RouteClient,
        address: ConnectionAddress,
    ) -> Result<Expectation, Box<HandledRequest>> {
        let ticket = self.next_ticket();
        let is_wanted = Arc::new(());

        let is_upload = upload.is_some();
        let job = Job::Answer {
            routes: Arc::clone(&self.routes),
            request,
            upload,
            client,
            address,
            ticket,
            is_wanted: Arc::downgrade(&is_wanted),
            mailbox: self.mailbox.clone(),
            notices: self.notices.clone(),
        };

        let submitted = if is_upload { self.pools.upload(job) } else { self.pools.handlers.submit(job) };
        match submitted {
            // The pool checks this reference before it runs the handler.
            Ok(()) => Ok(Expectation { ticket, awaited: Awaited::Handler, timeout, _is_wanted: is_wanted }),
            Err(refused) => match *refused {
                Job::Answer { request, .. } => {
                    let response = Ok(self.busy(&request.head(), client));
                    Err(Box::new(HandledRequest { request, response, held: None, since: None }))
                }
                Job::Produce { .. } => unreachable!("the pool returns the job that it refuses"),
            },
        }
    }

    fn next_ticket(&self) -> Ticket {
        let ticket = Ticket(self.last_ticket.get() + 1);
        self.last_ticket.set(ticket.0);
        ticket
    }

    /// Takes a response's body, which is either bytes or a source of bytes. If a function writes the body on a thread, the response
    /// will be delivered once there is one.
    ///
    /// If none will be available soon, the response is replaced with an error.
    pub(crate) fn prepare(
        &self,
        response: Response,
        head: &RequestHead<'_>,
        client: RouteClient,
        address: ConnectionAddress,
    ) -> Prepared {
        let is_head = head.request.method == Method::Head;
        if let Some(prepared) = self.prepare_body(response, is_head, address) {
            return prepared;
        }
        self.prepare_body(self.busy(head, client), is_head, address).unwrap_or_else(|| {
            // The error handler's body needs a thread as well.
            let response = Response::new(503).with_header("Retry-After", RETRY_AFTER);
            Prepared::Ready(response, PreparedBody::Bytes(Cow::Borrowed(b"")))
        })
    }

    /// Returns `None` if too many bodies are waiting for a thread, or have been waiting for too long.
    fn prepare_body(
        &self,
        mut response: Response,
        is_head: bool,
        address: ConnectionAddress,
    ) -> Option<Prepared> {
        let reader = match response.take_body() {
            Body::Bytes(bytes) => return Some(Prepared::Ready(response, PreparedBody::Bytes(bytes))),
            Body::Failed => return Some(Prepared::Ready(response, PreparedBody::Bytes(Cow::Borrowed(b"")))),
            Body::Stream(reader) => reader,
            // No client would receive what the function writes.
            Body::Producer(produce) if is_head => {
                discard(produce);
                body_channel().1
            }
            Body::Producer(produce) => return self.produce(response, produce, address).map(Prepared::Later),
        };
        if !is_head {
            reader.count_in(&self.mailbox.kept);
            let mailbox = self.mailbox.clone();
            reader.set_waker(Box::new(move || mailbox.deliver(address, DeliveryContent::MoreBody)));
        }
        Some(Prepared::Ready(response, PreparedBody::Stream(reader)))
    }

    /// Lets a thread write the body of a response. The client gets nothing before there is one, because it could get no error after
    /// the head.
    fn produce(
        &self,
        response: Response,
        produce: Producer,
        address: ConnectionAddress,
    ) -> Option<Expectation> {
        let (writer, reader) = body_channel();
        let ticket = self.next_ticket();
        let is_wanted = Arc::new(());

        let route = response.route().and_then(|number| self.routes.pattern(number)).unwrap_or_default();
        let route = route.to_owned();
        let response = Box::new(response.with_body(Body::Stream(reader)));
        let held = response.hold(&self.mailbox.kept);
        let mailbox = self.mailbox.clone();
        let body = ProducedBody {
            produce,
            writer,
            route,
            is_wanted: Arc::downgrade(&is_wanted),
            begin: Box::new(move || {
                mailbox.deliver(address, DeliveryContent::Response(ticket, response, held));
            }),
        };

        match self.pools.produce(body, self.notices.clone()) {
            Ok(()) => Some(Expectation {
                ticket,
                awaited: Awaited::BodyThread,
                timeout: Some(BODY_WAITS_MAX),
                _is_wanted: is_wanted,
            }),
            Err(refused) => {
                discard(refused);
                None
            }
        }
    }

    /// Returns what logs and metrics show about a response of a handler. `since` is when its request was sent to the pool, if it was.
    pub(crate) fn handled(&self, response: &Response, since: Option<Instant>, now: Instant) -> Handled<'_> {
        let route = response.route().and_then(|number| Some((number, self.routes.pattern(number)?)));
        let waited = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        Handled { route, waited }
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

    /// Returns the response to a request if too many are waiting for a thread, or if their responses take too much memory.
    #[cold]
    pub(crate) fn busy(&self, head: &RequestHead<'_>, client: RouteClient) -> Response {
        busy(&self.routes, head, client, &self.notices)
    }

    /// Returns an error response that is not a handler's.
    #[cold]
    fn refuse(&self, head: &RequestHead<'_>, client: RouteClient, error: &HandlerError) -> Response {
        refuse(&self.routes, head, client, error, &self.notices)
    }
}

/// Returns the response to a request if there are too many, or if their responses take too much memory.
fn busy(routes: &Routes, head: &RequestHead<'_>, client: RouteClient, notices: &Sender<Notice>) -> Response {
    let error = HandlerError::new(503, "The server is busy. Try again in a few seconds.");
    refuse(routes, head, client, &error.with_header("Retry-After", RETRY_AFTER), notices)
}

/// Returns an error response that is not a handler's.
fn refuse(
    routes: &Routes,
    head: &RequestHead<'_>,
    client: RouteClient,
    error: &HandlerError,
    notices: &Sender<Notice>,
) -> Response {
    let made = routes.refuse(parts(head, Target::parse(head.request.target), b"", client), error);
    respond(made, notices)
}

/// Tells clients when to try again, in seconds.
const RETRY_AFTER: &str = "2";

/// Memory of a body that is written while it is sent, in addition to its bytes.
pub(crate) const BODY_STATE_BYTES: usize = 512;

/// A response whose body was taken.
pub(crate) enum Prepared {
    /// The response can be sent.
    Ready(Response, PreparedBody),
    /// The response will be delivered.
    Later(Expectation),
}

/// A response body that is ready to be sent.
pub(crate) enum PreparedBody {
    Bytes(Cow<'static, [u8]>),
    Stream(BodyReader),
}

/// Drops a value of the program. Its destructor may panic, which must not end this thread.
fn discard<T>(value: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

/// Finds the route of a stored request again, and runs the handler.
fn answer(
    routes: &Routes,
    request: &StoredRequest,
    content: Option<ContentReader>,
    client: RouteClient,
    watched: &WatchedThread,
    notices: &Sender<Notice>,
) -> Response {
    let head = request.head();
    let parts = parts(&head, Target::parse(head.request.target), request.content(), client);
    let made = match routes.find(parts.method, parts.host, parts.path) {
        Some(call) => watched.run(call.number(), || call.run(parts, content)),
        // Cannot happen because we found the route when the head arrived.
        None => routes.refuse(parts, &HandlerError::new(404, "There is no such page.")),
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
fn respond(HandlerResponse { mut response, fault }: HandlerResponse, notices: &Sender<Notice>) -> Response {
    if let Some(error) = response.take_error() {
        discard(error);
    }
    if let Some(why) = fault {
        // We can ignore an error here: the receiving thread may have stopped already.
        let _ = notices.send(Notice::HandlerFailed { why });
    }
    response
}
