//! Responses of handlers.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::body::{self, BodyReader, BodyWriter};
use crate::error::{Content, Edit, HandlerError};
use crate::field_names::{
    CONTENT_FIELDS, SERVER_FIELDS, has_single_value, is_content_type, is_one_of, is_token_byte,
};
use crate::kept_bytes::{HeldBytes, KeptBytes};
use crate::set_cookie::SetCookie;

/// A handler's response.
///
/// The server will add `Content-Length` (or whatever framing is required by the HTTP version), `Date`, and
/// the fields that are common to all responses.
#[derive(Debug)]
pub struct Response {
    status: u16,
    /// Whether the program has chosen the status.
    is_status_chosen: bool,
    /// The value of `Content-Type`.
    media_type: Option<Cow<'static, str>>,
    /// Names and values of other fields.
    fields: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    body: Body,
    /// The error that this response was made for.
    error: Option<Box<HandlerError>>,
    /// Number of the route that the request was for.
    route: Option<usize>,
    /// Why the response can't be sent.
    fault: Option<String>,
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
    /// The response still has to be made from its error.
    Failed,
}

/// Writes a body.
// Only for the server.
#[doc(hidden)]
pub type Producer = Box<dyn FnOnce(&mut BodyWriter) -> Result<(), HandlerError> + Send>;

impl Response {
    /// Creates a response without content.
    #[must_use]
    pub fn new(status: u16) -> Response {
        Response {
            status,
            is_status_chosen: true,
            media_type: None,
            fields: Vec::new(),
            body: Body::EMPTY,
            error: None,
            route: None,
            fault: None,
        }
    }

    /// Creates a 200 with this body. Error handlers need not choose another status.
    fn of_body(media_type: Cow<'static, str>, body: Body) -> Response {
        Response { media_type: Some(media_type), body, is_status_chosen: false, ..Response::new(200) }
    }

    /// Creates a 200 with these bytes.
    #[must_use]
    pub fn bytes(media_type: impl Into<Cow<'static, str>>, bytes: impl Into<Cow<'static, [u8]>>) -> Response {
        Response::of_body(media_type.into(), Body::Bytes(bytes.into()))
    }

    #[cfg(feature = "http")]
    pub(crate) fn with_bytes(self, bytes: impl Into<Vec<u8>>) -> Response {
        Response { body: Body::Bytes(Cow::Owned(bytes.into())), ..self }
    }

    /// Creates a 200 with plain text.
    ///
    /// The text is copied if it is borrowed. To send a `&'static str` without a copy, let the handler return the text itself.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Response {
        Response::of_text(Cow::Owned(text.into().into_bytes()))
    }

    pub(crate) fn of_text(text: Cow<'static, [u8]>) -> Response {
        Response::bytes("text/plain; charset=utf-8", text)
    }

    /// Creates a 200 with an HTML document. See also [`Response::text`].
    #[must_use]
    pub fn html(html: impl Into<String>) -> Response {
        Response::bytes("text/html; charset=utf-8", html.into().into_bytes())
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
    pub fn redirect(status: u16, location: impl Into<String>) -> Response {
        Response::new(status).with_header("Location", location)
    }

    /// Creates a 200 with a body that `produce` writes while we are sending it. The function runs on a thread
    /// from the pool and may take as long as it needs. Should it fail, the client can tell that the response
    /// is incomplete.
    ///
    /// ```
    /// # extern crate cannery_routes as cannery;
    /// # use cannery::{Request, Response};
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
        Response::of_body(media_type.into(), Body::Producer(Box::new(produce)))
    }

    /// Creates a 200 and a writer for its body, which can be used from any thread or task. For server-sent events, see
    /// [`Response::events`] and [`Broadcast`](crate::Broadcast).
    #[must_use]
    pub fn channel(media_type: impl Into<Cow<'static, str>>) -> (BodyWriter, Response) {
        let (writer, reader) = body::channel();
        (writer, Response::of_body(media_type.into(), Body::Stream(reader)))
    }

    /// Sets the status code. Responses with the status 204, 205 or 304 are sent without their content.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Response {
        self.edit(Edit::Status(status));
        self
    }

    /// Sets a header field, replacing all of its values. If RFC 9110 §5 does not allow the name or value, or if the field may only be
    /// set by the server (e.g. `Content-Length`), the response becomes a 500 and the server reports the reason.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Response {
        self.edit(Edit::Set(name.into(), Cow::Owned(value.into())));
        self
    }

    /// Adds a value of a header field, for example another `Set-Cookie` or `Link`. Fields that can only have one value, such as
    /// `Location`, are replaced instead.
    #[must_use]
    pub fn append_header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Response {
        self.edit(Edit::Append(name.into(), Cow::Owned(value.into())));
        self
    }

    /// Sets a cookie, replacing one of the same name, path and domain. If browsers would refuse it, the response becomes a 500 and the
    /// server reports the reason.
    #[must_use]
    pub fn with_cookie(mut self, cookie: SetCookie) -> Response {
        self.edit(Edit::Cookie(cookie));
        self
    }

    /// Removes all values of a header field.
    #[must_use]
    pub fn without_header(mut self, name: &str) -> Response {
        self.edit(Edit::Remove(name.to_owned()));
        self
    }

    /// Changes the response. If it still has to be made from an error, the change will be repeated then.
    fn edit(&mut self, edit: Edit) {
        if let (Body::Failed, Some(error)) = (&self.body, &mut self.error) {
            error.edit(edit.clone());
        }
        self.apply(edit);
    }

    /// Makes a change.
    pub(crate) fn apply(&mut self, edit: Edit) {
        match edit {
            Edit::Status(status) => {
                self.status = status;
                self.is_status_chosen = true;
            }
            Edit::Append(name, value) if !has_single_value(&name) => self.fields.push((name, value)),
            Edit::Set(name, value) | Edit::Append(name, value) => self.put(name, value),
            Edit::Remove(name) => self.remove(&name),
            Edit::Cookie(cookie) => match cookie.to_field() {
                Ok(value) => {
                    let is_cookie = |name: &str| name.eq_ignore_ascii_case("Set-Cookie");
                    self.fields.retain(|(name, held)| !(is_cookie(name) && cookie.replaces(held)));
                    self.fields.push(("Set-Cookie".into(), value.into()));
                }
                Err(why) => self.fault = Some(why),
            },
        }
    }

    fn put(&mut self, name: Cow<'static, str>, value: Cow<'static, str>) {
        self.remove(&name);
        if is_content_type(&name) {
            self.media_type = Some(value);
        } else {
            self.fields.push((name, value));
        }
    }

    fn remove(&mut self, name: &str) {
        if is_content_type(name) {
            self.media_type = None;
        } else {
            self.fields.retain(|(held, _)| !held.eq_ignore_ascii_case(name));
        }
    }

    /// Returns the status code.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the first value of a header field. The name is case-insensitive.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().find_map(|(held, value)| held.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Returns names and values of all header fields set so far, `Content-Type` first.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let media_type = self.media_type.iter().map(|value| ("Content-Type", &**value));
        media_type.chain(self.fields.iter().map(|(name, value)| (&**name, &**value)))
    }

    /// Returns the error that this response was made for, e.g. for middleware that writes a log.
    #[must_use]
    pub fn error(&self) -> Option<&HandlerError> {
        self.error.as_deref()
    }

    /// Returns the content. If it is written while it is sent, this waits until it is complete.
    ///
    /// # Errors
    /// Returns an error if the body's function fails, or if its writer is dropped before the body is complete.
    pub fn into_content(mut self) -> Result<Vec<u8>, HandlerError> {
        match self.take_body() {
            Body::Bytes(bytes) => Ok(bytes.into_owned()),
            Body::Stream(reader) => reader.read_to_end(),
            Body::Producer(produce) => {
                let (mut writer, reader) = body::channel();
                std::thread::scope(|scope| {
                    let read = scope.spawn(move || reader.read_to_end());
                    let produced = produce(&mut writer);
                    if produced.is_ok() {
                        writer.finish();
                    } else {
                        drop(writer);
                    }
                    let read = read.join().unwrap_or_else(|_| Err(HandlerError::panicked()));
                    produced.and(read)
                })
            }
            Body::Failed => match self.error.take() {
                Some(error) => error.to_response().into_content(),
                None => Ok(Vec::new()),
            },
        }
    }

    /// Takes the error that this response was made for. Its cause can be a type of the program.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn take_error(&mut self) -> Option<Box<HandlerError>> {
        self.error.take()
    }

    /// Takes the body, leaving an empty one.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn take_body(&mut self) -> Body {
        std::mem::replace(&mut self.body, Body::EMPTY)
    }

    /// Replaces the body.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn with_body(self, body: Body) -> Response {
        Response { body, ..self }
    }

    /// Counts the bytes of this response until the result is dropped. If the body is still being written, its bytes are counted
    /// until they are taken for sending.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn hold(&self, kept: &Arc<KeptBytes>) -> HeldBytes {
        if let Body::Stream(reader) = &self.body {
            reader.count_in(kept);
        }
        kept.hold(self.owned_bytes())
    }

    /// Returns the memory that was allocated for the fields and a complete body, in bytes.
    fn owned_bytes(&self) -> usize {
        let owned = |text: &Cow<'static, str>| match text {
            Cow::Owned(text) => text.capacity(),
            Cow::Borrowed(_) => 0,
        };
        let values = self.fields.iter().map(|(name, value)| owned(name) + owned(value)).sum::<usize>();
        let fields = self.fields.capacity() * size_of::<(Cow<'static, str>, Cow<'static, str>)>();
        let body = match &self.body {
            Body::Bytes(Cow::Owned(bytes)) => bytes.capacity(),
            Body::Bytes(Cow::Borrowed(_)) | Body::Stream(_) | Body::Producer(_) | Body::Failed => 0,
        };
        self.media_type.as_ref().map_or(0, owned) + values + fields + body
    }

    /// Returns the bytes that the fields and a complete body take once they are written for the connection.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn memory(&self) -> usize {
        let fields = self.headers().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let body = match &self.body {
            Body::Bytes(bytes) => bytes.len(),
            Body::Stream(_) | Body::Producer(_) | Body::Failed => 0,
        };
        fields + body
    }

    /// Returns the bytes that are being counted because the body was written that far, but not taken for sending.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn kept_body_bytes(&self) -> usize {
        if let Body::Stream(reader) = &self.body { reader.kept_bytes() } else { 0 }
    }

    /// Returns the number of the route that the request was for.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn route(&self) -> Option<usize> {
        self.route
    }

    pub(crate) fn with_route(self, route: Option<usize>) -> Response {
        Response { route, ..self }
    }

    /// Drops the body, for a response to HEAD.
    pub(crate) fn discard_body(&mut self) {
        self.body = Body::EMPTY;
    }

    /// Returns the response as it can be sent: without content if the status says so.
    ///
    /// # Errors
    /// Returns an error if the status code or a field is not allowed, or if the response still has to be made from an error.
    pub(crate) fn checked(mut self) -> Result<Response, HandlerError> {
        if matches!(self.body, Body::Failed)
            && let Some(error) = self.error.take()
        {
            return Err(*error);
        }
        self.check()?;
        if has_no_content(self.status) {
            self.body = Body::EMPTY;
            self.media_type = None;
            self.fields.retain(|(name, _)| !is_one_of(name, &CONTENT_FIELDS));
        }
        Ok(self)
    }

    /// Returns the response without the error handler, if it still has to be made from an error.
    pub(crate) fn resolved(self) -> Response {
        match (&self.body, &self.error) {
            // Changes are visible already.
            (Body::Failed, Some(error)) => Response { body: error.to_response().take_body(), ..self },
            _ => self,
        }
    }

    pub(crate) fn with_error(self, error: HandlerError) -> Response {
        Response { error: Some(Box::new(error)), ..self }
    }

    /// Checks the status code and the fields.
    fn check(&self) -> Result<(), HandlerError> {
        let fault = |what: String| Err(HandlerError::from(what));
        if let Some(why) = &self.fault {
            return fault(why.clone());
        }
        if !(200..=599).contains(&self.status) {
            return fault(format!("a handler cannot respond with the status {}", self.status));
        }
        for (name, value) in self.headers() {
            if name.is_empty() || !name.bytes().all(is_token_byte) {
                return fault(format!(
                    "a handler sets a field with the name {name:?}, which RFC 9110 §5.1 forbids"
                ));
            }
            if value.bytes().any(|byte| matches!(byte, 0..=8 | 10..=31 | 127)) {
                return fault(format!("a handler sets {name} to {value:?}, which RFC 9110 §5.5 forbids"));
            }
            if is_one_of(name, &SERVER_FIELDS) {
                return fault(format!("a handler sets {name}, which only the server does"));
            }
        }
        Ok(())
    }
}

impl Body {
    /// A body without any bytes.
    pub const EMPTY: Body = Body::Bytes(Cow::Borrowed(b""));
}

impl HandlerError {
    /// Returns the response that clients get if there is no error handler: the message as plain text, or the error's own content.
    #[must_use]
    pub fn to_response(&self) -> Response {
        let mut response = match self.content() {
            Some(Content { media_type, bytes }) => Response::bytes(media_type.clone(), bytes.clone()),
            None => Response::text(format!("{}\n", self.text())),
        };
        for (name, value) in self.fields() {
            response.apply(Edit::Append(name.clone(), value.clone()));
        }
        response.with_status(self.status())
    }

    /// Completes a response of the error handler. It gets the error's status unless it has one, and the error's fields unless it
    /// has fields of the same name.
    pub(crate) fn complete(&self, mut response: Response) -> Response {
        if !response.is_status_chosen {
            response.status = self.status();
        }
        let is_missing = |(name, _): &&(Cow<'static, str>, _)| response.header(name).is_none();
        let missing: Vec<_> = self.fields().iter().filter(is_missing).cloned().collect();
        for (name, value) in missing {
            response.apply(Edit::Append(name, value));
        }
        response
    }
}

/// The response will be made from the error as if a handler had returned it. Then changes to this response are repeated, so that
/// they also apply to the response of an error handler.
impl From<HandlerError> for Response {
    fn from(error: HandlerError) -> Response {
        Response { body: Body::Failed, ..error.to_response() }.with_error(error)
    }
}

/// Enough memory for the JSON of most responses, in bytes.
const JSON_BYTES: usize = 512;

/// Returns `true` if a response with this status has no content (RFC 9110 §15.3.5, §15.3.6, §15.4.5).
fn has_no_content(status: u16) -> bool {
    matches!(status, 204 | 205 | 304)
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Body::Stream(_) => f.write_str("Stream"),
            Body::Producer(_) => f.write_str("Producer"),
            Body::Failed => f.write_str("Failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn faults_of_handlers_are_found() {
        let refused = |response: Response| response.checked().unwrap_err().to_string();
        assert!(refused(Response::new(99)).contains("99"));
        assert!(refused(Response::new(101)).contains("101"));
        assert!(refused(Response::new(200).with_header("a b", "c")).contains("a b"));
        assert!(refused(Response::new(200).with_header("A", "b\r\nSet-Cookie: c")).contains("RFC 9110 §5.5"));
        assert!(refused(Response::new(200).with_header("content-length", "5")).contains("only the server"));
        assert!(refused(Response::bytes("text/\0", b"".as_slice())).contains("Content-Type"));
        assert!(Response::new(200).with_header("Set-Cookie", "a=b; Path=/").checked().is_ok());
    }

    #[test]
    fn only_allocated_bytes_count() {
        let kept = KeptBytes::new(usize::MAX, || {});
        let held = |response: Response| response.hold(&kept).bytes();
        static LARGE: [u8; 100_000] = [0; 100_000];
        let fixed = Response::bytes("text/plain", LARGE.as_slice());
        assert!(fixed.memory() >= LARGE.len(), "it may have to be copied");
        assert_eq!(held(fixed), 0);
        let mut spare = Vec::with_capacity(LARGE.len());
        spare.push(b'a');
        assert!(held(Response::bytes("text/plain", spare)) >= LARGE.len());
        assert!(held(Response::new(200).with_header("X-Long", "a".repeat(5000))) >= 5000);
        assert_eq!(kept.get(), 0);
    }

    #[test]
    fn setting_a_field_replaces_it() {
        let response = Response::text("{}")
            .with_header("content-type", "application/problem+json")
            .with_header("Location", "/a")
            .with_header("location", "/b")
            .append_header("LOCATION", "/c")
            .append_header("Set-Cookie", "a=1")
            .append_header("set-cookie", "b=2")
            .with_header("X-Gone", "1")
            .without_header("x-gone");
        let fields: Vec<_> = response.headers().collect();
        assert_eq!(
            fields,
            [
                ("Content-Type", "application/problem+json"),
                ("LOCATION", "/c"),
                ("Set-Cookie", "a=1"),
                ("set-cookie", "b=2")
            ]
        );
    }

    #[test]
    fn some_statuses_have_no_content() {
        for status in [204, 205, 304] {
            let response = Response::text("a body")
                .with_header("Content-Language", "en")
                .with_header("ETag", "\"a\"")
                .with_status(status)
                .checked()
                .unwrap();
            assert_eq!(response.headers().collect::<Vec<_>>(), [("ETag", "\"a\"")], "{status}");
            assert_eq!(response.into_content().unwrap(), b"", "{status}");
        }
    }

    #[test]
    fn texts_may_be_borrowed() {
        let local = String::from("local");
        let response = Response::text(local.as_str()).with_header("X-Name", &*local);
        drop(local);
        assert_eq!(response.into_content().unwrap(), b"local");
    }

    #[test]
    fn written_content_can_be_read() {
        let long = || {
            Response::stream("text/plain", |body| {
                body.write_all(&[b'x'; 200_000])?;
                Ok(())
            })
        };
        assert_eq!(long().into_content().unwrap().len(), 200_000);
        let failing = Response::stream("text/plain", |_| Err("broke".into()));
        assert_eq!(failing.into_content().unwrap_err().to_string(), "broke");
        let (writer, response) = Response::channel("text/plain");
        drop(writer);
        assert!(response.into_content().is_err());
    }
}
