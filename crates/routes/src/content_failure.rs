//! Reasons why a handler can't read the content of its request, and the statuses that they lead to.

use std::error::Error;
use std::{fmt, io};

/// Why content is incomplete.
// Only for the server.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Exhaustive: each one has a status.
pub enum ContentFailure {
    /// The request has ended before its content.
    Cut,
    /// It is longer than its handler accepts.
    TooLong,
    /// Its framing is invalid.
    Invalid,
    /// The upload has occupied its thread for a long time while others were waiting for one.
    Stopped,
    /// The handler has got the content before.
    Taken,
    /// It is not the form that its type promises.
    InvalidForm,
    /// A part of a form is longer than its handler accepts, or there are too many.
    FormTooLong,
}

impl ContentFailure {
    /// Returns the status of the response, and its text.
    pub(crate) fn status(self) -> (u16, &'static str) {
        match self {
            ContentFailure::Cut => (400, "The content of the request is incomplete."),
            ContentFailure::TooLong => (413, "The content of the request is too long."),
            ContentFailure::Invalid => (400, "The content of the request is invalid."),
            ContentFailure::Stopped => (503, "The server is busy. Try again in a few seconds."),
            ContentFailure::Taken => (500, ""),
            ContentFailure::InvalidForm => (400, "The form in the content of the request is invalid."),
            ContentFailure::FormTooLong => (413, "The form in the content of the request is too long."),
        }
    }

    fn kind(self) -> io::ErrorKind {
        match self {
            ContentFailure::Cut => io::ErrorKind::ConnectionAborted,
            ContentFailure::TooLong | ContentFailure::FormTooLong => io::ErrorKind::FileTooLarge,
            ContentFailure::Invalid | ContentFailure::InvalidForm => io::ErrorKind::InvalidData,
            ContentFailure::Stopped => io::ErrorKind::TimedOut,
            ContentFailure::Taken => io::ErrorKind::InvalidInput,
        }
    }

    /// Finds the failure that has caused an error.
    pub(crate) fn in_chain(error: &(dyn Error + 'static)) -> Option<ContentFailure> {
        let mut next = Some(error);
        while let Some(error) = next {
            // The cause of an `io::Error` is not the error inside of it, but the cause of that.
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            let inner = inner.and_then(|inner| inner.downcast_ref());
            if let Some(failure) = inner.or_else(|| error.downcast_ref()) {
                return Some(*failure);
            }
            next = error.source();
        }
        None
    }
}

impl fmt::Display for ContentFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ContentFailure::Cut => "the request has ended before its content was complete",
            ContentFailure::TooLong => "the content of the request is longer than the limit",
            ContentFailure::Invalid => "the content of the request is invalid",
            ContentFailure::Stopped => "other uploads wait for this thread",
            ContentFailure::Taken => "the handler has been called before, and has taken the content",
            ContentFailure::InvalidForm => "the form in the content of the request is invalid",
            ContentFailure::FormTooLong => "the form in the content of the request is longer than a limit",
        })
    }
}

impl Error for ContentFailure {}

impl From<ContentFailure> for io::Error {
    fn from(failure: ContentFailure) -> io::Error {
        io::Error::new(failure.kind(), failure)
    }
}
