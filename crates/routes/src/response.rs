//! Responses of handlers.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use crate::body::{self, BodyReader, BodyWriter};
use crate::error::HandlerError;

/// A handler's response.
///
/// The server will add `Content-Length` (or whatever framing is required by the HTTP version), `Date`, and
/// the fields that are common to all responses.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub(crate) status: u16,
    /// The value of `Content-Type`.
    pub(crate) media_type: Option<Cow<'static, str>>,
    /// Names and values of other fields.
    pub(crate) fields: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    pub(crate) body: Body,
}

/// The body of a response.
// Only for the server.
#[doc(hidden)]
// Exhaustive: the server has to handle every kind.
pub enum Body {
    /// A complete body.
    Bytes(Cow<'static, [u8]>),
    /// A body that is written while we are sending it.
    Stream(BodyReader),
    /// A function that will write the body while we are sending it, on a thread from the pool.
    Producer(Producer),
}

/// Writes a body.
// Only for the server.
#[doc(hidden)]
pub type Producer = Box<dyn FnOnce(&mut BodyWriter) -> Result<(), HandlerError> + Send>;

impl Response {
    /// Creates a response without content.
    #[must_use]
    pub fn new(status: u16) -> Response {
        Response { status, media_type: None, fields: Vec::new(), body: Body::Bytes(Cow::Borrowed(b"")) }
    }

    /// Creates a 200 with these bytes.
    #[must_use]
    pub fn bytes(media_type: impl Into<Cow<'static, str>>, bytes: impl Into<Cow<'static, [u8]>>) -> Response {
        Response {
            media_type: Some(media_type.into()),
            body: Body::Bytes(bytes.into()),
            ..Response::new(200)
        }
    }

    /// Creates a 200 with plain text.
    #[must_use]
    pub fn text(text: impl Into<Cow<'static, str>>) -> Response {
        Response::bytes("text/plain; charset=utf-8", into_bytes(text.into()))
    }

    /// Creates a 200 with an HTML document.
    #[must_use]
    pub fn html(html: impl Into<Cow<'static, str>>) -> Response {
        Response::bytes("text/html; charset=utf-8", into_bytes(html.into()))
    }

    /// Creates a 200 with a value as JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the value cannot be represented in JSON, e.g. if it is a map whose keys
    /// are not strings.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Response, HandlerError> {
        let mut bytes = Vec::with_capacity(JSON_BYTES);
        serde_json::to_writer(&mut bytes, value)?;
        Ok(Response::bytes("application/json", bytes))
    }

    /// Creates a redirect. You should use one of the statuses 301, 302, 303, 307 and 308 (RFC 9110
    /// §15.4).
    #[must_use]
    pub fn redirect(status: u16, location: impl Into<Cow<'static, str>>) -> Response {
        Response::new(status).with_header("Location", location)
    }

    /// Creates a 200 with a body that `produce` writes while we are sending it. The function runs on a thread
    /// from the pool and may take as long as it needs. Should it fail, the client can tell that the response
    /// is incomplete.
    ///
    /// ```
    /// # use cannery_routes::{Request, Response};
    /// use std::io::Write;
    ///
    /// fn numbers(_: &Request) -> Response {
    ///     Response::stream("text/plain", |body| {
    ///         for number in 0..1_000_000 {
    ///             writeln!(body, "{number}")?;
    ///         }
    ///         Ok(())
    ///     })
    /// }
    /// ```
    #[must_use]
    pub fn stream(
        media_type: impl Into<Cow<'static, str>>,
        produce: impl FnOnce(&mut BodyWriter) -> Result<(), HandlerError> + Send + 'static,
    ) -> Response {
        Response {
            media_type: Some(media_type.into()),
            body: Body::Producer(Box::new(produce)),
            ..Response::new(200)
        }
    }

    /// Creates a 200 and a writer for its body, which can be used from any thread or task. For
    /// example, this is useful for server-sent events.
    #[must_use]
    pub fn channel(media_type: impl Into<Cow<'static, str>>) -> (BodyWriter, Response) {
        let (writer, reader) = body::channel();
        let response = Response {
            media_type: Some(media_type.into()),
            body: Body::Stream(reader),
            ..Response::new(200)
        };
        (writer, response)
    }

    /// Sets the status code.
    #[must_use]
    pub fn with_status(self, status: u16) -> Response {
        Response { status, ..self }
    }

    /// Adds a header field. If RFC 9110 §5 does not allow the name or value, or if the field may only be set
    /// by the server (e.g. `Content-Length`), the response becomes a 500 and the server reports the reason.
    #[must_use]
    pub fn with_header(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Response {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Returns the status code.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns names and values of all fields set by the handler, `Content-Type` first.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let media_type = self.media_type.iter().map(|value| ("Content-Type", &**value));
        media_type.chain(self.fields.iter().map(|(name, value)| (&**name, &**value)))
    }

    /// Takes the body, leaving an empty one.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn take_body(&mut self) -> Body {
        std::mem::replace(&mut self.body, Body::Bytes(Cow::Borrowed(b"")))
    }

    /// Checks the status code and the fields.
    ///
    /// # Errors
    /// One of them is not allowed.
    // Only for the server.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), HandlerError> {
        let fault = |what: String| Err(HandlerError::from(std::io::Error::other(what)));
        if !(200..=599).contains(&self.status) {
            return fault(format!("a handler cannot respond with the status {}", self.status));
        }
        for (name, value) in self.fields() {
            if name.is_empty() || !name.bytes().all(is_token_byte) {
                return fault(format!(
                    "a handler sets a field with the name {name:?}, which RFC 9110 §5.1 forbids"
                ));
            }
            if value.bytes().any(|byte| matches!(byte, 0..=8 | 10..=31 | 127)) {
                return fault(format!("a handler sets {name} to {value:?}, which RFC 9110 §5.5 forbids"));
            }
            if SERVER_FIELDS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                return fault(format!("a handler sets {name}, which only the server does"));
            }
        }
        Ok(())
    }
}

/// Enough memory for the JSON of most responses, in bytes.
const JSON_BYTES: usize = 512;

/// These fields depend on the connection, so handlers cannot set them.
const SERVER_FIELDS: [&str; 7] =
    ["Connection", "Content-Length", "Date", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade"];

/// Returns `true` for bytes that tokens may contain (RFC 9110 §5.6.2).
const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

fn into_bytes(text: Cow<'static, str>) -> Cow<'static, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Body::Stream(_) => f.write_str("Stream"),
            Body::Producer(_) => f.write_str("Producer"),
        }
    }
}

/// Something that a handler can return.
pub trait IntoResponse {
    /// Returns the response.
    ///
    /// # Errors
    /// The handler has failed.
    fn into_response(self) -> Result<Response, HandlerError>;
}

impl IntoResponse for Response {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(self)
    }
}

impl<R: IntoResponse, E: Into<HandlerError>> IntoResponse for Result<R, E> {
    fn into_response(self) -> Result<Response, HandlerError> {
        self.map_err(Into::into)?.into_response()
    }
}

impl IntoResponse for &'static str {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(Response::text(self))
    }
}

impl IntoResponse for String {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(Response::text(self))
    }
}

/// Responds with a 204.
impl IntoResponse for () {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(Response::new(204))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_handlers_are_found() {
        let refused = |response: Response| response.check().unwrap_err().to_string();
        assert!(refused(Response::new(99)).contains("99"));
        assert!(refused(Response::new(101)).contains("101"));
        assert!(refused(Response::new(200).with_header("a b", "c")).contains("a b"));
        assert!(refused(Response::new(200).with_header("A", "b\r\nSet-Cookie: c")).contains("RFC 9110 §5.5"));
        assert!(refused(Response::new(200).with_header("content-length", "5")).contains("only the server"));
        assert!(refused(Response::bytes("text/\0", b"".as_slice())).contains("Content-Type"));
        assert!(Response::new(200).with_header("Set-Cookie", "a=b; Path=/").check().is_ok());
    }

    #[test]
    fn values_become_responses() {
        let status = |response: Result<Response, HandlerError>| response.map(|response| response.status());
        assert_eq!(status("text".into_response()).unwrap(), 200);
        assert_eq!(status(().into_response()).unwrap(), 204);
        let failed: Result<String, fmt::Error> = Err(fmt::Error);
        assert_eq!(failed.into_response().unwrap_err().status(), 500);
        let json = Response::json(&[1, 2]).unwrap();
        assert_eq!(json.fields().next(), Some(("Content-Type", "application/json")));
        assert!(matches!(json.body, Body::Bytes(bytes) if *bytes == *b"[1,2]"));
    }
}
