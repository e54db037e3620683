//! What a server can be told: a plain struct in which a wrong setting cannot be written.
//!
//! Never parses a command line.

mod trusted_proxies;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use cannery_archive::Loading;
pub use cannery_eventloop::Address;
pub use cannery_secure::{SelfSigned, Source as CertificateFiles};

use crate::notice::Notice;
pub use crate::sandbox::{Account, SandboxPolicy, Wanted};
pub use trusted_proxies::{ForwardedField, ProxySource, TrustedProxies};

/// What a server shall do.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen in the clear. Port 0 takes any free port.
    pub listen: Vec<Address>,
    /// Where to listen for TLS; then `tls` says how.
    pub listen_tls: Vec<Address>,
    /// The certificates and protocols of connections by TLS.
    pub tls: Option<Tls>,
    /// Whether HTTP/1 is spoken.
    pub http1: bool,
    /// Whether HTTP/2 is spoken: by TLS with clients that ask for it, in the clear with those who begin with it.
    pub http2: bool,
    /// Whether what is asked in the clear is sent to `https`, and to which port.
    pub https_redirect: Option<HttpsRedirect>,
    /// The permissions of the paths of local sockets, as for `chmod`; without them, what the process's file mode
    /// mask leaves.
    pub local_mode: Option<u32>,
    /// Whether the kernel keeps TCP connections back until their peers have sent something; those of operators never are.
    /// Sockets that were inherited and had this from whoever opened them keep it either way.
    pub defer_accept: bool,
    /// Listening sockets that whoever started this process left open for it, by number: in place of `listen` and
    /// `listen_tls`.
    pub inherited: Vec<(ListenerKind, i32)>,
    /// Listening sockets of other processes, which are served while those are gone: the process's number, and the
    /// descriptor's.
    pub standby: Vec<(usize, ListenerKind, i32)>,
    /// What to answer.
    pub content: Content,
    /// Serving threads, each with its own loop and its own listeners.
    pub threads: NonZeroUsize,
    /// By which interface of the kernel they serve.
    pub io: Io,
    /// Connections that may be open at a time, all threads together. Who comes then waits in the kernel's
    /// queue. Without a limit, that of descriptors does the same.
    pub connections_max: Option<NonZeroUsize>,
    /// Whether every connection begins with a PROXY header, which names the client; but not those of operators.
    pub proxy_protocol: bool,
    /// Whether the `Host` of a request can pick a site within the archive.
    pub hosts: bool,
    /// Fields that go with every answer.
    pub security_headers: SecurityHeaders,
    /// Whether clients may keep permanent redirects for a while. Not where the site is edited meanwhile.
    pub keeps_redirects: bool,
    /// How long to wait for a peer; none of these for measuring only.
    pub timeouts: Option<Timeouts>,
    /// How long connections may finish what they are sending after the order to stop.
    pub drain: Duration,
    /// Pages of the server's own, below `/__/`.
    pub special_pages: Option<SpecialPages>,
    /// A directory with the tokens of certificate authorities.
    pub acme_webroot: Option<PathBuf>,
    /// Where each request is written down.
    pub access_log: Option<AccessLog>,
    /// Where an operator may ask how the server is doing.
    pub admin: Option<Address>,
    /// Names by which operators may ask, besides addresses and `localhost`.
    pub admin_hosts: Vec<HostPattern>,
    /// A socket on which whoever started this process asks for figures, by number.
    pub figures: Option<i32>,
    /// How often the figures are told.
    pub report: Option<Duration>,
    /// How much of a cage there must be.
    pub sandbox: SandboxPolicy,
    /// Whom to be once everything is open; nothing to stay who started the server.
    pub account: Option<Account>,
    /// Who is told of what happens while the server runs.
    pub on_notice: NoticeHandler,
}

impl Config {
    /// A server of this content on one thread, with nothing around it: it listens nowhere, writes no log, tells
    /// nobody, and has no cage. Its answers and its patience are the usual ones.
    #[must_use]
    pub fn plain(content: Content) -> Config {
        Config {
            listen: Vec::new(),
            listen_tls: Vec::new(),
            tls: None,
            http1: true,
            http2: true,
            https_redirect: None,
            local_mode: None,
            defer_accept: false,
            inherited: Vec::new(),
            standby: Vec::new(),
            content,
            threads: NonZeroUsize::MIN,
            io: Io::Auto,
            connections_max: None,
            proxy_protocol: false,
            hosts: true,
            security_headers: SecurityHeaders { basic: true, tls: false },
            keeps_redirects: true,
            timeouts: Some(Timeouts::default()),
            drain: Duration::ZERO,
            special_pages: None,
            acme_webroot: None,
            access_log: None,
            admin: None,
            admin_hosts: Vec::new(),
            figures: None,
            report: None,
            sandbox: SandboxPolicy::OFF,
            account: None,
            on_notice: NoticeHandler::ignore(),
        }
    }

    /// Whether it listens for TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        !self.listen_tls.is_empty() || self.inherited.iter().any(|(kind, _)| *kind == ListenerKind::Tls)
    }

    /// Returns `true` if operators can query memory, descriptors and CPU time of the process.
    pub(crate) fn samples_process(&self) -> bool {
        self.admin.is_some() || self.figures.is_some()
    }

    /// Whether anybody will ask what was counted.
    #[must_use]
    pub(crate) fn counts(&self) -> bool {
        self.admin.is_some() || self.figures.is_some() || self.report.is_some()
    }
}

/// What is spoken on the connections of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerKind {
    /// HTTP in the clear.
    Plain,
    /// TLS, and HTTP within it.
    Tls,
}

impl ListenerKind {
    /// A number for it, by which workers tell each other.
    pub(crate) fn number(self) -> u32 {
        match self {
            ListenerKind::Plain => 0,
            ListenerKind::Tls => 1,
        }
    }

    /// The kind of a number.
    pub(crate) fn of_number(number: u32) -> ListenerKind {
        if number == 0 { ListenerKind::Plain } else { ListenerKind::Tls }
    }
}

/// How TLS is spoken.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Files with certificates and keys. The first is shown to clients that name no host, or one that no certificate is
    /// for.
    pub certificates: Vec<CertificateFiles>,
    /// A certificate that is made at the start, for trying out; it stands behind the others.
    pub self_signed: Option<SelfSigned>,
    /// A descriptor that whoever started this process left open, from which the seed of tickets is read: processes with
    /// the same seed take each other's. Without it this process has one of its own.
    pub seed: Option<i32>,
}

/// Where what is asked in the clear is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpsRedirect {
    /// The port at which the server itself listens for TLS first; where that is not known, 443.
    OwnPort,
    /// This port, where that is another one from outside.
    Port(u16),
}

impl HttpsRedirect {
    /// The port, for a server that listens at these addresses.
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

/// By which interface of the kernel connections are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Io {
    /// The server's choice, which is `epoll(7)`.
    #[default]
    Auto,
    /// `epoll(7)`, which every Linux has.
    Epoll,
    /// `io_uring(7)`; without it there is no start.
    Uring,
}

/// Who is told of what happens while the server runs. Called by threads that serve nobody.
#[derive(Clone)]
pub struct NoticeHandler(pub Arc<dyn Fn(&Notice) + Send + Sync>);

impl NoticeHandler {
    /// Nobody.
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

/// What the server answers with.
#[derive(Debug, Clone)]
pub enum Content {
    /// Archives, each for a host or for all others; at least one.
    Archives {
        /// Which.
        archives: Vec<NamedArchive>,
        /// How their bytes are held.
        loading: Loading,
        /// Whether an archive that was replaced is taken up without being told.
        watch: bool,
    },
    /// The same few bytes to every request, with no field but `Content-Length`: what the engine alone
    /// can do.
    Dummy {
        /// The body.
        body: &'static [u8],
    },
}

/// An archive, and whom it answers for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedArchive {
    /// The hosts that it answers for; nothing for the default, which answers for all others.
    pub host: Option<HostPattern>,
    /// Where it is.
    pub path: PathBuf,
    /// The release directory that it is the current archive of, if paths of other releases are answered too.
    pub releases: Option<ReleaseDirectory>,
}

impl NamedArchive {
    /// One archive alone.
    #[must_use]
    pub fn new(host: Option<HostPattern>, path: PathBuf) -> NamedArchive {
        NamedArchive { host, path, releases: None }
    }

    /// The current archive of a release directory.
    #[must_use]
    pub fn of_directory(host: Option<HostPattern>, releases: ReleaseDirectory) -> NamedArchive {
        NamedArchive { host, path: releases.path.join(CURRENT), releases: Some(releases) }
    }
}

/// The name of the link to the current archive of a release directory.
pub const CURRENT: &str = "current";

/// A directory of archives, whose link `current` leads to the one that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseDirectory {
    /// Where it is.
    pub path: PathBuf,
    /// How many of the other archives answer paths that the current one lacks, the newest first.
    pub kept: usize,
}

/// The contents of the pages below `/__/cannery/`.
#[derive(Debug, Clone)]
pub struct SpecialPages {
    /// What this is, in a sentence or two.
    pub about: String,
    /// The manual page as text.
    pub manual: String,
    /// The pages that have the exact version.
    pub exact: Option<ExactPages>,
}

/// Pages that tell the exact version, and so its known faults.
#[derive(Debug, Clone)]
pub struct ExactPages {
    /// The version alone.
    pub version: String,
    /// What the program is made of, as CycloneDX JSON.
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
    /// Reads `example.com`, `*.example.com` or an IP literal. Nothing if the text is no host.
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

    /// Whether a host, in any letter case and without port or final dot, is meant; the larger the number, the
    /// nearer.
    #[must_use]
    pub fn matches(&self, host: &[u8]) -> Option<usize> {
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

/// Which fields go with every answer, unless the site sets them itself. A site's own `Content-Security-Policy` stands
/// beside ours, for policies add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecurityHeaders {
    /// `Referrer-Policy`, `X-Content-Type-Options` and `X-Frame-Options`.
    pub basic: bool,
    /// `Strict-Transport-Security` and `Content-Security-Policy: upgrade-insecure-requests`.
    pub tls: bool,
}

impl SecurityHeaders {
    /// The same for answers in the clear of a server that has connections of both kinds: RFC 6797 §7.2 keeps
    /// `Strict-Transport-Security` from those. Where all are in the clear, a proxy in front has the other kind.
    #[must_use]
    pub fn without_tls(self) -> SecurityHeaders {
        SecurityHeaders { tls: false, ..self }
    }

    /// The fields, each with its value.
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

/// Where an access log goes, and how its lines are spelled.
#[derive(Debug, Clone)]
pub struct AccessLog {
    /// Where.
    pub target: LogTarget,
    /// How.
    pub format: LogFormat,
    /// Proxies that are believed when they name a client.
    pub proxies: Option<TrustedProxies>,
}

/// Where an access log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// To the end of this file, which is opened anew when told so.
    File(PathBuf),
    /// To standard output.
    Stdout,
    /// To standard error.
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

/// How the lines of an access log are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Apache's combined format.
    Combined,
    /// A JSON object for each line.
    Json,
    /// For a terminal: a short line for each response with a status of 400 or more, and none for the others.
    Failures,
}

/// How long the server waits for a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request's head to its last, and the same for its content.
    pub head: Duration,
    /// Between requests on an open connection, and before the first.
    pub idle: Duration,
    /// The same while others wait for a place.
    pub idle_crowded: Duration,
    /// How often a peer that takes an answer is looked at: in each such time it must take the least rate of
    /// `cannery_wire::limits::SEND_BYTES_PER_SECOND_MIN`. There is no limit for an answer as a whole.
    pub send: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            // A head is one packet for nearly everybody; ten seconds forgive a bad mobile link.
            head: Duration::from_secs(10),
            // Browsers keep a connection for a minute or more; an idle one costs us under 200 bytes.
            idle: Duration::from_secs(75),
            // Time enough to send the next request of a page that is being loaded.
            idle_crowded: Duration::from_secs(5),
            // Longer than any retransmission that still succeeds in practice.
            send: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_host_is_the_exact_one_then_the_longest() {
        let nearness =
            |pattern: &str, host: &str| HostPattern::parse(pattern).unwrap().matches(host.as_bytes());
        assert_eq!(nearness("example.com", "EXAMPLE.com"), Some(usize::MAX));
        assert_eq!(nearness("example.com", "www.example.com"), None);
        assert!(
            nearness("*.example.com", "a.b.example.com") < nearness("*.b.example.com", "a.b.example.com")
        );
        assert_eq!(nearness("*.example.com", "example.com"), None);
        assert_eq!(nearness("*.example.com", ".example.com"), None);
        assert_eq!(nearness("*.example.com", "badexample.com"), None);
        assert_eq!(nearness("[::1]", "[::1]"), Some(usize::MAX));
    }

    #[test]
    fn what_is_no_host_is_none() {
        for text in ["", "*.", "*", "a b", "/srv/site.cdb", "a/b", "-a", ".a", "a*.b", "[::1"] {
            assert_eq!(HostPattern::parse(text), None, "{text}");
        }
    }
}
