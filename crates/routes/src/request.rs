//! Requests as seen by handlers.

use std::borrow::Cow;
use std::fmt;
#[cfg(feature = "http")]
use std::fmt::Write;
use std::net::SocketAddr;

use serde::de::DeserializeOwned;

use crate::captures::Captures;
use crate::error::HandlerError;
use crate::extensions::Extensions;
use crate::query::Query;

/// The parts of a request, as provided by the server. Their grammar has been checked.
// Only for the server.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The method as sent.
    pub method: &'a [u8],
    /// The target's path as sent.
    pub path: &'a [u8],
    /// The target's query, without the question mark.
    pub query: Option<&'a [u8]>,
    /// The host, without the port.
    pub host: Option<&'a [u8]>,
    /// The HTTP version, for example `1.1`.
    pub version: &'static str,
    /// All header fields in HTTP/1 syntax, one line each.
    pub field_lines: &'a [u8],
    /// The content. It is empty for GET and HEAD.
    pub content: &'a [u8],
    /// The peer's address, if the server has asked the kernel for it.
    pub peer: Option<SocketAddr>,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
}

/// Finds the address of a client behind proxies, from the address of the peer and the header field lines.
// Only for the server.
#[doc(hidden)]
pub type FindClient = dyn Fn(Option<SocketAddr>, &[u8]) -> Option<SocketAddr> + Send + Sync;

/// A request as seen by its handler.
pub struct Request<'a> {
    parts: Parts<'a>,
    captures: Option<Captures<'a, 'a>>,
    pattern: Option<&'a str>,
    find_client: Option<&'a FindClient>,
    extensions: Extensions,
}

impl<'a> Request<'a> {
    /// Creates a request. If it has a route, `captures` are those of the route's pattern.
    pub(crate) fn new(
        parts: Parts<'a>,
        captures: Option<Captures<'a, 'a>>,
        pattern: Option<&'a str>,
    ) -> Request<'a> {
        Request { parts, captures, pattern, find_client: None, extensions: Extensions::default() }
    }

    pub(crate) fn with_find_client(self, find_client: Option<&'a FindClient>) -> Request<'a> {
        Request { find_client, ..self }
    }

    /// Returns the method. Methods are case-sensitive (RFC 9110 §9.1).
    #[must_use]
    pub fn method(&self) -> &'a str {
        text(self.parts.method)
    }

    /// Returns the path and the query as sent, except that bytes of a query that aren't UTF-8 are percent-encoded.
    #[cfg(feature = "http")]
    pub(crate) fn target(&self) -> String {
        let mut target = self.path().to_owned();
        if let Some(query) = self.parts.query {
            target.push('?');
            for chunk in query.utf8_chunks() {
                target.push_str(chunk.valid());
                for byte in chunk.invalid() {
                    // Writing to a string never fails.
                    let _ = write!(target, "%{byte:02X}");
                }
            }
        }
        target
    }

    /// Returns the path as sent, including percent-encoding.
    #[must_use]
    pub fn path(&self) -> &'a str {
        text(self.parts.path)
    }

    /// Gets what a wildcard in the pattern has captured, decoded. This is empty if the pattern does not
    /// have such a wildcard.
    ///
    /// It may contain any character: for `/files/{name}`, the path `/files/..%2Fkey` has the name `../key`. So
    /// check it before you use it as the name of a file.
    ///
    /// ```
    /// # extern crate cannery_routes as cannery;
    /// # use cannery::{Request, Response};
    /// // For the pattern `GET /weatherforecast/{city}`:
    /// fn forecast(request: &Request) -> Response {
    ///     Response::text(format!("No rain in {}.", request.param("city")))
    /// }
    /// ```
    #[must_use]
    pub fn param(&self, name: &str) -> Cow<'a, str> {
        self.captures.and_then(|captures| captures.get(name)).unwrap_or_default()
    }

    /// Returns names and values of all wildcards, in the order of the pattern.
    pub fn params(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> + use<'a> {
        self.captures.into_iter().flat_map(|captures| captures.iter())
    }

    /// Returns the pattern of the route, e.g. `GET /people/{id}`, as a name for logs and metrics. Within a group, it includes the
    /// group's prefix. Returns `None` if no route matches the request, e.g. for a 404 or 405.
    #[must_use]
    pub fn pattern(&self) -> Option<&'a str> {
        self.pattern
    }

    /// Attaches a value to the request, for middleware that tells the handler something. It replaces an earlier value of the same
    /// type.
    ///
    /// ```
    /// # extern crate cannery_routes as cannery;
    /// # use cannery::{HandlerError, Next, OrStatus, Request, Response};
    /// struct User(String);
    ///
    /// fn authenticate(request: &mut Request, next: &Next) -> Result<Response, HandlerError> {
    ///     let user = request.cookie("user").or_status(401, "Please log in.")?;
    ///     request.insert(User(user.to_owned()));
    ///     Ok(next(request))
    /// }
    ///
    /// fn profile(request: &Request) -> Option<String> {
    ///     let User(name) = request.get()?;
    ///     Some(format!("You are {name}."))
    /// }
    /// ```
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.extensions.insert(value);
    }

    /// Gets the value of this type that middleware has attached to the request.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.extensions.get()
    }

    /// Returns the parameters of the query.
    #[must_use]
    pub fn query(&self) -> Query<'a> {
        Query::new(self.parts.query.unwrap_or_default())
    }

    /// Gets the first value of a header field. The name is case-insensitive. Values that are not UTF-8 are
    /// skipped; use [`Request::headers`] in order to get them.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let named = |(field, _): &(&str, &[u8])| field.eq_ignore_ascii_case(name);
        self.headers().filter(named).find_map(|(_, value)| std::str::from_utf8(value).ok())
    }

    /// Returns names and values of all header fields in the order they were sent.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.parts.field_lines.split(|byte| *byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((text(&line[..colon]), line[colon + 1..].trim_ascii()))
        })
    }

    /// Returns the value of a cookie (RFC 6265 §4.2).
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&'a str> {
        let fields = self.headers().filter(|(field, _)| field.eq_ignore_ascii_case("cookie"));
        let pairs = fields.flat_map(|(_, value)| value.split(|byte| *byte == b';'));
        pairs
            .filter_map(|pair| std::str::from_utf8(pair).ok()?.trim().split_once('='))
            .find_map(|(key, value)| (key == name).then(|| value.trim_matches('"')))
    }

    /// The content. For GET and HEAD, it is always empty since content has no meaning there (RFC 9110
    /// §9.3.1).
    #[must_use]
    pub fn content(&self) -> &'a [u8] {
        self.parts.content
    }

    /// Returns the content as text.
    ///
    /// # Errors
    /// Returns an error with status 400 if the content is not UTF-8.
    pub fn text(&self) -> Result<&'a str, HandlerError> {
        std::str::from_utf8(self.parts.content)
            .map_err(|error| HandlerError::new(400, format!("The content is not UTF-8: {error}.")))
    }

    /// Parses the content as JSON.
    ///
    /// # Errors
    ///
    /// Returns an error with status 415 if the request's `Content-Type` is neither `application/json` nor another type of JSON such as
    /// `application/merge-patch+json`. Pages of other origins can only send other types without asking first (CORS).
    ///
    /// Returns an error with status 400 if the content is not JSON or is not of this type. The message will
    /// contain the line and column.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        if !is_json(self.media_type()) {
            return Err(HandlerError::new(
                415,
                "The content of the request must be JSON (`application/json`).",
            ));
        }
        serde_json::from_slice(self.parts.content).map_err(|error| {
            HandlerError::new(400, format!("The content is not the expected JSON: {error}."))
        })
    }

    /// Returns the parameters of a form that was sent as content.
    ///
    /// # Errors
    /// Returns an error with status 415 if the content isn't of the type `application/x-www-form-urlencoded`. Forms with files have
    /// another type.
    pub fn form(&self) -> Result<Query<'a>, HandlerError> {
        if !self.media_type().eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(HandlerError::new(415, "The content of the request must be a form."));
        }
        Ok(Query::new(self.parts.content))
    }

    /// Returns the media type of the content, without parameters.
    pub(crate) fn media_type(&self) -> &'a str {
        let media_type = self.header("content-type").unwrap_or_default();
        media_type.split(';').next().unwrap_or_default().trim()
    }

    /// Returns the host, without the port.
    #[must_use]
    pub fn host(&self) -> Option<&'a str> {
        self.parts.host.map(text)
    }

    /// Returns the HTTP version: `1.0`, `1.1`, `2.0` or `3.0`.
    #[must_use]
    pub fn version(&self) -> &'static str {
        self.parts.version
    }

    /// The peer's address, which is unknown for Unix sockets. With HTTP/3, this is the last address from
    /// which the client has answered, so for a request from a forged address you will get the client's
    /// earlier one.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.parts.peer
    }

    /// Returns the client's address. If the peer is a trusted proxy, this is the address that the proxy has sent.
    ///
    /// Without trusted proxies, it is the same as [`Request::peer`].
    #[must_use]
    pub fn client(&self) -> Option<SocketAddr> {
        match self.find_client {
            Some(find_client) => find_client(self.parts.peer, self.parts.field_lines),
            None => self.parts.peer,
        }
    }

    /// Returns `true` if the connection is encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.parts.is_tls
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method())
            .field("path", &self.path())
            .field("pattern", &self.pattern)
            .field("extensions", &self.extensions)
            .finish_non_exhaustive()
    }
}

/// Returns `true` for media types of JSON, which may have a structured syntax suffix (RFC 6839 §3.1).
fn is_json(media_type: &str) -> bool {
    let Some((kind, subtype)) = media_type.split_once('/') else { return false };
    let suffix = subtype.rsplit_once('+').map_or(subtype, |(_, suffix)| suffix);
    kind.eq_ignore_ascii_case("application") && suffix.eq_ignore_ascii_case("json")
}

/// Converts text whose grammar the server has already checked. Only paths can contain non-ASCII bytes; if
/// these are not UTF-8, the result is an empty string.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Parts<'static> = Parts {
        method: b"POST",
        path: b"/a",
        query: Some(b"b=1"),
        host: Some(b"example.com"),
        version: "1.1",
        field_lines: b"Host: example.com\r\nAccept:  text/html \r\ncookie: a=1; b=\"2\"\r\nCookie: c=3=4\r\nx: \xff\r\nX: y\r\n",
        content: b"{\"n\": 5}",
        peer: None,
        is_tls: false,
    };

    fn request() -> Request<'static> {
        Request::new(PARTS, None, None)
    }

    #[test]
    fn headers_are_found_in_any_letter_case() {
        assert_eq!(request().header("accept"), Some("text/html"));
        assert_eq!(request().header("HOST"), Some("example.com"));
        assert_eq!(request().header("x"), Some("y"), "the first value is not UTF-8");
        assert_eq!(request().header("missing"), None);
        assert_eq!(request().headers().count(), 6);
    }

    #[test]
    fn cookies_of_all_fields_are_found() {
        assert_eq!(request().cookie("a"), Some("1"));
        assert_eq!(request().cookie("b"), Some("2"));
        assert_eq!(request().cookie("c"), Some("3=4"));
        assert_eq!(request().cookie("d"), None);
    }

    #[test]
    fn content_is_parsed() {
        #[derive(serde::Deserialize)]
        struct Content {
            n: u8,
        }
        let typed = |media_type| Request::builder("POST", "/").with_content(media_type, PARTS.content);
        for media_type in ["application/json", "Application/JSON; charset=utf-8", "application/a.b+json"] {
            assert_eq!(typed(media_type).build().json::<Content>().unwrap().n, 5, "{media_type}");
        }
        // These are what pages of other origins can send without asking.
        for media_type in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "text/json",
            "json",
            "",
        ] {
            assert_eq!(typed(media_type).build().json::<u8>().unwrap_err().status(), 415, "{media_type}");
        }
        assert_eq!(request().json::<Content>().map(|_| ()).unwrap_err().status(), 415, "no type");
        let builder = typed("application/json");
        let error = builder.build().json::<u8>().unwrap_err();
        assert_eq!(error.status(), 400);
        assert!(error.message().contains("line 1 column 0"), "{}", error.message());
        let invalid = Request::new(Parts { content: b"\xff", ..PARTS }, None, None);
        assert_eq!(invalid.text().unwrap_err().status(), 400);
    }

    #[test]
    fn forms_have_their_media_type() {
        assert_eq!(request().form().unwrap_err().status(), 415);
        let builder = Request::builder("POST", "/")
            .with_content("application/x-www-form-urlencoded; charset=utf-8", "a=1&b=x+y");
        assert_eq!(builder.build().form().unwrap().get("b").as_deref(), Some("x y"));
    }

    #[test]
    fn built_requests_have_all_parts() {
        let builder = Request::builder("PUT", "/a/b?c=d")
            .with_header("Host", "example.com:8080")
            .with_content("text/plain", "content")
            .with_pattern("/a/{name}")
            .unwrap();
        let request = builder.build();
        assert_eq!((request.method(), request.path(), request.host()), ("PUT", "/a/b", Some("example.com")));
        assert_eq!((&*request.param("name"), request.pattern()), ("b", Some("/a/{name}")));
        assert_eq!(request.params().count(), 1);
        assert_eq!(request.query().get("c").as_deref(), Some("d"));
        assert_eq!(
            (request.text().unwrap(), request.header("content-type")),
            ("content", Some("text/plain"))
        );
    }

    #[test]
    fn unknown_parameter_is_empty() {
        assert_eq!(request().param("city"), "");
        assert_eq!(request().query().get("b").as_deref(), Some("1"));
    }
}
