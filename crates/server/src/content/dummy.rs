//! The answers of `--dummy`, spelled ahead: the same few bytes to every request.

use cannery_wire::h1::dummy_response;

/// Whole answers, whatever is asked.
#[derive(Debug)]
pub(crate) struct Dummy {
    /// For connections that stay open as HTTP/1.1 does.
    pub(crate) plain: Vec<u8>,
    /// For HTTP/1.0 connections that stay open.
    pub(super) keep_alive: Vec<u8>,
    /// For connections that end.
    pub(crate) close: Vec<u8>,
    /// What is at the end of each.
    pub(crate) body: &'static [u8],
    /// How long that is, in digits.
    pub(crate) length: String,
}

impl Dummy {
    pub(crate) fn new(body: &'static [u8]) -> Dummy {
        Dummy {
            plain: dummy_response(body, None),
            keep_alive: dummy_response(body, Some("keep-alive")),
            close: dummy_response(body, Some("close")),
            body,
            length: body.len().to_string(),
        }
    }
}
