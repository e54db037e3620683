//! A request and its answer, as whoever counts and logs looks at them.

use std::net::SocketAddr;

use cannery_site::Answer;
use cannery_wire::RequestHead;

/// A request that was answered.
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

impl Answered<'_> {
    pub(crate) fn status(&self) -> u16 {
        self.answer.map_or(200, |answer| answer.status)
    }
}
