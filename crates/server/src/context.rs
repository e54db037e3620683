//! Worker state that is used by one connection at a time.
//!
//! The parts change at different times: [`Policy`] never does, [`Clock`] changes once per iteration, and
//! [`CurrentRelease`] whenever a release is replaced. Everything else is changed by whichever connection is
//! being served.

// Buffers and batches that connections fill one after the other.
mod buffers;
mod send_batch;

// Live reload.
mod live_hook;

// Limits.
mod iteration_budget;
mod memory_budget;

pub(crate) use buffers::{Buffers, RECEIVE_BYTES, ReceivedBuffer, TlsBuffers};
pub(crate) use iteration_budget::IterationBudget;
pub(crate) use live_hook::{LiveHook, Renewal};
pub(crate) use memory_budget::{ConnectionMemory, MemoryBudget, MemoryLimits, ShedGoal};
pub(crate) use send_batch::{Body, SendBatch};

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cannery_eventloop::{Now, Token};
use cannery_site::Scratch;
use cannery_transport::{Context, Version};
use cannery_wire::limits::HANDSHAKES_PER_ITERATION_MAX;
use cannery_wire::{HeadStore, KeptLines, Output, ServerFields};

use crate::config::Timeouts;
use crate::content::{Content, Current, Mark};
use crate::observe::Observer;
use crate::routes::{ConnectionAddress, Dispatch, RouteClient, WorkerRoutes};

/// During a graceful shutdown, idle connections stay open for this long. This way, we can still respond to a
/// client that sent a request just before the shutdown, and the response will announce the end of the
/// connection.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Worker state that is used by one connection at a time.
pub(crate) struct WorkerContext {
    pub(crate) policy: Policy,
    pub(crate) clock: Clock,
    pub(crate) release: CurrentRelease,
    pub(crate) responder: Responder,
    pub(crate) buffers: Buffers,
    /// Small responses that are sent together with those of other connections.
    pub(crate) batch: SendBatch,
    pub(crate) budget: IterationBudget,
    pub(crate) memory: MemoryBudget,
    pub(crate) observer: Observer,
    /// `None` if the server has no routes.
    pub(crate) routes: Option<Box<WorkerRoutes>>,
    /// TCP connection that is being served, or was served last.
    pub(crate) current: Option<Token>,
}

/// Settings that never change.
pub(crate) struct Policy {
    pub(crate) timeouts: Option<Timeouts>,
    /// Whether connections start with HTTP/1 unless ALPN says otherwise.
    pub(crate) has_http1: bool,
    /// Whether we accept HTTP/2 with prior knowledge on connections without TLS (RFC 9113 §3.3).
    pub(crate) has_http2: bool,
    /// Whether each connection must start with a PROXY header.
    pub(crate) expects_proxy_header: bool,
    /// The `https` port that we redirect requests without TLS to, if we do.
    pub(crate) https_port: Option<u16>,
    pub(crate) live: LiveHook,
    /// Whether sites may be previews with a password.
    pub(crate) has_previews: bool,
    /// Creates TLS sessions.
    pub(crate) tls: Option<Context>,
    /// Maximum number of bytes that a connection may receive and send per iteration.
    pub(crate) iteration_bytes_max: u64,
    /// Memory limit, in bytes, for all connections together.
    pub(crate) memory_bytes_max: u64,
}

/// Time of the current iteration.
pub(crate) struct Clock {
    pub(crate) now: Instant,
    /// `now` as Unix time.
    unix_seconds: u64,
    /// Idle deadline for connections that become idle in this iteration.
    pub(crate) idle_until: Option<Instant>,
    /// When the graceful shutdown began. During a shutdown, each connection closes after its next response.
    draining_since: Option<Instant>,
}

/// The release being served.
pub(crate) struct CurrentRelease {
    pub(crate) content: Arc<Content>,
    pub(crate) since: Instant,
    /// Tells the housekeeper that we respond from this content.
    mark: Mark,
    /// Where to find the newest release.
    newest: Arc<Current>,
}

/// Buffers and header fields used to process a request and write the response.
pub(crate) struct Responder {
    pub(crate) fields: Fields,
    pub(crate) scratch: Scratch,
    /// Request heads, for HTTP/2 and HTTP/3.
    pub(crate) heads: HeadStore,
    pub(crate) output: Output,
}

impl WorkerContext {
    pub(crate) fn new(
        policy: Policy,
        now: Now,
        newest: Arc<Current>,
        fields: &AddedFields,
        observer: Observer,
    ) -> WorkerContext {
        let (content, mark) = newest.adopt();
        let mut context = WorkerContext {
            clock: Clock {
                now: now.instant,
                unix_seconds: now.unix_seconds,
                idle_until: None,
                draining_since: None,
            },
            release: CurrentRelease { content, since: now.instant, mark, newest },
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

    /// Switches to the newest release. The batch must be empty at this point since it refers to archives of
    /// the current release.
    pub(crate) fn adopt_release(&mut self) {
        debug_assert!(self.batch.is_empty());
        let (content, mark) = self.release.newest.adopt();
        if !Arc::ptr_eq(&content, &self.release.content) {
            self.release.content = content;
            self.release.since = self.clock.now;
        }
        self.release.mark = mark;
    }

    /// Waits until recent changes of an edited folder are served.
    ///
    /// This must be called after receiving requests but before processing them. The responses will then contain every
    /// change that was made before the request.
    #[inline]
    pub(crate) fn before_requests(&mut self) -> Renewal {
        if !self.policy.live.is_active() {
            return Renewal::Impossible;
        }
        self.renew_release();
        Renewal::Possible
    }

    #[cold]
    fn renew_release(&mut self) {
        self.policy.live.await_changes();
        self.adopt_release();
    }

    /// Tells the head store to keep field lines in case handlers, live reload or previews will want to see
    /// them.
    fn set_kept_lines(&mut self) {
        if self.routes.is_some() || self.policy.live.is_active() || self.policy.has_previews {
            self.responder.heads.keep_lines(KeptLines::All);
        }
    }

    /// Lets handlers respond to requests.
    pub(crate) fn set_routes(&mut self, routes: WorkerRoutes) {
        routes.set_memory_bytes_max(self.policy.memory_bytes_max);
        self.routes = Some(Box::new(routes));
        self.set_kept_lines();
    }

    /// Updates the time. Dates only change once a second.
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

    /// Updates everything that writes or compares dates.
    #[cold]
    fn set_unix_seconds(&mut self, seconds: u64) {
        self.clock.unix_seconds = seconds;
        self.responder.fields.set_time(seconds);
        self.responder.scratch.set_now(seconds);
        self.responder.heads.set_now(seconds);
        self.observer.set_time(seconds);
    }

    /// Updates the number of response bytes that handlers have written and that connections have not taken.
    #[inline]
    pub(crate) fn count_handled(&mut self) {
        if let Some(routes) = &self.routes {
            self.memory.set_handled(routes.kept_bytes());
            routes.set_room(self.memory.room(), self.memory.is_tight());
        }
    }

    /// Gives the next connection its byte budget.
    #[inline]
    pub(crate) fn renew_byte_budget(&mut self) {
        self.budget.bytes = self.policy.iteration_bytes_max;
    }

    /// Returns `true` during a graceful shutdown.
    pub(crate) fn is_draining(&self) -> bool {
        self.clock.draining_since.is_some()
    }

    /// Returns `true` if a graceful shutdown has been going on for long enough that all clients know.
    pub(crate) fn is_drain_known(&self) -> bool {
        self.clock.draining_since.is_some_and(|since| self.clock.now >= since + DRAIN_GRACE)
    }

    /// Returns the parts that requests over TCP need.
    #[inline]
    pub(crate) fn request(&mut self, has_tls: bool) -> RequestContext<'_> {
        self.parts(|fields| fields.for_connection(has_tls))
    }

    /// Returns the parts that requests over HTTP/3 need.
    pub(crate) fn http3(&mut self) -> RequestContext<'_> {
        self.parts(|fields| &fields.http3)
    }

    #[inline]
    fn parts(&mut self, fields: impl FnOnce(&Fields) -> &ServerFields) -> RequestContext<'_> {
        let responder = &mut self.responder;
        RequestContext {
            heads: &mut responder.heads,
            scratch: &mut responder.scratch,
            response: ResponseContext {
                content: &self.release.content,
                fields: fields(&responder.fields),
                output: &mut responder.output,
                observer: &mut self.observer,
                routes: self.routes.as_deref(),
                now: self.clock.now,
            },
        }
    }

    /// Starts a graceful shutdown. Idle connections stay open for [`DRAIN_GRACE`].
    pub(crate) fn begin_drain(&mut self) {
        self.clock.draining_since = Some(self.clock.now);
        self.clock.idle_until = Some(self.clock.now + DRAIN_GRACE);
    }

    /// Cleans up after a connection that has panicked.
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

/// The parts of the context that a request needs.
pub(crate) struct RequestContext<'a> {
    /// Request heads, for HTTP/2 and HTTP/3.
    pub(crate) heads: &'a mut HeadStore,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) response: ResponseContext<'a>,
}

/// The parts of the context that a response is written with.
pub(crate) struct ResponseContext<'a> {
    /// The release being served.
    pub(crate) content: &'a Arc<Content>,
    pub(crate) fields: &'a ServerFields,
    pub(crate) output: &'a mut Output,
    pub(crate) observer: &'a mut Observer,
    routes: Option<&'a WorkerRoutes>,
    pub(crate) now: Instant,
}

/// Client properties that responses and the access log depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client<'p> {
    pub(crate) address: &'p Option<SocketAddr>,
    pub(crate) has_tls: bool,
    pub(crate) tls_version: Option<Version>,
}

impl<'p> Client<'p> {
    /// Returns an HTTP/3 client.
    pub(crate) fn quic(address: &'p Option<SocketAddr>) -> Client<'p> {
        Client { address, has_tls: true, tls_version: Some(Version::Tls13) }
    }
}

impl<'a> ResponseContext<'a> {
    /// Returns the parts that a handler's response depends on, or `None` if the server has no handlers. `connection` is
    /// where the response goes to, and `content` is the site beside the routes.
    #[inline]
    pub(crate) fn into_dispatch(
        self,
        connection: Option<ConnectionAddress>,
        client: Client<'_>,
        content: &'a Content,
    ) -> Option<Dispatch<'a>> {
        let routes = self.routes?;
        Some(Dispatch {
            routes,
            content,
            address: connection?,
            client: RouteClient { peer: *client.address, is_tls: client.has_tls },
            now: self.now,
            tls: client.tls_version,
            fields: self.fields,
            output: self.output,
            observer: self.observer,
        })
    }

    /// Like [`into_dispatch`](Self::into_dispatch), but only borrows the parts.
    #[inline]
    pub(crate) fn dispatch<'b>(
        &'b mut self,
        connection: Option<ConnectionAddress>,
        client: Client<'_>,
        content: &'b Content,
    ) -> Option<Dispatch<'b>> {
        let ResponseContext { fields, routes, now, .. } = *self;
        let output = &mut *self.output;
        let observer = &mut *self.observer;
        ResponseContext { content: self.content, fields, output, observer, routes, now }
            .into_dispatch(connection, client, content)
    }
}

/// Header fields that end every response head.
pub(crate) struct Fields {
    plain: ServerFields,
    tls: ServerFields,
    http3: ServerFields,
}

/// Names and values of header fields that the server adds to every response.
#[derive(Debug, Clone)]
pub(crate) struct AddedFields {
    /// On connections without TLS.
    pub(crate) plain: Vec<(&'static str, &'static str)>,
    /// On connections with TLS.
    pub(crate) tls: Vec<(&'static str, &'static str)>,
    /// `Alt-Svc` value for HTTP/1 and HTTP/2 with TLS (RFC 7838). `None` without HTTP/3.
    pub(crate) alt_svc: Option<String>,
    /// Whether clients may cache permanent redirects.
    pub(crate) keeps_redirects: bool,
    /// Whether sites may be previews, whose responses have more fields.
    pub(crate) has_previews: bool,
}

/// Fields that keep previews out of search engines, and those with a password out of shared caches: of content delivery networks
/// (RFC 9213), and of others as far as they heed `Vary`.
const OF_PREVIEWS: [(&str, &str); 3] =
    [("X-Robots-Tag", "noindex"), ("CDN-Cache-Control", "no-store"), ("Vary", "Authorization")];

impl Fields {
    /// `seconds` is the Unix time.
    fn new(added: &AddedFields, seconds: u64) -> Fields {
        let mut tls: Vec<(&str, &str)> = added.tls.clone();
        if let Some(alt_svc) = &added.alt_svc {
            tls.push(("Alt-Svc", alt_svc));
        }
        let render =
            |fields: &[_]| ServerFields::new(fields, seconds).with_kept_redirects(added.keeps_redirects);
        let [plain, tls, http3] = [&added.plain, &tls, &added.tls].map(|fields| {
            let rendered = render(fields);
            if !added.has_previews {
                return rendered;
            }
            rendered.with_previews(render(&[fields.as_slice(), &OF_PREVIEWS].concat()))
        });
        Fields { plain, tls, http3 }
    }

    fn set_time(&mut self, seconds: u64) {
        self.plain.set_time(seconds);
        self.tls.set_time(seconds);
        self.http3.set_time(seconds);
    }

    #[inline]
    pub(crate) fn for_connection(&self, has_tls: bool) -> &ServerFields {
        if has_tls { &self.tls } else { &self.plain }
    }
}
