//! Both HTTP/2 and HTTP/3 have streams. This is their common interface.

use std::time::Instant;

use super::output::Output;
use super::server_fields::ServerFields;
use crate::request::stored::StoredRequest;
use crate::request::streamed::Arrival;
use crate::response::Response;

/// A connection with streams.
///
/// Each request has a stream and gets one response, from a function that starts with `respond`. Callers must respond before the
/// connection reads the next request, or else use [`receive_content`](Multiplexed::receive_content) or
/// [`postpone`](Multiplexed::postpone) to respond later.
pub trait Multiplexed {
    /// Identifies a stream of the connection.
    type StreamId: Copy;

    /// Writes a response. There will be no body if the method is `HEAD`.
    fn respond(&mut self, stream: Self::StreamId, response: &Response<'_>, output: &mut Output);

    /// Writes a response, encoding its head. If the method is `HEAD`, there will be no body.
    fn respond_with_head(
        &mut self,
        stream: Self::StreamId,
        head: &OwnHead<'_>,
        body: &[u8],
        output: &mut Output,
    );

    /// Encodes a head that is followed by a body of unknown length, unless the method is `HEAD`. Returns whether there is a body.
    fn begin_response(
        &mut self,
        stream: Self::StreamId,
        head: &OwnHead<'_>,
        output: &mut Output,
    ) -> BodyFollows;

    /// Returns `true` if there may be content after this request.
    fn awaits_content(&self, stream: Self::StreamId) -> bool;

    /// Returns the announced length of the request's content.
    fn announced_content(&self, stream: Self::StreamId) -> Option<u64>;

    /// Waits for the content of a request, up to `bytes_max` bytes.
    fn receive_content(&mut self, stream: Self::StreamId, request: StoredRequest, bytes_max: usize);

    /// Returns a request that has all of its content now. Callers must respond before the connection reads the next one.
    fn take_received(&mut self, stream: Self::StreamId) -> Option<StoredRequest>;

    /// Returns `true` if the client waits until it is asked to send the content (RFC 9110 §10.1.1).
    fn expects_continue(&self, stream: Self::StreamId) -> bool;

    /// Asks the client to send the content of the request. Must not be called after the response has begun.
    fn put_continue(&mut self, stream: Self::StreamId, output: &mut Output);

    /// Passes on the content of a postponed request while it arrives, up to `bytes_max` bytes. Callers should take it with
    /// [`take_content`](Multiplexed::take_content).
    fn stream_content(&mut self, stream: Self::StreamId, bytes_max: u64);

    /// Moves content that has arrived to the end of `bytes`. Once it has ended, the rest is discarded.
    fn take_content(&mut self, stream: Self::StreamId, bytes: &mut Vec<u8>) -> Arrival;

    /// Lets the client send more content. This starts its time again if it was held back before.
    fn permit_content(&mut self, stream: Self::StreamId, now: Instant, output: &mut Output);

    /// Keeps the client from sending more content than it already may. In the meantime, it is not late.
    fn hold_content(&mut self, stream: Self::StreamId);

    /// Discards the rest of the content.
    fn discard_content(&mut self, stream: Self::StreamId);

    /// Lets the connection read more requests in the meantime, so that this one can be answered later.
    fn postpone(&mut self, stream: Self::StreamId);

    /// Returns `true` if a postponed request still waits for its response. Returns `false` once it was cancelled.
    fn is_postponed(&mut self, stream: Self::StreamId) -> bool;

    /// Prepares for the response to a postponed request.
    fn resume(&mut self, stream: Self::StreamId) -> Resumption;
}

/// The interim response that asks for content (RFC 9110 §15.2.1).
pub(crate) const CONTINUE: [(&str, &[u8]); 1] = [(":status", b"100")];

/// A head that is not from an archive but from the server itself or from a handler.
#[derive(Debug, Clone, Copy)]
pub struct OwnHead<'a> {
    /// The fields, starting with `:status`. All names are in lower case.
    pub fields: &'a [(&'a str, &'a [u8])],
    /// Fields the server adds, and which of them the head already has, as in [`cannery_archive::Head::overrides`].
    pub server_fields: Option<(&'a ServerFields, u8)>,
}

impl<'a> OwnHead<'a> {
    /// Creates a head with just these fields.
    #[must_use]
    pub fn new(fields: &'a [(&'a str, &'a [u8])]) -> OwnHead<'a> {
        OwnHead { fields, server_fields: None }
    }
}

/// Whether the request is still there, after [`Multiplexed::resume`].
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// It is. You need to respond before the connection reads the next one.
    Ready,
    /// It was cancelled, or already has a response.
    Gone,
}

/// Whether there is a body after the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFollows {
    /// Yes. You should write its bytes to the connection once you have them.
    Yes,
    /// No. The request was for `HEAD`, or was cancelled.
    No,
}
