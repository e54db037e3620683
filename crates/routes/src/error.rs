//! Errors of handlers, consisting of a status, a message for the client, and a cause for the
//! operator.

use std::borrow::Cow;
use std::fmt;

/// Reason why a handler does not have a response.
///
/// With `?`, any error from the standard library or other crates is converted to an error with status 500.
/// Its text is only meant for the operator, while clients get a text that does not mention the cause.
pub struct HandlerError {
    status: u16,
    message: Cow<'static, str>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl HandlerError {
    /// Creates an error. The client will get `message` as plain text.
    #[must_use]
    pub fn new(status: u16, message: impl Into<Cow<'static, str>>) -> HandlerError {
        HandlerError { status, message: message.into(), cause: None }
    }

    /// Creates the error for a handler that has panicked.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn panicked() -> HandlerError {
        HandlerError { cause: Some("the handler has panicked".into()), ..HandlerError::new(500, "") }
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The message for the client, which is empty if the client should not learn more than the status.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the cause for the operator, if any.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.cause.as_deref()
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(cause: E) -> HandlerError {
        HandlerError { cause: Some(Box::new(cause)), ..HandlerError::new(500, "") }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => cause.fmt(f),
            None => f.write_str(&self.message),
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
