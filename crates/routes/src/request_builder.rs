//! Requests made by a program, for example in tests of its handlers.

use std::net::SocketAddr;

use serde::Serialize;

use crate::captures::Captures;
use crate::error::HandlerError;
use crate::field_names::is_token_byte;
use crate::pattern::{Pattern, SyntaxError};
use crate::request::{Parts, Request};

/// A request that the program makes itself, for tests of handlers without a server.
///
/// ```
/// # extern crate cannery_routes as cannery;
/// use cannery::{Request, Response};
///
/// fn hello(request: &Request) -> Response {
///     Response::text(format!("Hello {}!", request.param("name")))
/// }
///
/// let request = Request::builder("GET", "/hello/you").with_pattern("GET /hello/{name}")?;
/// assert_eq!(hello(&request.build()).into_content().unwrap(), b"Hello you!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RequestBuilder {
    method: String,
    path: String,
    query: Option<String>,
    field_lines: Vec<u8>,
    host: Option<String>,
    content: Vec<u8>,
    version: &'static str,
    peer: Option<SocketAddr>,
    is_tls: bool,
    pattern: Option<Pattern>,
}

impl Request<'_> {
    /// Creates a request that the program makes itself, e.g. in tests. The target is a path and maybe a query.
    #[must_use]
    pub fn builder(method: &str, target: &str) -> RequestBuilder {
        RequestBuilder::new(method, target)
    }
}

impl RequestBuilder {
    fn new(method: &str, target: &str) -> RequestBuilder {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        RequestBuilder {
            method: method.to_owned(),
            path: path.to_owned(),
            query,
            field_lines: Vec::new(),
            host: None,
            content: Vec::new(),
            version: "1.1",
            peer: None,
            is_tls: false,
            pattern: None,
        }
    }

    /// Adds a header field.
    ///
    /// # Panics
    /// Panics if RFC 9110 §5 does not allow the name or the value.
    #[must_use]
    pub fn with_header(self, name: &str, value: &str) -> RequestBuilder {
        assert!(!name.is_empty() && name.bytes().all(is_token_byte), "{name:?} is not the name of a field");
        assert!(
            !value.bytes().any(|byte| matches!(byte, 0..=8 | 10..=31 | 127)),
            "{value:?} is not the value of a field"
        );
        self.with_field(name, value.as_bytes())
    }

    /// Adds a header field that is valid.
    pub(crate) fn with_field(mut self, name: &str, value: &[u8]) -> RequestBuilder {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.field_lines.extend_from_slice(part);
        }
        if name.eq_ignore_ascii_case("host") {
            let value = String::from_utf8_lossy(value);
            let end = value.rfind(':').filter(|colon| !value[*colon..].contains(']'));
            self.host = Some(value[..end.unwrap_or(value.len())].to_owned());
        }
        self
    }

    #[cfg(feature = "http")]
    pub(crate) fn with_bytes(self, content: &[u8]) -> RequestBuilder {
        RequestBuilder { content: content.to_vec(), ..self }
    }

    /// Sets the content.
    #[must_use]
    pub fn with_content(self, media_type: &str, content: impl Into<Vec<u8>>) -> RequestBuilder {
        RequestBuilder { content: content.into(), ..self }.with_header("Content-Type", media_type)
    }

    /// Sets the content to a value as JSON.
    ///
    /// # Errors
    /// Returns an error if the value cannot be represented in JSON.
    pub fn with_json<T: Serialize + ?Sized>(self, value: &T) -> Result<RequestBuilder, HandlerError> {
        let content = serde_json::to_vec(value)?;
        Ok(self.with_content("application/json", content))
    }

    /// Sets the address of the client.
    #[must_use]
    pub fn with_peer(self, peer: SocketAddr) -> RequestBuilder {
        RequestBuilder { peer: Some(peer), ..self }
    }

    /// Sets whether the connection is encrypted.
    #[must_use]
    pub fn with_tls(self, is_tls: bool) -> RequestBuilder {
        RequestBuilder { is_tls, ..self }
    }

    /// Sets the route's pattern, so that [`Request::param`] finds its parameters. You don't need this for
    /// `Server::respond`, which looks up the route.
    ///
    /// # Errors
    /// Returns an error if the text is not a pattern.
    pub fn with_pattern(self, pattern: &str) -> Result<RequestBuilder, SyntaxError> {
        Ok(RequestBuilder { pattern: Some(Pattern::parse(pattern)?), ..self })
    }

    /// Returns the request.
    #[must_use]
    pub fn build(&self) -> Request<'_> {
        let parts = self.parts();
        let captures = self.pattern.as_ref().map(|pattern| Captures::new(pattern, parts.path));
        let pattern = self.pattern.as_ref().map(|pattern| pattern.text.as_str());
        Request::new(parts, captures, pattern)
    }

    /// Returns the parts of the request. GET and HEAD have no content.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let has_content = !matches!(self.method.as_str(), "GET" | "HEAD");
        Parts {
            method: self.method.as_bytes(),
            path: self.path.as_bytes(),
            query: self.query.as_deref().map(str::as_bytes),
            host: self.host.as_deref().map(str::as_bytes),
            version: self.version,
            field_lines: &self.field_lines,
            content: if has_content { &self.content } else { b"" },
            peer: self.peer,
            is_tls: self.is_tls,
        }
    }
}
