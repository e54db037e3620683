//! The contents of a line of the access log, before it is spelled.

use std::net::SocketAddr;
use std::time::Duration;

use cannery_secure::Version;
use cannery_wire::RequestHead;

/// The contents of a line.
pub(super) struct Line<'a> {
    pub(super) client: Option<SocketAddr>,
    /// The version of TLS, if there is any.
    pub(super) tls: Option<Version>,
    /// `None` if what was sent is no request.
    pub(super) head: Option<&'a RequestHead<'a>>,
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
    /// Since the request was taken up.
    pub(super) duration: Duration,
}
