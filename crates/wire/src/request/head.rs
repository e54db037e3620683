//! Request heads, independent of the HTTP version: the request for the site, plus fields for logs.
//!
//! Everything is borrowed. Note that each protocol needs to decide on its own if a connection stays open.

use cannery_site::{Conditions, Intent, Method, Request};

/// A request head from any version of HTTP.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// The request for the site.
    pub request: Request<'a>,
    /// The method as sent.
    pub method_name: &'a [u8],
    /// The client's version of HTTP.
    pub version: Version,
    /// `Referer`. Only for logs.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`. Only for logs.
    pub user_agent: Option<&'a [u8]>,
    /// Field lines in HTTP/1 syntax, which few requests need. They can include all fields; for HTTP/2 and HTTP/3, this depends on
    /// [`KeptLines`](crate::KeptLines).
    pub field_lines: &'a [u8],
}

/// An HTTP version. We only distinguish those that matter for responses and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, or a later minor version.
    Http11,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

impl Version {
    /// Returns the version for logs, without `HTTP/`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
            Version::Http2 => "2.0",
            Version::Http3 => "3.0",
        }
    }
}

impl RequestHead<'_> {
    /// An empty head for parsers to start with.
    pub const EMPTY: RequestHead<'static> = RequestHead {
        request: Request::new(Method::Get, b""),
        method_name: b"",
        version: Version::Http11,
        referer: None,
        user_agent: None,
        field_lines: b"",
    };

    /// Clears all optional parts that are set. It would be more expensive to overwrite the head as a whole, which is large and
    /// usually mostly unset.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.request.host = None;
        self.request.accept_encoding.clear();
        self.request.intent = Intent::UNKNOWN;
        if self.request.conditions.any {
            self.request.conditions = Conditions::NONE;
        }

        self.referer = None;
        self.user_agent = None;
    }
}
