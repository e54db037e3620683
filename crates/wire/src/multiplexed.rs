//! Interface of connections that carry each request on a stream of its own: HTTP/2 and HTTP/3.

use crate::output::Output;
use crate::response::Response;
use crate::server_fields::ServerFields;
use crate::stored_request::StoredRequest;

/// A connection of a version of HTTP with streams.
///
/// Each request is answered once, by one of the functions `respond`, before the connection reads the next one. With
/// [`receive_content`](Multiplexed::receive_content) and [`postpone`](Multiplexed::postpone) the response comes later.
pub trait Multiplexed {
    /// Identifies a stream of the connection.
    type StreamId: Copy;

    /// Writes the response to a request. The answer to a request with the method `HEAD` has no body.
    fn respond(&mut self, stream: Self::StreamId, response: &Response<'_>, output: &mut Output);

    /// Responds to a request with a head that is encoded now. The response to `HEAD` has no body.
    fn respond_with_head(
        &mut self,
        stream: Self::StreamId,
        head: &OwnHead<'_>,
        body: &[u8],
        output: &mut Output,
    );

    /// Writes a head that is encoded now. A body of unknown length follows, unless the request is for `HEAD`. Returns whether
    /// it does.
    fn begin_response(
        &mut self,
        stream: Self::StreamId,
        head: &OwnHead<'_>,
        output: &mut Output,
    ) -> BodyFollows;

    /// Returns `true` if content of the request may follow, which is to be answered.
    fn awaits_content(&self, stream: Self::StreamId) -> bool;

    /// Returns the length of the content that a request has announced, which is to be answered.
    fn announced_content(&self, stream: Self::StreamId) -> Option<u64>;

    /// Keeps a request until its content has arrived, which may have `bytes_max` bytes.
    fn receive_content(&mut self, stream: Self::StreamId, request: StoredRequest, bytes_max: usize);

    /// Returns a request after its content has arrived. It must be answered before the connection reads the next one.
    fn take_received(&mut self, stream: Self::StreamId) -> Option<StoredRequest>;

    /// Lets the connection read more requests before this one is answered.
    fn postpone(&mut self, stream: Self::StreamId);

    /// Returns `true` if a request was postponed, and neither answered nor cancelled since.
    fn is_postponed(&mut self, stream: Self::StreamId) -> bool;

    /// Prepares the response to a request that was postponed.
    fn resume(&mut self, stream: Self::StreamId) -> Resumption;
}

/// The head of a response that is not in an archive: of the server itself, or of a handler.
#[derive(Debug, Clone, Copy)]
pub struct OwnHead<'a> {
    /// The fields: `:status` first, all names in lower case.
    pub fields: &'a [(&'a str, &'a [u8])],
    /// The fields that the server adds, and which of them the head sets itself, as in [`cannery_archive::Head::overrides`].
    pub server_fields: Option<(&'a ServerFields, u8)>,
}

impl<'a> OwnHead<'a> {
    /// Returns a head with these fields only.
    #[must_use]
    pub fn new(fields: &'a [(&'a str, &'a [u8])]) -> OwnHead<'a> {
        OwnHead { fields, server_fields: None }
    }
}

/// The state of a request after [`Multiplexed::resume`].
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// It must be answered before the connection reads the next one.
    Ready,
    /// The client has cancelled it, or it was answered before.
    Gone,
}

/// Whether a body follows the head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFollows {
    /// Its bytes are passed to the connection as they become known.
    Yes,
    /// The request was for `HEAD`, or was cancelled.
    No,
}
