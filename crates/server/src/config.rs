//! Configuration of a server: parsed values, of which some need others. For example, `listen_tls` needs `tls`.
//!
//! Command lines are parsed elsewhere, and settings that don't fit together are errors at startup.

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
pub use cannery_secure::quic::{EarlyData, ServerId};
pub use cannery_secure::{SelfSigned, Source as CertificateFiles};
pub use cannery_site::VirtualHosts;

use crate::kept_signals::KeptSignals;
use crate::notice::Notice;
pub use crate::sandbox::{Account, Requirement, SandboxPolicy};
pub use live_reload::{LiveFolder, LivePage, LiveReload};
pub use trusted_proxies::{ForwardedField, ProxySource, TrustedProxies};

/// Configuration of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses of listeners without TLS. Port 0 selects a free port.
    pub listen: Vec<Address>,
    /// Addresses of TLS listeners, which need `tls`.
    pub listen_tls: Vec<Address>,
    /// Certificates and protocols of TLS connections.
    pub tls: Option<Tls>,
    /// Enables HTTP/1.
    pub http1: bool,
    /// Enables HTTP/2: over TLS if negotiated by ALPN, over TCP with prior knowledge.
    pub http2: bool,
    /// HTTP/3, with the certificates of `tls`. It is served if there are sockets for it and it isn't disabled.
    pub http3: Http3,
    /// Redirects requests without TLS to `https` on this port.
    pub https_redirect: Option<HttpsRedirect>,
    /// File mode of Unix sockets, as for `chmod`. Without it, the umask applies.
    pub local_mode: Option<u32>,
    /// Defers the acceptance of TCP connections until the client has sent data (`TCP_DEFER_ACCEPT`), except on the admin
    /// listener. Inherited sockets that have the option keep it.
    pub defer_accept: bool,
    /// Inherited listening sockets, by descriptor, which replace `listen` and `listen_tls`.
    pub inherited: Vec<(ListenerKind, i32)>,
    /// The inherited listening sockets of other processes, by descriptor.
    pub standby: Vec<Standby<i32>>,
    /// The content that is served.
    pub content: Content,
    /// The time that each worker waits before each response of [`Content::Dummy`].
    pub dummy_delay: Duration,
    /// Number of worker threads, each with its own event loop and listeners.
    pub threads: NonZeroUsize,
    /// The event loop of the workers.
    pub io: Io,
    /// Limit of open connections over all threads. Further connections wait in the kernel's accept queue. Without it, the limit
    /// of descriptors has the same effect.
    pub connections_max: Option<NonZeroUsize>,
    /// Requires a PROXY protocol header on each connection, except on the admin listener.
    pub proxy_protocol: bool,
    /// Selects the site within an archive by the host of the request.
    pub virtual_hosts: VirtualHosts,
    /// Answers only requests for IP addresses, `localhost`, the names below it, the hosts that a site names exactly, and these:
    /// for a server that must not be read by the pages of strangers in the user's browser. Without it, any host is answered.
    pub trusted_hosts: Option<Vec<HostPattern>>,
    /// Header fields of every response.
    pub security_headers: SecurityHeaders,
    /// Lets clients cache permanent redirects. Disabled while a site is being edited.
    pub keeps_redirects: bool,
    /// Timeouts; `None` is for measurements only.
    pub timeouts: Option<Timeouts>,
    /// Drain timeout of a graceful shutdown.
    pub drain: Duration,
    /// Built-in pages below `/__/`.
    pub special_pages: Option<SpecialPages>,
    /// The folder that the content is made from, if it is edited meanwhile.
    pub live_folder: Option<LiveFolder>,
    /// The routes. Their handlers answer requests before the content does.
    pub routes: Option<Arc<Routes>>,
    /// The number of threads for handlers that wait.
    pub handler_threads: NonZeroUsize,
    /// Directory with ACME challenge tokens.
    pub acme_webroot: Option<PathBuf>,
    /// The access log.
    pub access_log: Option<AccessLog>,
    /// Address of the admin listener.
    pub admin: Option<Address>,
    /// Host names that the admin listener accepts in addition to addresses and `localhost`.
    pub admin_hosts: Vec<HostPattern>,
    /// Descriptors of inherited sockets for statistics: in a process that serves the one on which it replies, in the process for
    /// operators those on which it queries the others.
    pub stats_sockets: Vec<i32>,
    /// Interval of the reports on the terminal.
    pub report: Option<Duration>,
    /// Which layers of the sandbox are required.
    pub sandbox: SandboxPolicy,
    /// Lets a profiler of this process take samples in the sandbox.
    pub is_profiled: bool,
    /// The profiler's temporary file, which it reads and removes when the server stops.
    pub profiler_file: Option<PathBuf>,
    /// The user and group to change to after all resources are open.
    pub account: Option<Account>,
    /// Receives events while the server runs.
    pub on_notice: NoticeHandler,
    /// The signals of the process, if its owner has the server act on them. They are kept from before the sockets are opened.
    pub kept_signals: Option<KeptSignals>,
}

impl Config {
    /// Returns the configuration of a server with one thread and without listeners, logs, notices and sandbox. Responses and
    /// timeouts have their defaults.
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

    /// Returns the settings of HTTP/3 and its sockets, or `None` if HTTP/3 is not served.
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

    /// Returns `true` if something reads the counters.
    #[must_use]
    pub(crate) fn counts(&self) -> bool {
        self.admin.is_some() || !self.stats_sockets.is_empty() || self.report.is_some()
    }
}

/// The default number of threads for handlers that wait.
pub const HANDLER_THREADS: NonZeroUsize = NonZeroUsize::new(16).expect("it is not zero");

/// The protocol of a listener's connections below HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// A listener of another process, from which this process accepts connections while the other one is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standby<L> {
    /// The number of the other process.
    pub process: usize,
    /// The kind of its connections.
    pub kind: ListenerKind,
    /// The listening socket, or its descriptor.
    pub listener: L,
}

impl ListenerKind {
    /// Returns the tag with which a worker transfers a connection of this kind to another worker.
    pub(crate) fn tag(self) -> u32 {
        match self {
            ListenerKind::Plain => 0,
            ListenerKind::Tls => 1,
        }
    }

    /// Returns the kind with this tag.
    pub(crate) fn from_tag(tag: u32) -> ListenerKind {
        if tag == 0 { ListenerKind::Plain } else { ListenerKind::Tls }
    }
}

/// Certificates and ticket keys of TLS listeners.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Files with certificates and keys. The first one is the default certificate: for clients that send no server name, or
    /// one that no certificate covers.
    pub certificates: Vec<CertificateFiles>,
    /// Adds a temporary self-signed certificate after the others.
    pub self_signed: Option<SelfSigned>,
    /// Inherited descriptor from which the seed of the ticket keys is read. Processes with the same seed accept each other's
    /// session tickets. Without it, the process generates its own seed.
    pub seed: Option<i32>,
}

/// Settings of HTTP/3, and its sockets.
#[derive(Debug, Clone, Default)]
pub struct Http3 {
    /// Leaves the sockets unused.
    pub is_disabled: bool,
    /// Addresses of UDP sockets. Port 0 selects a free port.
    pub listen: Vec<Address>,
    /// Inherited UDP sockets, by descriptor, which replace `listen`. Those of an address are in the order in which they were
    /// bound.
    pub inherited: Vec<i32>,
    /// The part of this process, if it is one of several.
    pub part: Option<Http3Part>,
    /// The forwarding sockets of the program that this one takes over from, by the number of its worker.
    pub predecessors: Vec<SocketAddr>,
    /// Distinguishes the connection IDs of a program and of the one that takes over from it: from 0 to 3.
    pub generation: u8,
    /// The host and port to which `Alt-Svc` refers clients, or `None` for the port of the first socket.
    pub alternative: Option<String>,
    /// The number of this server in the connection IDs, by which a load balancer routes datagrams.
    pub server_id: Option<ServerId>,
    /// Whether requests of a client that resumes a session are read before its handshake is done.
    pub early_data: EarlyData,
}

impl Http3 {
    fn has_sockets(&self) -> bool {
        !self.listen.is_empty() || !self.inherited.is_empty() || self.part.is_some()
    }
}

/// The part of HTTP/3 that one of several processes serves. The supervisor has opened the sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http3Part {
    /// The number of the process's first worker among the workers of all processes.
    pub first_worker: u8,
    /// The port of the first address.
    pub port: u16,
    /// The sockets: the number of a worker of this process, and a descriptor.
    pub sockets: Vec<(usize, i32)>,
    /// The forwarding sockets, one for each worker, in order: they receive datagrams that arrived at other workers, or at a
    /// program that takes over.
    pub forwarding: Vec<i32>,
    /// The addresses of the forwarding sockets of all processes, by the number of the worker.
    pub workers: Vec<SocketAddr>,
}

/// The port of the `https` URLs to which requests without TLS are redirected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpsRedirect {
    /// The port of the server's first TLS listener, or 443 if that is unknown.
    OwnPort,
    /// This port, for example if a router or a container maps the server's port to it.
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

/// The kernel interface of the event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Io {
    /// Chosen by the server, currently `epoll(7)`.
    #[default]
    Auto,
    /// `epoll(7)`, which every Linux has.
    Epoll,
    /// `io_uring(7)`. The server doesn't start without it.
    Uring,
}

/// Receives events while the server runs. Auxiliary threads call it, never workers.
#[derive(Clone)]
pub struct NoticeHandler(pub Arc<dyn Fn(&Notice) + Send + Sync>);

impl NoticeHandler {
    /// Returns a handler that ignores all events.
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

/// The content of a server.
#[derive(Debug, Clone)]
pub enum Content {
    /// Archives, each for a host or for all other hosts. Without any, only handlers answer.
    Archives {
        /// The archives.
        archives: Vec<NamedArchive>,
        /// How they are loaded into memory.
        loading: Loading,
        /// Reloads a replaced archive without a signal.
        watch: bool,
    },
    /// The same short content for every request, with `Content-Length` as the only field, to measure the server without
    /// archives.
    Dummy {
        /// The content.
        body: &'static [u8],
    },
}

/// An archive and its host.
#[derive(Debug, Clone)]
pub struct NamedArchive {
    /// The host, or `None` for the default archive.
    pub host: Option<HostPattern>,
    /// The path. If there is a `file`, it is only a name for messages.
    pub path: PathBuf,
    /// The archive as an open file, which a [`Publisher`](crate::Publisher) replaces.
    pub file: Option<Arc<File>>,
    /// The bytes of an archive that is part of the program. The path is only a name then.
    pub embedded: Option<&'static [u8]>,
    /// The release directory of which it is the current archive, if older releases are served too.
    pub releases: Option<ReleaseDirectory>,
}

impl NamedArchive {
    /// Returns a single archive.
    #[must_use]
    pub fn new(host: Option<HostPattern>, path: PathBuf) -> NamedArchive {
        NamedArchive { host, path, file: None, embedded: None, releases: None }
    }

    /// Returns an archive in an open file, whose bytes no process may change any more.
    #[must_use]
    pub fn from_file(host: Option<HostPattern>, name: PathBuf, file: File) -> NamedArchive {
        NamedArchive { file: Some(Arc::new(file)), ..NamedArchive::new(host, name) }
    }

    /// Returns an archive that is part of the program.
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

/// The name of the symbolic link to the current archive in a release directory.
pub const CURRENT: &str = "current";

/// A directory of archives. Its symbolic link `current` selects the one that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseDirectory {
    /// The path.
    pub path: PathBuf,
    /// The number of older archives, newest first, that serve immutable paths which the current one lacks.
    pub kept: usize,
}

/// The contents of the pages below `/__/cannery/`.
#[derive(Debug, Clone)]
pub struct SpecialPages {
    /// A short description of the server.
    pub about: String,
    /// The manual page as text.
    pub manual: String,
    /// Pages with the exact version, if enabled.
    pub exact: Option<ExactPages>,
}

/// Pages that reveal the exact version, from which an attacker learns its known vulnerabilities.
#[derive(Debug, Clone)]
pub struct ExactPages {
    /// The version.
    pub version: String,
    /// The software bill of materials as CycloneDX JSON.
    pub sbom: String,
}

/// A host, or all hosts below one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// The name in lower case, without the `*.` of a wildcard.
    name: String,
    wildcard: bool,
}

impl HostPattern {
    /// Parses `example.com`, `*.example.com` or an IP literal. Returns `None` if the text is no host.
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

    /// Returns how specifically the pattern matches a host, which may have any letter case but neither port nor final dot.
    /// An exact match has the largest number. Returns `None` if the host doesn't match.
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

/// Header fields of every response, unless the site sets them itself. A `Content-Security-Policy` of the site is sent in
/// addition to ours, because policies accumulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecurityHeaders {
    /// `Referrer-Policy`, `X-Content-Type-Options` and `X-Frame-Options`.
    pub basic: bool,
    /// `Strict-Transport-Security` and `Content-Security-Policy: upgrade-insecure-requests`.
    pub tls: bool,
}

impl SecurityHeaders {
    /// Returns the fields for connections without TLS of a server that also has TLS listeners: RFC 6797 §7.2 forbids
    /// `Strict-Transport-Security` there. A server without TLS listeners sends it, because a proxy may add TLS.
    #[must_use]
    pub fn without_tls(self) -> SecurityHeaders {
        SecurityHeaders { tls: false, ..self }
    }

    /// Returns the fields with their values.
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

/// Configuration of an access log.
#[derive(Debug, Clone)]
pub struct AccessLog {
    /// The destination.
    pub target: LogTarget,
    /// The format of its lines.
    pub format: LogFormat,
    /// Proxies that are trusted to name the client.
    pub proxies: Option<TrustedProxies>,
}

/// Destination of an access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// Appends to this file, which is reopened on request.
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

/// Format of the lines of an access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Apache's combined format.
    Combined,
    /// A JSON object for each line.
    Json,
    /// For a terminal: a short line for each response with a status of 400 or more, and none for the others.
    Failures,
}

/// Timeouts for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a request head from its first byte to its last, and again for the content.
    pub head: Duration,
    /// Between requests on a persistent connection, and before the first.
    pub idle: Duration,
    /// Replaces `idle` while other connections wait for a free slot.
    pub idle_crowded: Duration,
    /// For a handler to make a response.
    pub handler: Duration,
    /// Interval at which the progress of a receiving client is checked. In each one it must receive data at the rate
    /// `cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN` or faster. The total time of a response is not limited.
    pub send: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            // A head is usually one packet. Ten seconds tolerate a bad mobile link.
            head: Duration::from_secs(10),
            // Browsers keep a connection for a minute or more, and an idle one costs less than 200 bytes.
            idle: Duration::from_secs(75),
            // Enough for the next request of a page that is being loaded.
            idle_crowded: Duration::from_secs(5),
            // As long as proxies wait, and people do not.
            handler: Duration::from_secs(60),
            // Longer than any retransmission that succeeds in practice.
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
