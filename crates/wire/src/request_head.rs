//! Request heads, as every version of HTTP provides them: the request for the site, and fields for logs.
//!
//! They borrow all of their parts. Whether a connection stays open is up to its protocol.

use cannery_site::{Conditions, Intent, Method, Request};

/// The head of a request of any version of HTTP.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// The request for the site.
    pub request: Request<'a>,
    /// The method as sent.
    pub method_name: &'a [u8],
    /// The client's version of HTTP.
    pub version: Version,
    /// `Referer`, only for logs.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, only for logs.
    pub user_agent: Option<&'a [u8]>,
    /// Field lines in the syntax of HTTP/1, for fields that few requests need: all of them, or, for HTTP/2 and
    /// HTTP/3, those that [`KeptLines`](crate::KeptLines) names.
    pub field_lines: &'a [u8],
}

/// A version of HTTP, as far as responses and logs distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, or a later minor version of it.
    Http11,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

impl Version {
    /// Returns the version for logs, without its prefix `HTTP/`.
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
    /// An empty head, to be filled by a parser.
    pub const EMPTY: RequestHead<'static> = RequestHead {
        request: Request::new(Method::Get, b""),
        method_name: b"",
        version: Version::Http11,
        referer: None,
        user_agent: None,
        field_lines: b"",
    };

    /// Clears the optional parts that are set. Overwriting the whole head would cost more, because it is
    /// large and most of it is unset.
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
