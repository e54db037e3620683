//! Server configuration. Values have already been parsed, however some of them require others to be
//! set, e.g. `listen_tls` needs `tls`.
//!
//! Command lines are parsed elsewhere. Settings that do not fit together are reported as an error at
//! startup.

mod live_reload;
mod trusted_proxies;

use std::fs::File;
use std::net::SocketAddr;
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

use crate::kept_signals::KeptSignals;
use crate::notice::Notice;
pub use crate::sandbox::{Account, Requirement, SandboxPolicy};
pub use live_reload::{LiveFolder, LivePage, LiveReload};
pub use trusted_proxies::{ForwardedField, ProxySource, TrustedProxies};

/// Server configuration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Addresses to listen on without TLS. Port 0 selects a free port.
    pub listen: Vec<Address>,
    /// Addresses to listen on with TLS. Requires `tls`.
    pub listen_tls: Vec<Address>,
    /// Certificates and protocols for TLS connections.
    pub tls: Option<Tls>,
    /// Enables HTTP/1.
    pub http1: bool,
    /// Enables HTTP/2. Clients can negotiate it with ALPN (over TLS), or use prior knowledge (over TCP).
    pub http2: bool,
    /// HTTP/3 settings. HTTP/3 uses the certificates of `tls`. It is served if it has sockets and is not
    /// disabled.
    pub http3: Http3,
    /// Redirects requests without TLS to `https` on this port.
    pub https_redirect: Option<HttpsRedirect>,
    /// File mode for Unix sockets, as with `chmod`. If it is `None`, the umask applies.
    pub local_mode: Option<u32>,
    /// Whether to set `TCP_DEFER_ACCEPT`, in which case the kernel only accepts a TCP connection once the
    /// client has sent some data. The admin listener ignores this, and inherited sockets keep the option
    /// if they already have it.
    pub defer_accept: bool,
    /// Descriptors of inherited listening sockets, which replace `listen` and `listen_tls`.
    // The supervisor sets this.
    #[doc(hidden)]
    pub inherited: Vec<(ListenerKind, i32)>,
    /// Descriptors of inherited listening sockets that belong to other processes.
    // The supervisor sets this.
    #[doc(hidden)]
    pub standby: Vec<Standby<i32>>,
    /// The content to serve.
    pub content: Content,
    /// Delay before each response of [`Content::Dummy`].
    pub dummy_delay: Duration,
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
    // Only for our own programs.
    #[doc(hidden)]
    pub special_pages: Option<SpecialPages>,
    /// The folder that the content is made from, if it can be edited while it is served.
    // Only for our own programs.
    #[doc(hidden)]
    pub live_folder: Option<LiveFolder>,
    /// Routes. Requests that match one are answered by its handler instead of the content.
    // Only for our own programs.
    #[doc(hidden)]
    pub routes: Option<Arc<Routes>>,
    /// Number of threads for handlers that may block.
    pub handler_threads: NonZeroUsize,
    /// Directory that contains ACME challenge tokens.
    pub acme_webroot: Option<PathBuf>,
    /// The access log.
    pub access_log: Option<AccessLog>,
    /// Address that the admin listener should use.
    pub admin: Option<Address>,
    /// Host names that the admin listener accepts besides IP addresses and `localhost`.
    pub admin_hosts: Vec<HostPattern>,
    /// Descriptors of inherited sockets for statistics. A serving process replies on its socket, while the
    /// admin process queries the others through theirs.
    // The supervisor sets this.
    #[doc(hidden)]
    pub stats_sockets: Vec<i32>,
    /// Interval between reports on the terminal.
    pub report: Option<Duration>,
    /// Sandbox layers that are required.
    pub sandbox: SandboxPolicy,
    /// Lets a profiler take samples of this process in the sandbox.
    // Only for our own programs.
    #[doc(hidden)]
    pub is_profiled: bool,
    /// Temporary file that the profiler reads and removes when the server stops.
    // Only for our own programs.
    #[doc(hidden)]
    pub profiler_file: Option<PathBuf>,
    /// User and group to switch to once all resources are open.
    pub account: Option<Account>,
    /// Receives notices while the server runs.
    pub on_notice: NoticeHandler,
    /// Signals that have been kept since before the sockets were opened. `None` if the server should not
    /// act on signals.
    // The supervisor sets this.
    #[doc(hidden)]
    pub kept_signals: Option<KeptSignals>,
}

impl Config {
    /// A configuration with one thread and without listeners, logs, notices or a sandbox. Response and
    /// timeout settings have their defaults.
    #[must_use]
    pub fn plain(content: Content) -> Config {
        Config {
            listen: Vec::new(),
            listen_tls: Vec::new(),
            tls: None,
            http1: true,
            http2: true,
            http3: Http3::default(),
            https_redirect: None,
            local_mode: None,
            defer_accept: false,
            inherited: Vec::new(),
            standby: Vec::new(),

            content,
            dummy_delay: Duration::ZERO,
            threads: NonZeroUsize::MIN,
            io: Io::Auto,

            connections_max: None,
            proxy_protocol: false,
            virtual_hosts: VirtualHosts::Enabled,
            trusted_hosts: None,
            security_headers: SecurityHeaders { basic: true, tls: false },
            keeps_redirects: true,
            timeouts: Some(Timeouts::default()),
            drain: Duration::ZERO,
            special_pages: None,
            live_folder: None,
            routes: None,
            handler_threads: HANDLER_THREADS,
            acme_webroot: None,
            access_log: None,
            admin: None,
            admin_hosts: Vec::new(),

            stats_sockets: Vec::new(),
            report: None,
            sandbox: SandboxPolicy::OFF,
            is_profiled: false,
            profiler_file: None,
            account: None,
            on_notice: NoticeHandler::ignore(),
            kept_signals: None,
        }
    }

    /// Returns the HTTP/3 settings, or `None` if HTTP/3 is not served.
    #[must_use]
    pub fn served_http3(&self) -> Option<&Http3> {
        Some(&self.http3).filter(|http3| !http3.is_disabled && http3.has_sockets())
    }

    /// Returns `true` if a listener or HTTP/3 uses TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        let is_tls = |(kind, _): &(ListenerKind, i32)| *kind == ListenerKind::Tls;
        self.served_http3().is_some() || !self.listen_tls.is_empty() || self.inherited.iter().any(is_tls)
    }

    /// Returns `true` if operators can query memory, descriptors and CPU time of the process.
    pub(crate) fn samples_process(&self) -> bool {
        self.admin.is_some() || !self.stats_sockets.is_empty()
    }

    /// Returns `true` if there is a reader for the counters.
    #[must_use]
    pub(crate) fn counts(&self) -> bool {
        self.admin.is_some() || !self.stats_sockets.is_empty() || self.report.is_some()
    }
}

/// Default number of threads for handlers that may block.
pub const HANDLER_THREADS: NonZeroUsize = NonZeroUsize::new(16).expect("it is not zero");

/// Protocol between the transport and HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenerKind {
    /// HTTP directly over TCP or a Unix socket.
    Plain,
    /// HTTP over TLS.
    Tls,
}

impl ListenerKind {
    /// Returns the scheme of the URLs that the listener serves.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        match self {
            ListenerKind::Plain => "http",
            ListenerKind::Tls => "https",
        }
    }
}

/// A listener of another process. We accept connections from it while that process is down.
// The supervisor sets this.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standby<L> {
    /// The other process's number.
    pub process: usize,
    /// Kind of connections it accepts.
    pub kind: ListenerKind,
    /// The listening socket, or a descriptor.
    pub listener: L,
}

impl ListenerKind {
    /// Returns a tag for passing a connection of this kind to another worker.
    pub(crate) fn tag(self) -> u32 {
        match self {
            ListenerKind::Plain => 0,
            ListenerKind::Tls => 1,
        }
    }

    pub(crate) fn from_tag(tag: u32) -> ListenerKind {
        if tag == 0 { ListenerKind::Plain } else { ListenerKind::Tls }
    }
}

/// Certificates and ticket keys for TLS listeners.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Certificate and key files. The first certificate is the default, for clients that do not send a server
    /// name or ask for a name that no certificate covers.
    pub certificates: Vec<CertificateFiles>,
    /// Also generates a temporary self-signed certificate.
    pub self_signed: Option<SelfSigned>,
    /// Inherited descriptor from which to read the seed of the ticket keys (processes with the same seed can
    /// accept each other's session tickets). With `None`, we generate our own seed.
    // The supervisor sets this.
    #[doc(hidden)]
    pub seed: Option<i32>,
}

/// HTTP/3 settings and sockets.
#[derive(Debug, Clone, Default)]
pub struct Http3 {
    /// Disables HTTP/3 even if it has sockets.
    pub is_disabled: bool,
    /// Addresses for UDP sockets. Port 0 selects a free port.
    pub listen: Vec<Address>,
    /// Descriptors of inherited UDP sockets, to be used in place of `listen`. Several sockets for one address
    /// must be listed in the order in which they were bound.
    // The supervisor sets this.
    #[doc(hidden)]
    pub inherited: Vec<i32>,
    /// The part of HTTP/3 that this process serves, if it is one of several.
    // The supervisor sets this.
    #[doc(hidden)]
    pub part: Option<Http3Part>,
    /// Forwarding sockets of the process that we take over from, indexed by worker number.
    // The supervisor sets this.
    #[doc(hidden)]
    pub predecessors: Vec<SocketAddr>,
    /// A number from 0 to 3 that tells our connection IDs from those issued by the process we take
    /// over from.
    // The supervisor sets this.
    #[doc(hidden)]
    pub generation: u8,
    /// Host and port to be announced in `Alt-Svc`. `None` means the port of the first socket.
    pub alternative: Option<String>,
    /// Server number to put into connection IDs, so that a load balancer can route datagrams.
    pub server_id: Option<ServerId>,
    /// Tells if we read requests of resumed sessions before the handshake is complete.
    pub early_data: EarlyData,
}

impl Http3 {
    fn has_sockets(&self) -> bool {
        !self.listen.is_empty() || !self.inherited.is_empty() || self.part.is_some()
    }
}

/// The part of HTTP/3 that one of several processes serves. The sockets were opened by the supervisor.
// The supervisor sets this.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http3Part {
    /// This process's first worker, counting the workers of all processes.
    pub first_worker: u8,
    /// Port of the first address.
    pub port: u16,
    /// Sockets: each is the number of one of our workers, and a descriptor.
    pub sockets: Vec<(usize, i32)>,
    /// Forwarding sockets, one for each worker in order, for datagrams that arrived at another worker or at a
    /// process that is taking over.
    pub forwarding: Vec<i32>,
    /// Addresses of the forwarding sockets of all processes, indexed by worker number.
    pub workers: Vec<SocketAddr>,
}

/// Where to redirect requests without TLS: the port of the `https` URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpsRedirect {
    /// Port of the server's first TLS listener, or 443 if we do not know.
    OwnPort,
    /// A fixed port, e.g. one that a router or container maps to the server's port.
    Port(u16),
}

impl HttpsRedirect {
    /// Returns the port for a server with these listeners.
    pub(crate) fn port(self, addresses: &[(ListenerKind, Address)]) -> u16 {
        let own = addresses.iter().find_map(|(kind, address)| match (kind, address) {
            (ListenerKind::Tls, address) => address.port(),
            _ => None,
        });
        match self {
            HttpsRedirect::OwnPort => own.unwrap_or(443),
            HttpsRedirect::Port(port) => port,
        }
    }
}

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

/// Content of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Content {
    /// Archives for one or more hosts. Without any, only handlers can respond.
    Archives {
        /// The archives.
        archives: Vec<NamedArchive>,
        /// The way to get them into memory.
        loading: Loading,
        /// Checks for replaced archives even without a signal.
        watch: bool,
    },
    /// The same short body for every request, with `Content-Length` as the only field. This is meant for
    /// measuring the server without archives.
    Dummy {
        /// The response body.
        body: &'static [u8],
    },
}

/// An archive and a host.
#[derive(Debug, Clone)]
pub struct NamedArchive {
    /// Host to serve the archive for. `None` for the default archive.
    pub host: Option<HostPattern>,
    /// Path of the archive, or just a name for messages in the case of a `file`.
    pub path: PathBuf,
    /// The archive as an open file. A [`Publisher`](crate::Publisher) can replace it.
    pub file: Option<Arc<File>>,
    /// The bytes of an archive that is embedded in the program, in which case the path is only a name.
    pub embedded: Option<&'static [u8]>,
    /// Release directory that the archive belongs to. Set it to also serve older releases from there.
    pub releases: Option<ReleaseDirectory>,
}

impl NamedArchive {
    /// Returns an archive that is opened by path.
    #[must_use]
    pub fn new(host: Option<HostPattern>, path: PathBuf) -> NamedArchive {
        NamedArchive { host, path, file: None, embedded: None, releases: None }
    }

    /// Returns an archive in an open file. The bytes of this file must not change any more.
    #[must_use]
    pub fn from_file(host: Option<HostPattern>, name: PathBuf, file: File) -> NamedArchive {
        NamedArchive { file: Some(Arc::new(file)), ..NamedArchive::new(host, name) }
    }

    /// Returns an archive that is embedded in the program.
    #[must_use]
    pub fn embedded(host: Option<HostPattern>, name: PathBuf, bytes: &'static [u8]) -> NamedArchive {
        NamedArchive { embedded: Some(bytes), ..NamedArchive::new(host, name) }
    }

    /// Returns the current archive of a release directory.
    #[must_use]
    pub fn from_directory(host: Option<HostPattern>, releases: ReleaseDirectory) -> NamedArchive {
        let path = releases.path.join(CURRENT);
        NamedArchive { releases: Some(releases), ..NamedArchive::new(host, path) }
    }
}

/// Name of the symlink that points to the current archive in a release directory.
pub const CURRENT: &str = "current";

/// A directory of archives. A symlink named `current` selects the one to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseDirectory {
    /// Path of the directory.
    pub path: PathBuf,
    /// Older archives to keep, newest first. They serve immutable paths that the current archive no longer
    /// has.
    pub kept: usize,
}

/// Contents for the pages below `/__/cannery/`.
#[derive(Debug, Clone)]
pub struct SpecialPages {
    /// A short description of the server.
    pub about: String,
    /// The manual page as text.
    pub manual: String,
    /// Pages that contain the exact version, if enabled.
    pub exact: Option<ExactPages>,
}

/// Pages that reveal the exact version. Note that attackers could use it to find known vulnerabilities.
#[derive(Debug, Clone)]
pub struct ExactPages {
    /// The version.
    pub version: String,
    /// The software bill of materials as CycloneDX JSON.
    pub sbom: String,
}

/// A host, or all hosts below a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// The name in lower case. For a wildcard, this is without the `*.`.
    name: String,
    wildcard: bool,
}

impl HostPattern {
    /// Parses `example.com`, `*.example.com` or an IP literal. Returns `None` if it is invalid.
    #[must_use]
    pub fn parse(text: &str) -> Option<HostPattern> {
        let (name, wildcard) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let is_literal = name.starts_with('[') && name.ends_with(']');
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_name = !name.is_empty()
            && (is_literal && !wildcard || name.bytes().all(is_part) && !name.starts_with(['.', '-']));
        is_name.then(|| HostPattern { name: name.trim_end_matches('.').to_ascii_lowercase(), wildcard })
    }

    /// Measures how specific the match with `host` is. Exact matches have the largest value, and `None`
    /// means that it does not match. `host` may have any case, but must not contain a port or a final
    /// dot.
    #[must_use]
    pub fn specificity(&self, host: &[u8]) -> Option<usize> {
        let name = self.name.as_bytes();
        if !self.wildcard {
            return host.eq_ignore_ascii_case(name).then_some(usize::MAX);
        }
        let (below, end) = host.split_at_checked(host.len().checked_sub(name.len())?)?;
        let is_below = below.len() > 1 && below.ends_with(b".") && end.eq_ignore_ascii_case(name);
        is_below.then_some(name.len())
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.wildcard { "*." } else { "" }, self.name)
    }
}

/// The body of `--dummy`.
pub const DUMMY_BODY: &[u8] = b"hello world!\n";

/// Header fields to add to every response unless the site already sets them.
/// `Content-Security-Policy` is an exception: since policies accumulate, we send ours as well as
/// the site's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecurityHeaders {
    /// `Referrer-Policy`, `X-Content-Type-Options` and `X-Frame-Options`.
    pub basic: bool,
    /// `Strict-Transport-Security` and `Content-Security-Policy: upgrade-insecure-requests`.
    pub tls: bool,
}

impl SecurityHeaders {
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
pub struct AccessLog {
    /// Where to write it.
    pub target: LogTarget,
    /// Line format.
    pub format: LogFormat,
    /// Proxies that we trust to tell us the client's address.
    pub proxies: Option<TrustedProxies>,
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
    /// have received at least `cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN` on average. The
    /// response as a whole has no limit.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_host_is_closest_then_longest_wildcard() {
        let specificity =
            |pattern: &str, host: &str| HostPattern::parse(pattern).unwrap().specificity(host.as_bytes());
        assert_eq!(specificity("example.com", "EXAMPLE.com"), Some(usize::MAX));
        assert_eq!(specificity("example.com", "www.example.com"), None);
        assert!(
            specificity("*.example.com", "a.b.example.com")
                < specificity("*.b.example.com", "a.b.example.com")
        );
        assert_eq!(specificity("*.example.com", "example.com"), None);
        assert_eq!(specificity("*.example.com", ".example.com"), None);
        assert_eq!(specificity("*.example.com", "badexample.com"), None);
        assert_eq!(specificity("[::1]", "[::1]"), Some(usize::MAX));
    }

    #[test]
    fn invalid_hosts_are_rejected() {
        for text in ["", "*.", "*", "a b", "/srv/site.cdb", "a/b", "-a", ".a", "a*.b", "[::1"] {
            assert_eq!(HostPattern::parse(text), None, "{text}");
        }
    }
}
