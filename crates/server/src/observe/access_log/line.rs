//! The contents of a line of the access log, before it is spelled.

use std::net::SocketAddr;
use std::time::Duration;

use cannery_secure::Version;
use cannery_wire::RequestLine;

/// The contents of a line.
pub(super) struct Line<'a> {
    pub(super) client: Option<SocketAddr>,
    /// The version of TLS, if there is any.
    pub(super) tls: Option<Version>,
    /// `None` if it can't be read.
    pub(super) request: Option<RequestLine<'a>>,
    pub(super) host: Option<&'a [u8]>,
    pub(super) referer: Option<&'a [u8]>,
    pub(super) user_agent: Option<&'a [u8]>,
    pub(super) status: u16,
    /// Bytes of the content.
    pub(super) bytes: u64,
    /// The content coding, unless it is identity.
    pub(super) coding: Option<&'a [u8]>,
}

/// When a line is written, to a finer degree than a second.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// Milliseconds of the second.
    pub(super) milliseconds: u32,
    /// Since the worker woke up to handle the request.
    pub(super) duration: Duration,
}
