//! Responses of `--dummy`. All requests get the same few bytes, which are encoded once.

use std::sync::OnceLock;
use std::time::Duration;

use cannery_wire::h1::dummy_response;

/// Complete responses that are the same for every request.
#[derive(Debug)]
pub(crate) struct Dummy {
    plain: Responses,
    /// Responses with `Alt-Svc`. The value (which is the same for all workers) is not known in advance, so
    /// they are encoded when first needed.
    referring: OnceLock<Responses>,
    /// Content of each response.
    pub(super) body: &'static [u8],
    /// Length of the content, in decimal.
    pub(super) length: String,
    delay: Option<Duration>,
}

/// The same response for different kinds of connections.
#[derive(Debug)]
pub(super) struct Responses {
    /// For persistent HTTP/1.1 connections.
    pub(super) plain: Vec<u8>,
    /// For persistent HTTP/1.0 connections.
    pub(super) keep_alive: Vec<u8>,
    /// For connections that close after the response.
    pub(super) close: Vec<u8>,
}

impl Dummy {
    pub(super) fn new(body: &'static [u8], delay: Duration) -> Dummy {
        Dummy {
            plain: Responses::new(body, None),
            referring: OnceLock::new(),
            body,
            length: body.len().to_string(),
            delay: (!delay.is_zero()).then_some(delay),
        }
    }

    /// Returns the responses with this `Alt-Svc` value.
    #[inline]
    pub(super) fn responses(&self, alternative: Option<&str>) -> &Responses {
        match alternative {
            None => &self.plain,
            Some(alternative) => self.referring.get_or_init(|| Responses::new(self.body, Some(alternative))),
        }
    }

    /// Waits before a response, like a handler that blocks its thread.
    #[inline]
    pub(super) fn wait(&self) {
        if let Some(delay) = self.delay {
            std::thread::sleep(delay);
        }
    }
}

impl Responses {
    fn new(body: &[u8], alternative: Option<&str>) -> Responses {
        Responses {
            plain: dummy_response(body, None, alternative),
            keep_alive: dummy_response(body, Some("keep-alive"), alternative),
            close: dummy_response(body, Some("close"), alternative),
        }
    }
}
