//! Server configuration.
//!
//! Values are parsed by the programs. Settings that exclude or require each other are parts of one type, e.g. the
//! addresses for TLS belong to [`Tls`], which has a certificate. What remains to be checked at startup is what only the
//! system knows: whether files and addresses can be opened (there are no Unix sockets for UDP, for example), and whether
//! sockets that were passed to this process need a certificate.

mod archives;
mod host_pattern;
mod inheritance;
mod live_reload;
mod preview_file;
mod site_directory;
mod thumbprint;
mod tls;
mod trusted_proxies;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use cannery_archive::Loading;
pub use cannery_eventloop::Address;
pub use cannery_routes::Routes;
pub use cannery_site::VirtualHosts;
pub use cannery_transport::quic::{EarlyData, ServerId};
pub use cannery_transport::{SelfSigned, Source as CertificateFiles};
#[doc(hidden)]
pub use cannery_trust::Policy;

use crate::kept_signals::KeptSignals;
use crate::notice::Notice;
pub use crate::sandbox::{Account, Requirement, SandboxPolicy};
pub use archives::{ArchiveSource, CURRENT, Content, DUMMY_BODY, NamedArchive, ReleaseDirectory};
pub use host_pattern::HostPattern;
pub use inheritance::{Http3Part, Inheritance, InheritedUdp, Standby};
pub use live_reload::{LiveFolder, LivePage, LiveReload};
#[doc(hidden)]
pub use preview_file::{PreviewFile, PreviewPassword};
#[doc(hidden)]
pub use site_directory::SiteDirectory;
#[doc(hidden)]
pub use thumbprint::{SharedThumbprint, Thumbprint, ThumbprintError};
pub use tls::{Http3, HttpsRedirect, IssuedCertificate, ListenerKind, Tls};
pub use trusted_proxies::{ForwardedField, ProxySource, TrustedProxies};

/// Server configuration.
// Only for our own programs: a library sets the same with `Settings`.
#[doc(hidden)]
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Addresses to listen on without TLS. Port 0 selects a free port.
    pub listen: Vec<Address>,
    /// Certificates, and what is served with them: TLS listeners and HTTP/3.
    pub tls: Option<Tls>,
    /// HTTP versions over TCP.
    pub versions: HttpVersions,
    /// Whether UDP sockets that a service manager passes remain unused. Otherwise, they require `tls`.
    pub leaves_udp_sockets: bool,
    /// Redirects requests without TLS to `https` on this port.
    pub https_redirect: Option<HttpsRedirect>,
    /// File mode for Unix sockets, as with `chmod`. If it is `None`, the umask applies.
    pub local_mode: Option<u32>,
    /// Whether to set `TCP_DEFER_ACCEPT`, in which case the kernel only accepts a TCP connection once the
    /// client has sent some data. The admin listener ignores this, and inherited sockets keep the option
    /// if they already have it.
    pub defer_accept: bool,
    /// Sockets and secrets that this process has inherited.
    pub inheritance: Inheritance,
    /// The content to serve.
    pub content: Content,
    /// Keys and site that the releases of release directories must be signed with, if signatures are demanded.
    pub release_trust: Option<Arc<Policy>>,
    /// A directory whose sites are served too, each for the host that it is named by.
    pub site_directory: Option<SiteDirectory>,
    /// The code that responds to requests.
    pub responders: Responders,
    /// Number of worker threads. Each of them has its own event loop and listeners.
    pub threads: NonZeroUsize,
    /// Event loop that the workers should use.
    pub io: Io,
    /// The number of open connections is limited to this, counting all threads together. Further
    /// connections have to wait in the kernel's accept queue. With `None`, the descriptor limit has
    /// the same effect.
    pub connections_max: Option<NonZeroUsize>,
    /// Whether each connection must start with a PROXY protocol header. This does not apply to the admin
    /// listener.
    pub proxy_protocol: bool,
    /// Tells if the request host selects a site within an archive.
    pub virtual_hosts: VirtualHosts,
    /// If set, only answer requests for IP addresses, `localhost` and names below it, hosts that a site names
    /// exactly, and the hosts in this list. You may want this if foreign web pages in the user's browser must
    /// not be able to read from the server. With `None`, any host is accepted.
    pub trusted_hosts: Option<Vec<HostPattern>>,
    /// Header fields to add to every response.
    pub security_headers: SecurityHeaders,
    /// Lets clients cache permanent redirects. You may want to disable this while a site is being edited.
    pub keeps_redirects: bool,
    /// Timeouts for clients. `None` is only meant for measurements.
    pub timeouts: Option<Timeouts>,
    /// Time for connections to finish sending during a graceful shutdown.
    pub drain: Duration,
    /// Built-in pages below `/__/`.
    pub special_pages: Option<SpecialPages>,
    /// The folder that the content is made from, if it can be edited while it is served.
    pub live_folder: Option<LiveFolder>,
    /// Directory that contains ACME challenge tokens.
    pub acme_webroot: Option<PathBuf>,
    /// Thumbprint of the ACME account whose challenges are answered.
    pub acme_thumbprint: SharedThumbprint,
    /// The access log.
    pub access_log: Option<AccessLog>,
    /// The admin listener.
    pub admin: Option<AdminPage>,
    /// Interval between reports on the terminal.
    pub report: Option<Duration>,
    /// The profiler that takes samples of this process.
    pub profiler: Option<Profiler>,
    /// User and group to switch to once all resources are open.
    pub account: Option<Account>,
    /// Receives notices while the server runs.
    pub on_notice: NoticeHandler,
    /// Signals that have been kept since before the sockets were opened. `None` if the server should not
    /// act on signals.
    pub kept_signals: Option<KeptSignals>,
}

impl Config {
    /// A configuration with one thread and without listeners, logs, notices or a sandbox. Response and
    /// timeout settings have their defaults.
    #[must_use]
    pub fn plain(content: Content) -> Config {
        Config {
            listen: Vec::new(),
            tls: None,
            versions: HttpVersions::All,
            leaves_udp_sockets: false,
            https_redirect: None,
            local_mode: None,
            defer_accept: false,
            inheritance: Inheritance::default(),

            content,
            release_trust: None,
            site_directory: None,
            responders: Responders::default(),
            threads: NonZeroUsize::MIN,
            io: Io::Auto,

            connections_max: None,
            proxy_protocol: false,
            virtual_hosts: VirtualHosts::Enabled,
            trusted_hosts: None,
            security_headers: SecurityHeaders::BASIC,
            keeps_redirects: true,
            timeouts: Some(Timeouts::default()),
            drain: Duration::ZERO,
            special_pages: None,
            live_folder: None,
            acme_webroot: None,
            acme_thumbprint: SharedThumbprint::default(),
            access_log: None,
            admin: None,

            report: None,
            profiler: None,
            account: None,
            on_notice: NoticeHandler::ignore(),
            kept_signals: None,
        }
    }

    /// Returns the addresses to listen on, those without TLS first.
    pub fn listen_addresses(&self) -> impl Iterator<Item = (ListenerKind, &Address)> {
        let plain = self.listen.iter().map(|address| (ListenerKind::Plain, address));
        let tls = self.tls.iter().flat_map(|tls| &tls.listen).map(|address| (ListenerKind::Tls, address));
        plain.chain(tls)
    }

    /// Returns the HTTP/3 settings, or `None` if HTTP/3 is not served.
    #[must_use]
    pub fn served_http3(&self) -> Option<&Http3> {
        let http3 = self.tls.as_ref()?.http3.as_ref()?;
        let has_sockets = !http3.listen.is_empty() || self.inheritance.has_udp_sockets();
        has_sockets.then_some(http3)
    }

    /// Returns `true` if a listener or HTTP/3 uses TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        let has_listeners = self.tls.as_ref().is_some_and(|tls| !tls.listen.is_empty());
        has_listeners || self.served_http3().is_some() || self.inheritance.has_tls_listeners()
    }

    /// Returns the routes, or `None` if the server has no handlers.
    #[must_use]
    pub fn routes(&self) -> Option<&Arc<Routes>> {
        match &self.responders {
            Responders::Server { .. } => None,
            Responders::Handlers { routes, .. } => Some(routes),
        }
    }

    /// Returns the sandbox layers that are required.
    #[must_use]
    pub fn sandbox(&self) -> SandboxPolicy {
        match self.responders {
            Responders::Server { sandbox, .. } => sandbox,
            Responders::Handlers { .. } => SandboxPolicy::OFF,
        }
    }

    /// Tells if we read requests of resumed QUIC sessions before the handshake is complete.
    #[must_use]
    pub fn early_data(&self) -> EarlyData {
        match self.responders {
            Responders::Server { early_data, .. } => early_data,
            Responders::Handlers { .. } => EarlyData::Refused,
        }
    }

    /// Returns `true` if operators can query memory, descriptors and CPU time of the process.
    pub(crate) fn samples_process(&self) -> bool {
        self.admin.is_some() || !self.inheritance.stats_sockets.is_empty()
    }

    /// Returns `true` if there is a reader for the counters.
    #[must_use]
    pub(crate) fn counts(&self) -> bool {
        self.samples_process() || self.report.is_some()
    }
}

/// The code that responds to requests, and how far that allows us to confine the process.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub enum Responders {
    /// Only the server.
    Server {
        /// Sandbox layers that are required.
        sandbox: SandboxPolicy,
        /// Tells if we read requests of resumed QUIC sessions before the handshake is complete. An attacker may
        /// repeat such requests.
        early_data: EarlyData,
    },
    /// Also handlers of the program. There is no sandbox because they may do anything that the program may, and no
    /// early data because they may not repeat what they do.
    Handlers {
        /// Requests that match a route are answered by its handler instead of the content.
        routes: Arc<Routes>,
        /// Number of threads for handlers that may block.
        threads: NonZeroUsize,
    },
}

impl Default for Responders {
    /// Only the server, without a sandbox or early data.
    fn default() -> Responders {
        Responders::Server { sandbox: SandboxPolicy::OFF, early_data: EarlyData::Refused }
    }
}

/// HTTP versions over TCP. With TLS, clients negotiate one by ALPN; without TLS, they use HTTP/2 with prior knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HttpVersions {
    /// HTTP/1 and HTTP/2.
    #[default]
    All,
    /// Only HTTP/1.
    Http1,
    /// Only HTTP/2.
    Http2,
}

impl HttpVersions {
    pub(crate) fn has_http1(self) -> bool {
        self != HttpVersions::Http2
    }

    pub(crate) fn has_http2(self) -> bool {
        self != HttpVersions::Http1
    }
}

/// The admin listener.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AdminPage {
    /// Address to listen on.
    pub address: Address,
    /// Host names to accept besides IP addresses and `localhost`.
    pub hosts: Vec<HostPattern>,
}

impl AdminPage {
    /// Returns an admin listener that only accepts IP addresses and `localhost`.
    #[must_use]
    pub fn new(address: Address) -> AdminPage {
        AdminPage { address, hosts: Vec::new() }
    }
}

/// A profiler that takes samples of this process in the sandbox.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct Profiler {
    /// Temporary file that the profiler reads and removes when the server stops.
    pub file: Option<PathBuf>,
}

/// Default number of threads for handlers that may block.
pub const HANDLER_THREADS: NonZeroUsize = NonZeroUsize::new(16).expect("it is not zero");

/// Kernel interface for the event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Io {
    /// Let the server choose. Currently, this is `epoll(7)`.
    #[default]
    Auto,
    /// `epoll(7)`, which every Linux supports.
    Epoll,
    /// `io_uring(7)`. The server will not start if it is not available.
    Uring,
}

/// Receives notices while the server is running. Note that it will be called from auxiliary threads,
/// but never from workers.
#[derive(Clone)]
pub struct NoticeHandler(pub Arc<dyn Fn(&Notice) + Send + Sync>);

impl NoticeHandler {
    /// Returns a handler that ignores all notices.
    #[must_use]
    pub fn ignore() -> NoticeHandler {
        NoticeHandler(Arc::new(|_| {}))
    }
}

impl std::fmt::Debug for NoticeHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NoticeHandler")
    }
}

/// Contents for the pages below `/__/cannery/`.
// Only for our own programs.
#[doc(hidden)]
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SpecialPages {
    /// A short description of the server.
    pub about: String,
    /// The manual page as text.
    pub manual: String,
    /// Pages that contain the exact version, if enabled.
    pub exact: Option<ExactPages>,
}

impl SpecialPages {
    /// Returns the pages without the exact version.
    #[must_use]
    pub fn new(about: String, manual: String) -> SpecialPages {
        SpecialPages { about, manual, exact: None }
    }
}

/// Pages that reveal the exact version. Note that attackers could use it to find known vulnerabilities.
// Only for our own programs.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct ExactPages {
    /// The version.
    pub version: String,
    /// The software bill of materials as CycloneDX JSON.
    pub sbom: String,
}

/// Header fields to add to every response unless the site already sets them.
/// `Content-Security-Policy` is an exception: since policies accumulate, we send ours as well as
/// the site's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SecurityHeaders {
    /// `Referrer-Policy`, `X-Content-Type-Options` and `X-Frame-Options`.
    pub basic: bool,
    /// `Strict-Transport-Security` and `Content-Security-Policy: upgrade-insecure-requests`.
    pub tls: bool,
}

impl SecurityHeaders {
    /// No fields.
    pub const NONE: SecurityHeaders = SecurityHeaders { basic: false, tls: false };

    /// The fields that don't depend on TLS.
    pub const BASIC: SecurityHeaders = SecurityHeaders { basic: true, tls: false };

    /// Adds the fields for sites that are only reachable with TLS.
    #[must_use]
    pub fn with_tls(self) -> SecurityHeaders {
        SecurityHeaders { tls: true, ..self }
    }

    /// Selects the fields for connections without TLS, for servers that also have TLS listeners: RFC 6797
    /// §7.2 forbids sending `Strict-Transport-Security` there. A server without any TLS listeners will still
    /// send it as a proxy may be adding TLS.
    #[must_use]
    pub fn without_tls(self) -> SecurityHeaders {
        SecurityHeaders { tls: false, ..self }
    }

    /// Returns the names and values of the fields.
    #[must_use]
    pub fn fields(self) -> Vec<(&'static str, &'static str)> {
        let basic = [
            ("Referrer-Policy", "strict-origin-when-cross-origin"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "sameorigin"),
        ];
        let tls = [
            ("Strict-Transport-Security", "max-age=31536000"),
            ("Content-Security-Policy", "upgrade-insecure-requests"),
        ];
        let basic = basic.into_iter().filter(|_| self.basic);
        basic.chain(tls.into_iter().filter(|_| self.tls)).collect()
    }
}

/// Access log settings.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AccessLog {
    /// Where to write it.
    pub target: LogTarget,
    /// Line format.
    pub format: LogFormat,
    /// Proxies that we trust to tell us the client's address.
    pub proxies: Option<TrustedProxies>,
}

impl AccessLog {
    /// Returns an access log that contains the addresses that clients connect from.
    #[must_use]
    pub fn new(target: LogTarget, format: LogFormat) -> AccessLog {
        AccessLog { target, format, proxies: None }
    }

    /// Gets client addresses from these proxies.
    #[must_use]
    pub fn with_proxies(self, proxies: TrustedProxies) -> AccessLog {
        AccessLog { proxies: Some(proxies), ..self }
    }
}

/// Where to write an access log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogTarget {
    /// Append to this file. It can be reopened on request.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl std::fmt::Display for LogTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LogTarget::File(path) => path.display().fmt(f),
            LogTarget::Stdout => f.write_str("on standard output"),
            LogTarget::Stderr => f.write_str("on standard error"),
        }
    }
}

/// Line format of an access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFormat {
    /// Apache's combined format.
    Combined,
    /// One JSON object per line.
    Json,
    /// One short line for each response with a status of 400 or more, which is suitable for terminals. Other
    /// responses are not logged.
    Failures,
}

/// Timeouts for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// Timeout for a request head, from the first byte to the last. The content then gets the same
    /// time again.
    pub head: Duration,
    /// Between requests on a persistent connection, and before the first one.
    pub idle: Duration,
    /// Replaces `idle` while other clients are waiting for a free connection.
    pub idle_crowded: Duration,
    /// For a handler to respond.
    pub handler: Duration,
    /// Interval at which to check that a client is receiving fast enough. Since the last check, it must
    /// have received at least 100 bytes per second on average. The response as a whole has no limit.
    pub send: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            // Since a head usually fits into one packet, ten seconds should be enough even on a bad mobile
            // link.
            head: Duration::from_secs(10),
            // Browsers keep connections open for a minute or more, and an idle one costs less than 200 bytes.
            idle: Duration::from_secs(75),
            // This is enough for the next request while a page is loading.
            idle_crowded: Duration::from_secs(5),
            // Proxies usually wait for about as long. People do not.
            handler: Duration::from_secs(60),
            // This is longer than any retransmission that succeeds in practice.
            send: Duration::from_secs(30),
        }
    }
}
