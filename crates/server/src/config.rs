//! What a server can be told: a plain struct in which a wrong setting cannot be written.
//!
//! Never parses a command line.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

pub use cannery_archive::Loading;

/// What a server shall do.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen for HTTP/1.1 in the clear; at least one. Port 0 takes any free port.
    pub listen: Vec<SocketAddr>,
    /// What to answer.
    pub content: Content,
    /// Serving threads, each with its own loop and its own listeners.
    pub threads: NonZeroUsize,
    /// Connections that may be open at a time, all threads together. Who comes then waits in the kernel's
    /// queue. Without a limit, that of descriptors does the same.
    pub connections_max: Option<NonZeroUsize>,
    /// Whether the `Host` of a request can pick a site within the archive.
    pub hosts: bool,
    /// Fields that go with every answer.
    pub security_headers: SecurityHeaders,
    /// How long to wait for a peer; none of these for measuring only.
    pub timeouts: Option<Timeouts>,
    /// How long connections may finish what they are sending after the order to stop.
    pub drain: Duration,
}

/// What the server answers with.
#[derive(Debug, Clone)]
pub enum Content {
    /// An archive.
    Archive {
        /// Where it is.
        path: PathBuf,
        /// How its bytes are held.
        loading: Loading,
    },
    /// The same few bytes to every request, with no field but `Content-Length`: what the engine alone
    /// can do.
    Dummy {
        /// The body.
        body: &'static [u8],
    },
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
