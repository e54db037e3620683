//! What a server can be told: a plain struct in which a wrong setting cannot be written.
//!
//! Never parses a command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use cannery_archive::Loading;
pub use cannery_eventloop::Address;

pub use crate::cage::{Account, Sandbox, Wanted};
use crate::notice::Notice;
pub use crate::special::SpecialPages;

/// What a server shall do.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen for HTTP/1.1 in the clear; at least one. Port 0 takes any free port.
    pub listen: Vec<Address>,
    /// The permissions of the paths of local sockets, as for `chmod`; without them, what the process's file mode
    /// mask leaves.
    pub local_mode: Option<u32>,
    /// Listening sockets that whoever started this process left open for it, by number: in place of `listen`.
    pub inherited: Vec<i32>,
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
    /// How long to wait for a peer; none of these for measuring only.
    pub timeouts: Option<Timeouts>,
    /// How long connections may finish what they are sending after the order to stop.
    pub drain: Duration,
    /// Pages of the server's own, below `/__/`.
    pub special_pages: Option<SpecialPages>,
    /// Where each request is written down.
    pub access_log: Option<AccessLog>,
    /// Where an operator may ask how the server is doing.
    pub admin: Option<Address>,
    /// A socket on which whoever started this process asks for figures, by number.
    pub figures: Option<i32>,
    /// How often the figures are told.
    pub report: Option<Duration>,
    /// How much of a cage there must be.
    pub sandbox: Sandbox,
    /// Whom to be once everything is open; nothing to stay who started the server.
    pub account: Option<Account>,
    /// Who is told of what happens while the server runs.
    pub listener: Listener,
}

impl Config {
    /// A server of this content on one thread, with nothing around it: it listens nowhere, writes no log, tells
    /// nobody, and has no cage. Its answers and its patience are the usual ones.
    #[must_use]
    pub fn plain(content: Content) -> Config {
        Config {
            listen: Vec::new(),
            local_mode: None,
            inherited: Vec::new(),
            content,
            threads: NonZeroUsize::MIN,
            io: Io::Auto,
            connections_max: None,
            proxy_protocol: false,
            hosts: true,
            security_headers: SecurityHeaders { basic: true, tls: false },
            timeouts: Some(Timeouts::default()),
            drain: Duration::ZERO,
            special_pages: None,
            access_log: None,
            admin: None,
            figures: None,
            report: None,
            sandbox: Sandbox::OFF,
            account: None,
            listener: Listener::nobody(),
        }
    }

    /// Whether anybody will ask what was counted.
    #[must_use]
    pub(crate) fn counts(&self) -> bool {
        self.admin.is_some() || self.figures.is_some() || self.report.is_some()
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
pub struct Listener(pub Arc<dyn Fn(&Notice) + Send + Sync>);

impl Listener {
    /// Nobody.
    #[must_use]
    pub fn nobody() -> Listener {
        Listener(Arc::new(|_| {}))
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
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

/// Which fields go with every answer, unless the site sets them itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecurityHeaders {
    /// `Referrer-Policy`, `X-Content-Type-Options`, `X-XSS-Protection` and `X-Frame-Options`.
    pub basic: bool,
    /// `Strict-Transport-Security` and `Content-Security-Policy: upgrade-insecure-requests`.
    pub tls: bool,
}

impl SecurityHeaders {
    /// The fields, each with its value.
    #[must_use]
    pub fn fields(self) -> Vec<(&'static str, &'static str)> {
        let basic = [
            ("Referrer-Policy", "strict-origin-when-cross-origin"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-XSS-Protection", "1; mode=block"),
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
}

/// Where an access log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// To the end of this file, which is opened anew when told so.
    File(PathBuf),
    /// To standard output.
    Stdout,
}

/// How the lines of an access log are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Apache's combined format.
    Combined,
    /// A JSON object for each line.
    Json,
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
