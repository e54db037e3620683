//! Contents of an access log line, before it is encoded.

use std::net::SocketAddr;
use std::time::Duration;

use cannery_transport::Version;
use cannery_wire::RequestLine;

use crate::observe::request_log::Handled;

/// Contents of an access log line.
pub(super) struct Line<'a> {
    pub(super) client: Option<SocketAddr>,
    /// `None` if the connection does not use TLS.
    pub(super) tls: Option<Version>,
    /// `None` if it could not be parsed.
    pub(super) request: Option<RequestLine<'a>>,
    pub(super) host: Option<&'a [u8]>,
    pub(super) referer: Option<&'a [u8]>,
    pub(super) user_agent: Option<&'a [u8]>,
    pub(super) status: u16,
    /// Content length in bytes.
    pub(super) bytes: u64,
    /// `None` for identity.
    pub(super) coding: Option<&'a [u8]>,
    pub(super) handled: Handled<'a>,
}

/// Times in a line that are more precise than a second.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// Milliseconds within the second.
    pub(super) milliseconds: u32,
    /// Time since the worker woke up to process the request, including earlier waits for a handler.
    pub(super) duration: Duration,
}
