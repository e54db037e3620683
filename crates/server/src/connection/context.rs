//! State of a worker that its connections use in turn.
//!
//! Its parts change for different reasons: [`Policy`] never changes, [`Clock`] changes once per loop iteration,
//! [`CurrentRelease`] when a release is replaced; the connection that is being served changes the rest.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cannery_eventloop::{Now, Token};
use cannery_secure::quic::ConnectionKey;
use cannery_secure::{Context, Version};
use cannery_site::Scratch;
use cannery_wire::limits::HANDSHAKES_PER_ITERATION_MAX;
use cannery_wire::{HeadStore, KeptLines, Output, ServerFields};

use super::memory_budget::MemoryBudget;
use super::recv::IterationBudget;
use super::send_batch::SendBatch;
use super::transport::Buffers;
use crate::config::{LiveFolder, Timeouts};
use crate::content::Content;
use crate::observe::Observer;
use crate::reload::Current;
use crate::routes::{ConnectionAddress, Dispatch, RouteClient, WorkerRoutes};

/// How long an idle connection stays open during a graceful shutdown. A request that is on its way when the shutdown begins
/// gets its response, which announces the end of the connection.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// State of a worker that its connections use in turn.
pub(crate) struct WorkerContext {
    pub(crate) policy: Policy,
    pub(crate) clock: Clock,
    pub(crate) release: CurrentRelease,
    pub(super) responder: Responder,
    pub(super) buffers: Buffers,
    /// Responses that are sent together with those of other connections.
    pub(crate) batch: SendBatch,
    pub(crate) budget: IterationBudget,
    pub(crate) memory: MemoryBudget,
    pub(crate) observer: Observer,
    /// The routes of the server, if it has any.
    pub(crate) routes: Option<Box<WorkerRoutes>>,
    /// The TCP connection that is being served, or was served last.
    pub(crate) current: Option<Token>,
}

/// Settings of a worker, which never change.
pub(crate) struct Policy {
    pub(crate) timeouts: Option<Timeouts>,
    /// Whether connections begin with HTTP/1, unless ALPN has negotiated another protocol.
    pub(crate) has_http1: bool,
    /// Whether HTTP/2 without TLS is accepted, with prior knowledge (RFC 9113 §3.3).
    pub(crate) has_http2: bool,
    /// Whether each connection begins with a PROXY header.
    pub(crate) expects_proxy_header: bool,
    /// The port of `https` to which requests without TLS are redirected, if they are.
    pub(crate) https_port: Option<u16>,
    /// The folder that the content is made from, if it is edited meanwhile.
    pub(crate) live_folder: Option<LiveFolder>,
    /// Makes the TLS sessions of connections.
    pub(crate) tls: Option<Context>,
    /// Bytes that a connection may receive and send in one loop iteration.
    pub(crate) iteration_bytes_max: u64,
    /// The memory that all connections together may take, in bytes.
    pub(crate) memory_bytes_max: u64,
}

/// The time of a loop iteration.
pub(crate) struct Clock {
    pub(crate) now: Instant,
    /// The same in seconds since 1970.
    unix_seconds: u64,
    /// The idle deadline of a connection that becomes idle now.
    pub(crate) idle_until: Option<Instant>,
    /// When a graceful shutdown began, if one is under way: each connection closes after its next response.
    draining_since: Option<Instant>,
}

/// The release that is served.
pub(crate) struct CurrentRelease {
    pub(crate) content: Arc<Content>,
    pub(crate) since: Instant,
    /// The newest release.
    newest: Arc<Current>,
}

/// Buffers and fields for processing a request and writing its response.
pub(super) struct Responder {
    pub(super) fields: Fields,
    pub(super) scratch: Scratch,
    /// Request heads of HTTP/2 and HTTP/3.
    pub(super) heads: HeadStore,
    pub(super) output: Output,
}

impl WorkerContext {
    pub(crate) fn new(
        policy: Policy,
        now: Now,
        newest: Arc<Current>,
        fields: &AddedFields,
        observer: Observer,
    ) -> WorkerContext {
        let mut context = WorkerContext {
            clock: Clock {
                now: now.instant,
                unix_seconds: now.unix_seconds,
                idle_until: None,
                draining_since: None,
            },
            release: CurrentRelease { content: newest.get(), since: now.instant, newest },
            responder: Responder {
                fields: Fields::new(fields, now.unix_seconds),
                scratch: Scratch::default(),
                heads: HeadStore::new(),
                output: Output::new(),
            },
            buffers: Buffers::new(),
            batch: SendBatch::new(),
            budget: IterationBudget {
                bytes: policy.iteration_bytes_max,
                handshakes: HANDSHAKES_PER_ITERATION_MAX,
            },
            memory: MemoryBudget::new(policy.memory_bytes_max),
            observer,
            routes: None,
            current: None,
            policy,
        };

        context.set_kept_lines();
        context.begin_iteration(now);
        context.set_unix_seconds(now.unix_seconds);
        context
    }

    /// Serves the newest release from now on. The batch must be empty, because it refers to archives of the current release.
    pub(crate) fn adopt_release(&mut self) {
        debug_assert!(self.batch.is_empty());
        let content = self.release.newest.get();
        if !Arc::ptr_eq(&content, &self.release.content) {
            self.release.content = content;
            self.release.since = self.clock.now;
        }
    }

    /// Serves the changes of a folder that is edited. Called after requests were received and before they are processed, so that
    /// the responses have every change from before the requests.
    #[cold]
    pub(crate) fn refresh_folder(&mut self) {
        if let Some(folder) = &self.policy.live_folder {
            folder.0.refresh();
            self.adopt_release();
        }
    }

    /// Keeps the field lines of requests that handlers or live reload need.
    fn set_kept_lines(&mut self) {
        if self.routes.is_some() || self.policy.live_folder.is_some() {
            self.responder.heads.keep_lines(KeptLines::All);
        }
    }

    /// Lets handlers answer requests.
    pub(crate) fn set_routes(&mut self, routes: WorkerRoutes) {
        self.routes = Some(Box::new(routes));
        self.set_kept_lines();
    }

    /// Sets the time of this loop iteration. Dates change once a second.
    #[inline]
    pub(crate) fn begin_iteration(&mut self, now: Now) {
        self.clock.now = now.instant;
        self.observer.begin_iteration(now.instant);
        let idle = if self.is_draining() {
            Some(DRAIN_GRACE)
        } else {
            self.policy.timeouts.map(|timeouts| timeouts.idle)
        };
        self.clock.idle_until = idle.map(|idle| now.instant + idle);
        if now.unix_seconds != self.clock.unix_seconds {
            self.set_unix_seconds(now.unix_seconds);
        }
    }

    /// Sets the time of everything that writes or compares dates.
    #[cold]
    fn set_unix_seconds(&mut self, seconds: u64) {
        self.clock.unix_seconds = seconds;
        self.responder.fields.set_time(seconds);
        self.responder.scratch.set_now(seconds);
        self.responder.heads.set_now(seconds);
        self.observer.set_time(seconds);
    }

    /// Gives the next connection its budget of this loop iteration.
    #[inline]
    pub(super) fn renew_byte_budget(&mut self) {
        self.budget.bytes = self.policy.iteration_bytes_max;
    }

    /// Returns `true` while a graceful shutdown is under way.
    pub(crate) fn is_draining(&self) -> bool {
        self.clock.draining_since.is_some()
    }

    /// Returns `true` if a graceful shutdown began long enough ago that every client must know of it.
    pub(crate) fn is_drain_known(&self) -> bool {
        self.clock.draining_since.is_some_and(|since| self.clock.now >= since + DRAIN_GRACE)
    }

    /// Returns everything that an HTTP/3 request needs for its response.
    pub(crate) fn http3(&mut self) -> Http3Context<'_> {
        let Responder { fields, scratch, heads, output } = &mut self.responder;
        Http3Context {
            content: &self.release.content,
            fields: &fields.http3,
            scratch,
            heads,
            output,
            observer: &mut self.observer,
            routes: self.routes.as_deref(),
            now: self.clock.now,
        }
    }

    /// Begins a graceful shutdown: idle connections stay open for [`DRAIN_GRACE`].
    pub(crate) fn begin_drain(&mut self) {
        self.clock.draining_since = Some(self.clock.now);
        self.clock.idle_until = Some(self.clock.now + DRAIN_GRACE);
    }

    /// Removes everything that a connection has left here when it panicked.
    #[cold]
    pub(crate) fn recover(&mut self) {
        self.responder.output.clear();
        self.responder.heads = HeadStore::new();
        self.set_kept_lines();
        self.responder.heads.set_now(self.clock.unix_seconds);
        self.batch.drop_incomplete();
        self.buffers = Buffers::new();
    }
}

/// Everything that an HTTP/3 request needs for its response.
pub(crate) struct Http3Context<'a> {
    pub(crate) content: &'a Arc<Content>,
    pub(crate) fields: &'a ServerFields,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) heads: &'a mut HeadStore,
    pub(crate) output: &'a mut Output,
    pub(crate) observer: &'a mut Observer,
    pub(crate) routes: Option<&'a WorkerRoutes>,
    pub(crate) now: Instant,
}

impl<'a> Http3Context<'a> {
    /// Returns what a response of a handler needs, if the server has handlers.
    pub(crate) fn dispatch(self, key: ConnectionKey, client: &Option<SocketAddr>) -> Option<Dispatch<'a>> {
        self.heads_and_dispatch(key, client).1
    }

    /// Returns the heads of requests, and what a response of a handler needs, if the server has handlers.
    pub(crate) fn heads_and_dispatch(
        self,
        key: ConnectionKey,
        client: &Option<SocketAddr>,
    ) -> (&'a HeadStore, Option<Dispatch<'a>>) {
        let Http3Context { fields, heads, output, observer, routes, now, .. } = self;
        let dispatch = routes.map(|routes| Dispatch {
            routes,
            address: ConnectionAddress::Quic(key),
            client: RouteClient { peer: *client, is_secured: true },
            now,
            tls: Some(Version::Tls13),
            fields,
            output,
            observer,
        });
        (heads, dispatch)
    }
}

/// The last fields of every response head.
pub(super) struct Fields {
    plain: ServerFields,
    tls: ServerFields,
    http3: ServerFields,
}

/// The fields that the server adds to every response: names and values.
#[derive(Debug, Clone)]
pub(crate) struct AddedFields {
    /// Without TLS.
    pub(crate) plain: Vec<(&'static str, &'static str)>,
    /// With TLS.
    pub(crate) tls: Vec<(&'static str, &'static str)>,
    /// The value of `Alt-Svc` on connections of HTTP/1 and HTTP/2 with TLS (RFC 7838), if HTTP/3 is served.
    pub(crate) alt_svc: Option<String>,
    /// Whether clients may cache permanent redirects.
    pub(crate) keeps_redirects: bool,
}

impl Fields {
    /// Returns the fields at a time in seconds since 1970.
    fn new(added: &AddedFields, seconds: u64) -> Fields {
        let mut tls: Vec<(&str, &str)> = added.tls.clone();
        if let Some(alt_svc) = &added.alt_svc {
            tls.push(("Alt-Svc", alt_svc));
        }
        let [plain, tls, http3] = [&added.plain, &tls, &added.tls]
            .map(|fields| ServerFields::new(fields, seconds).with_kept_redirects(added.keeps_redirects));
        Fields { plain, tls, http3 }
    }

    fn set_time(&mut self, seconds: u64) {
        self.plain.set_time(seconds);
        self.tls.set_time(seconds);
        self.http3.set_time(seconds);
    }

    /// Returns the fields for a connection with or without TLS.
    #[inline]
    pub(super) fn for_connection(&self, has_tls: bool) -> &ServerFields {
        if has_tls { &self.tls } else { &self.plain }
    }
}
