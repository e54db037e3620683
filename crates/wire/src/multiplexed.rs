//! Interface of connections that carry each request on a stream of its own: HTTP/2 and HTTP/3.

use crate::output::Output;
use crate::response::Response;

/// A connection of a version of HTTP with streams.
///
/// Each request is answered once, by one of these functions, before the connection reads the next one.
pub trait Multiplexed {
    /// Identifies a stream of the connection.
    type StreamId: Copy;

    /// Writes the response to a request. The answer to a request with the method `HEAD` has no body.
    fn respond(&mut self, stream: Self::StreamId, response: &Response<'_>, output: &mut Output);

    /// Responds to a request with fields that are encoded now: `:status` first, all names in lower case. The
    /// response to `HEAD` has no body.
    fn respond_with_fields(
        &mut self,
        stream: Self::StreamId,
        fields: &[(&str, &[u8])],
        body: &[u8],
        output: &mut Output,
    );
}
