//! What a line of the access log tells, before it is spelled.

use std::net::SocketAddr;

use cannery_wire::RequestHead;

/// What a line tells.
pub(super) struct Line<'a> {
    pub(super) peer: Option<SocketAddr>,
    /// Nothing where what was sent is no request.
    pub(super) head: Option<&'a RequestHead<'a>>,
    pub(super) status: u16,
    /// Bytes of the body.
    pub(super) bytes: u64,
}
