//! A request and its response, as counters and logs see them.

use std::net::SocketAddr;

use cannery_secure::Version;
use cannery_site::{Answer, Fields};
use cannery_wire::{Refusal, RequestHead, RequestLine};

/// An answered request and its response.
pub(crate) struct LoggedRequest<'a> {
    /// The other end of the connection.
    pub(crate) peer: Option<SocketAddr>,
    /// The TLS version, if the connection uses TLS.
    pub(crate) tls: Option<Version>,
    pub(crate) head: &'a RequestHead<'a>,
    pub(crate) response: &'a LoggedResponse<'a>,
    /// Bytes of the response head and content as they are sent to the peer.
    pub(crate) bytes: u64,
}

/// Bytes that were refused as a request.
pub(crate) struct RefusedRequest<'a> {
    /// The other end of the connection.
    pub(crate) peer: Option<SocketAddr>,
    /// The TLS version, if the connection uses TLS.
    pub(crate) tls: Option<Version>,
    pub(crate) refusal: Refusal,
    /// The request line, as far as it could be parsed.
    pub(crate) line: Option<RequestLine<'a>>,
    /// The decoded part of the head; `None` for HTTP/1, where parsing stops at the first error.
    pub(crate) head: Option<&'a RequestHead<'a>>,
    /// Bytes of the response's content that are sent.
    pub(crate) content_bytes: u64,
}

/// A response of a site or of the server itself.
pub(crate) enum LoggedResponse<'a> {
    /// A response of a site.
    Site(Answer<'a>),
    /// A built-in page, or the response of `--dummy`.
    Own {
        status: u16,
        /// Bytes of the content that is sent.
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

    /// Returns the content coding, or `None` for identity. This searches the response head, so we call it only for log
    /// formats that contain the coding.
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
