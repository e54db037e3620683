//! What a worker tells of its work: called where something happens, and never in the way of it.
//!
//! One for each worker, so that nothing is shared on the request path.

use std::net::SocketAddr;

use cannery_site::Answer;
use cannery_wire::Refusal;
use cannery_wire::h1::RequestHead;

/// Watches one worker.
#[derive(Debug, Default)]
pub(crate) struct Observer {}

/// A request that was answered.
#[allow(dead_code, reason = "read by whoever counts and logs")]
pub(crate) struct Answered<'a> {
    /// Who asked.
    pub(crate) peer: Option<SocketAddr>,
    /// What was asked.
    pub(crate) head: &'a RequestHead<'a>,
    /// The answer; nothing where the engine answered without a site.
    pub(crate) answer: Option<&'a Answer<'a>>,
    /// Bytes of the answer's head and body as they go to the peer.
    pub(crate) bytes: u64,
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The peer ended it, or its last answer was sent.
    InOrder,
    /// The peer was waited for too long.
    TimedOut,
    /// It broke.
    Broken,
}

#[allow(clippy::unused_self, reason = "called where something happens, whether or not anybody listens")]
impl Observer {
    /// A connection was accepted.
    #[inline]
    pub(crate) fn accepted(&mut self) {}

    /// A request was answered: the answer is spelled, and sent next.
    #[inline]
    pub(crate) fn answered(&mut self, _: &Answered<'_>) {}

    /// What a peer sent was no request.
    #[inline]
    pub(crate) fn refused(&mut self, _: Option<SocketAddr>, _: Refusal) {}

    /// A connection ended.
    #[inline]
    pub(crate) fn closed(&mut self, _: Closed) {}
}
