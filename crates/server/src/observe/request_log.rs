//! A request and the response, as counters and logs get to see them.

use std::net::SocketAddr;
use std::time::Duration;

use cannery_site::{Answer, Fields};
use cannery_transport::Version;
use cannery_wire::{Refusal, RequestHead, RequestLine};

/// A request that was answered, and the response.
pub(crate) struct LoggedRequest<'a> {
    /// The other end of the connection.
    pub(crate) peer: Option<SocketAddr>,
    /// `None` if the connection does not use TLS.
    pub(crate) tls: Option<Version>,
    pub(crate) head: &'a RequestHead<'a>,
    pub(crate) response: &'a LoggedResponse<'a>,
    /// Bytes of the response head and content that are sent to the peer.
    pub(crate) bytes: u64,
    pub(crate) handled: Handled<'a>,
}

/// The part that a handler has in a response. Responses of the site have the default.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Handled<'a> {
    /// Number and pattern of the route.
    pub(crate) route: Option<(usize, &'a str)>,
    /// Time that the request has waited for the pool and its handler, until this iteration.
    pub(crate) waited: Duration,
}

/// Bytes that were refused as a request.
pub(crate) struct RefusedRequest<'a> {
    /// The other end of the connection.
    pub(crate) peer: Option<SocketAddr>,
    /// `None` if the connection does not use TLS.
    pub(crate) tls: Option<Version>,
    pub(crate) refusal: Refusal,
    /// The request line, as far as we could parse it.
    pub(crate) line: Option<RequestLine<'a>>,
    /// The decoded part of the head. `None` for HTTP/1, where parsing stops at the first error.
    pub(crate) head: Option<&'a RequestHead<'a>>,
    /// Bytes of the response's content that are sent.
    pub(crate) content_bytes: u64,
}

/// A response of a site, or of the server itself.
pub(crate) enum LoggedResponse<'a> {
    /// A response of a site.
    Site(Answer<'a>),
    /// A built-in page, or the response of `--dummy`.
    Own {
        status: u16,
        /// Bytes of the content that are sent.
        content_bytes: u64,
    },
}

impl LoggedResponse<'_> {
    pub(super) fn status(&self) -> u16 {
        match self {
            LoggedResponse::Site(answer) => answer.status,
            LoggedResponse::Own { status, .. } => *status,
        }
    }

    /// Returns the number of content bytes that are sent.
    pub(super) fn content_bytes(&self) -> u64 {
        match self {
            LoggedResponse::Site(answer) => answer.sent_content_bytes(),
            LoggedResponse::Own { content_bytes, .. } => *content_bytes,
        }
    }

    /// The content coding, or `None` for identity. This has to search the response head, so only call it for
    /// log formats that need it.
    pub(super) fn coding(&self) -> Option<&[u8]> {
        const NAME: &[u8] = b"Content-Encoding: ";
        let LoggedResponse::Site(answer) = self else { return None };
        let (Fields::Canned { head, .. } | Fields::Partial { head, .. }) = &answer.fields else {
            return None;
        };
        let mut lines = head.representation().split(|byte| *byte == b'\n');
        lines.find_map(|line| line.strip_prefix(NAME)).map(<[u8]>::trim_ascii)
    }
}
