//! Errors of handlers, consisting of a status, a message for the client, and a cause for the
//! operator.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use cannery_base::status::reason_phrase;
use serde::Serialize;

use crate::content_failure::ContentFailure;
use crate::field_names::has_single_value;
use crate::set_cookie::SetCookie;

/// Reason why a handler does not have a response.
///
/// With `?`, errors of the standard library and other crates are converted to an error with status 500, as are `anyhow::Error`,
/// `Box<dyn Error + Send + Sync>` and texts. Their text is only meant for the operator, while clients get a text that does not
/// mention the cause. The errors of a [`ContentReader`](crate::ContentReader) get a status of their own, such as 413, even if they are
/// the cause of another error. [`OrStatus`] chooses another status, and a message for the client:
///
/// ```
/// # extern crate cannery_routes as cannery;
/// use cannery::{HandlerError, OrStatus, Request};
///
/// fn square(request: &Request) -> Result<String, HandlerError> {
///     let number: u32 = request.param("number").parse().or_status(400, "This is no number.")?;
///     let square = number.checked_mul(number).or_status(422, "The number is too large.")?;
///     Ok(square.to_string())
/// }
/// ```
pub struct HandlerError {
    status: u16,
    message: Cow<'static, str>,
    cause: Option<Box<dyn Error + Send + Sync>>,
    fields: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    content: Option<Box<Content>>,
    /// Changes to the response that will be made from the error.
    edits: Vec<Edit>,
    /// Whether the server has refused the request, so that there is nothing to report.
    is_refusal: bool,
}

/// A change to a response.
#[derive(Clone)]
pub(crate) enum Edit {
    Status(u16),
    Set(Cow<'static, str>, Cow<'static, str>),
    Append(Cow<'static, str>, Cow<'static, str>),
    Remove(String),
    Cookie(SetCookie),
}

/// Content of an error that replaces the usual error page.
pub(crate) struct Content {
    pub(crate) media_type: Cow<'static, str>,
    pub(crate) bytes: Cow<'static, [u8]>,
}

impl HandlerError {
    /// Creates an error. The client will get `message` as plain text.
    #[must_use]
    pub fn new(status: u16, message: impl Into<Cow<'static, str>>) -> HandlerError {
        HandlerError {
            status,
            message: message.into(),
            cause: None,
            fields: Vec::new(),
            content: None,
            edits: Vec::new(),
            is_refusal: false,
        }
    }

    /// Creates an error with status 500 from a cause that need not be `Send`, whose text is kept.
    // Takes a box since `Box<dyn Error>` is what other functions return.
    #[allow(clippy::needless_pass_by_value, reason = "it can be passed to `map_err`")]
    #[must_use]
    pub fn from_boxed(cause: Box<dyn Error>) -> HandlerError {
        let error = HandlerError::from(chain(&*cause));
        match ContentFailure::in_chain(&*cause) {
            Some(failure) => error.of_content(failure),
            None => error,
        }
    }

    /// Chooses the status if the handler could not read the content of the request.
    fn of_content(self, failure: ContentFailure) -> HandlerError {
        let (status, message) = failure.status();
        // It is not the handler's fault that the server is busy.
        HandlerError { is_refusal: status == 503, ..self.with_status(status).with_message(message) }
    }

    /// Creates the error for a handler that has panicked.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn panicked() -> HandlerError {
        HandlerError::from("the handler has panicked")
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(self, status: u16) -> HandlerError {
        HandlerError { status, ..self }
    }

    /// Sets the message for the client.
    #[must_use]
    pub fn with_message(self, message: impl Into<Cow<'static, str>>) -> HandlerError {
        HandlerError { message: message.into(), ..self }
    }

    /// Sets the cause for the operator.
    #[must_use]
    pub fn with_cause(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> HandlerError {
        HandlerError { cause: Some(cause.into()), ..self }
    }

    /// Sets a header field of the response, for example `WWW-Authenticate`.
    #[must_use]
    pub fn with_header(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) -> HandlerError {
        let name = name.into();
        self.fields.retain(|(held, _)| !held.eq_ignore_ascii_case(&name));
        self.fields.push((name, Cow::Owned(value.into())));
        self
    }

    /// Adds a value of a header field, for example another `Set-Cookie` or `WWW-Authenticate`. Fields that can only have one value,
    /// such as `Location`, are replaced instead.
    #[must_use]
    pub fn append_header(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) -> HandlerError {
        let name = name.into();
        if has_single_value(&name) {
            return self.with_header(name, value);
        }
        self.fields.push((name, Cow::Owned(value.into())));
        self
    }

    /// Sets the content of the response. Such an error isn't passed to the error handler. See also
    /// [`Problem`](crate::Problem).
    #[must_use]
    pub fn with_content(
        self,
        media_type: impl Into<Cow<'static, str>>,
        content: impl Into<String>,
    ) -> HandlerError {
        let bytes = Cow::Owned(content.into().into_bytes());
        let content = Content { media_type: media_type.into(), bytes };
        HandlerError { content: Some(Box::new(content)), ..self }
    }

    /// Sets the content of the response to a value as JSON.
    ///
    /// # Errors
    /// Returns an error if the value cannot be represented in JSON.
    pub fn with_json<T: Serialize + ?Sized>(self, value: &T) -> Result<HandlerError, HandlerError> {
        Ok(self.with_content("application/json", serde_json::to_string(value)?))
    }

    /// Returns the status of the response. This is 500 if the error was given a status that errors cannot have, such as 303.
    #[must_use]
    pub fn status(&self) -> u16 {
        if (400..=599).contains(&self.status) { self.status } else { 500 }
    }

    /// The message for the client, which is empty if the client should not learn more than the status.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the cause for the operator, if any.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.cause.as_deref()
    }

    /// Returns names and values of the header fields that the response will have.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns the error of the server for the same response, without the cause.
    pub(crate) fn refusal(&self) -> HandlerError {
        HandlerError {
            fields: self.fields.clone(),
            is_refusal: true,
            ..HandlerError::new(self.status, self.message.clone())
        }
    }

    /// Returns `true` if the operator should learn about the error.
    pub(crate) fn is_fault(&self) -> bool {
        self.status() >= 500 && !self.is_refusal
    }

    /// Returns the text for the operator.
    pub(crate) fn report(&self) -> String {
        if self.status == self.status() {
            return self.to_string();
        }
        format!("an error has the status {}, which is none of 400 to 599: {self}", self.status)
    }

    /// Makes another change to the response that will be made from the error.
    pub(crate) fn edit(&mut self, edit: Edit) {
        if let Edit::Status(status @ 400..=599) = edit {
            // The error handler may show it.
            self.status = status;
        }
        self.edits.push(edit);
    }

    pub(crate) fn take_edits(&mut self) -> Vec<Edit> {
        std::mem::take(&mut self.edits)
    }

    pub(crate) fn fields(&self) -> &[(Cow<'static, str>, Cow<'static, str>)] {
        &self.fields
    }

    /// Returns the content that replaces the usual error page, if any.
    pub(crate) fn content(&self) -> Option<&Content> {
        self.content.as_deref()
    }

    /// Returns the text for clients.
    pub(crate) fn text(&self) -> &str {
        match (&*self.message, self.status()) {
            ("", 500..) => "The server has failed to make this page.",
            ("", status) => reason_phrase(status),
            (message, _) => message,
        }
    }
}

/// Converts any error, and also texts, to an error with status 500. If its cause is that the content of the request could not be read,
/// the status tells why.
// There is no conversion from `Box<dyn Error>` because it would overlap with this one.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for HandlerError {
    fn from(cause: E) -> HandlerError {
        let cause = cause.into();
        let failure = ContentFailure::in_chain(&*cause);
        let error = HandlerError { cause: Some(cause), ..HandlerError::new(500, "") };
        match failure {
            Some(failure) => error.of_content(failure),
            None => error,
        }
    }
}

/// Formats the cause for the operator, including the causes of that. Without a cause, formats the message.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => f.write_str(&chain(&**cause)),
            None => f.write_str(self.text()),
        }
    }
}

/// Returns the text of an error and its sources.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        // Many errors repeat their source.
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
    text
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.status)
    }
}

/// Gives a missing value or an error a status and a message for the client.
///
/// A [`HandlerError`], for example of [`Request::json`](crate::Request::json), has them already: change them by
/// `map_err(|error| error.with_status(422))`.
pub trait OrStatus<T> {
    /// Returns the value.
    ///
    /// # Errors
    /// Returns an error with this status and message if there is no value. An error becomes its cause.
    fn or_status(self, status: u16, message: impl Into<Cow<'static, str>>) -> Result<T, HandlerError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> OrStatus<T> for Result<T, E> {
    fn or_status(self, status: u16, message: impl Into<Cow<'static, str>>) -> Result<T, HandlerError> {
        self.map_err(|cause| HandlerError::new(status, message).with_cause(cause))
    }
}

impl<T> OrStatus<T> for Option<T> {
    fn or_status(self, status: u16, message: impl Into<Cow<'static, str>>) -> Result<T, HandlerError> {
        self.ok_or_else(|| HandlerError::new(status, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the forecast is missing")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn causes_are_for_the_operator() {
        let parse = || -> Result<u8, HandlerError> { Ok("x".parse::<u8>()?) };
        let error = parse().unwrap_err();
        assert_eq!((error.status(), error.message()), (500, ""));
        assert_eq!(error.to_string(), "invalid digit found in string");
        assert!(error.cause().is_some());

        let error = HandlerError::new(404, "No such city.");
        assert_eq!(
            (error.status(), error.message(), error.to_string().as_str()),
            (404, "No such city.", "No such city.")
        );
        assert!(error.cause().is_none());
    }

    #[test]
    fn causes_of_causes_are_reported() {
        let error = HandlerError::from(Outer("x".parse::<u8>().unwrap_err()));
        assert_eq!(error.to_string(), "the forecast is missing: invalid digit found in string");
    }

    #[test]
    fn boxed_errors_are_converted() {
        fn of_box() -> Result<(), HandlerError> {
            let failed: Result<(), Box<dyn Error + Send + Sync>> = Err("a disk".into());
            Ok(failed?)
        }
        fn of_anyhow() -> Result<(), HandlerError> {
            let failed: anyhow::Result<()> = Err(anyhow::anyhow!("a disk").context("a file"));
            Ok(failed?)
        }
        fn of_local_box() -> Result<(), HandlerError> {
            let failed: Result<(), Box<dyn Error>> = Err("a disk".into());
            failed.map_err(HandlerError::from_boxed)
        }
        let texts = [of_box(), of_anyhow(), of_local_box()].map(|result| result.unwrap_err().to_string());
        assert_eq!(texts, ["a disk", "a file: a disk", "a disk"]);
    }

    #[test]
    fn errors_have_statuses_of_errors() {
        for (status, actual) in [(200, 500), (303, 500), (399, 500), (400, 400), (599, 599), (600, 500)] {
            assert_eq!(HandlerError::new(status, "").status(), actual, "{status}");
        }
    }

    #[test]
    fn status_and_cause_can_differ() {
        let error = "x".parse::<u8>().or_status(400, "This is no number.").unwrap_err();
        assert_eq!((error.status(), error.message()), (400, "This is no number."));
        assert_eq!(error.to_string(), "invalid digit found in string");
        assert_eq!(None::<u8>.or_status(404, "").unwrap_err().to_string(), "Not Found");
    }
}
