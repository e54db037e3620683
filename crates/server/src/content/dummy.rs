//! Responses of `--dummy`, encoded at startup: the same few bytes to every request.

use std::time::Duration;

use cannery_wire::h1::dummy_response;

/// Complete responses, the same for every request.
#[derive(Debug)]
pub(crate) struct Dummy {
    /// For persistent HTTP/1.1 connections.
    pub(super) plain: Vec<u8>,
    /// For persistent HTTP/1.0 connections.
    pub(super) keep_alive: Vec<u8>,
    /// For connections that close after the response.
    pub(super) close: Vec<u8>,
    /// The content of each response.
    pub(super) body: &'static [u8],
    /// The length of the content in decimal.
    pub(super) length: String,
    delay: Duration,
}

impl Dummy {
    pub(super) fn new(body: &'static [u8], delay: Duration) -> Dummy {
        Dummy {
            plain: dummy_response(body, None, None),
            keep_alive: dummy_response(body, Some("keep-alive"), None),
            close: dummy_response(body, Some("close"), None),
            body,
            length: body.len().to_string(),
            delay,
        }
    }

    /// Waits before a response, like a handler that blocks its thread.
    #[inline]
    pub(super) fn wait(&self) {
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
    }
}
