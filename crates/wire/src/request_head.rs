//! What every version of HTTP hands up of a request: what is asked, and what is written down of who asks.
//!
//! Borrows all of it, and knows nothing of connections: whether one stays open is its protocol's affair.

use cannery_site::{Conditions, Method, Request};

/// The head of a request, whatever protocol it came by.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// What is asked.
    pub request: Request<'a>,
    /// The method as it was sent.
    pub method_name: &'a [u8],
    /// The version of HTTP that the client speaks.
    pub version: Version,
    /// `Referer`, for logs alone.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, for logs alone.
    pub user_agent: Option<&'a [u8]>,
    /// Field lines as HTTP/1 has them, for those who look for what few requests need: all of them, or, of a request of
    /// HTTP/2, `Forwarded` and `X-Forwarded-For`.
    pub field_lines: &'a [u8],
}

/// A version of HTTP, as far as answers and logs tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, or a later minor version of it.
    Http11,
    /// HTTP/2.
    Http2,
}

impl Version {
    /// The version as logs spell it: `HTTP/` and this.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
            Version::Http2 => "2.0",
        }
    }
}

impl RequestHead<'_> {
    /// No head: room for one.
    pub const EMPTY: RequestHead<'static> = RequestHead {
        request: Request::new(Method::Get, b""),
        method_name: b"",
        version: Version::Http11,
        referer: None,
        user_agent: None,
        field_lines: b"",
    };

    /// Takes out what no request needs to have, and does no more: a head is large, and most is not there.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.request.host = None;
        self.request.accept_encoding.clear();
        if self.request.conditions.any {
            self.request.conditions = Conditions::NONE;
        }
        self.referer = None;
        self.user_agent = None;
    }
}
