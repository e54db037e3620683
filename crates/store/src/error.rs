//! Errors of stores: whose fault it is, and what to do.

use std::io;

use serde::{Deserialize, Serialize};

/// Why a store didn't do something.
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct StoreError {
    /// Whose fault it is.
    pub kind: StoreErrorKind,
    /// The reason, as a sentence that names the place.
    pub message: String,
    /// The remedy, unless the message makes it clear.
    pub hint: Option<String>,
}

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store can't be reached, or doesn't answer in time.
    Unreachable,
    /// It ends transfers early again and again.
    Cut,
    /// It wants other credentials.
    Denied,
    /// It doesn't have what it should have.
    Missing,
    /// It sends something else than was asked for.
    Wrong,
    /// It can't do it now, for example because it is overloaded.
    Failing,
    /// It would get credentials without TLS.
    Plain,
    /// This machine can't do it.
    Local,
    /// A file of the store can't be written on this machine.
    Write,
}

impl StoreErrorKind {
    /// Returns `true` if the store has lost or damaged what it was asked for, so that asking for something else may help.
    #[must_use]
    pub fn is_damage(self) -> bool {
        matches!(self, StoreErrorKind::Missing | StoreErrorKind::Wrong | StoreErrorKind::Cut)
    }
}

impl StoreError {
    /// Returns an error without a hint.
    pub(crate) fn new(kind: StoreErrorKind, message: impl Into<String>) -> StoreError {
        StoreError { kind, message: message.into(), hint: None }
    }

    /// Adds what to do.
    pub(crate) fn hint(self, hint: impl Into<String>) -> StoreError {
        StoreError { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn wrong(message: impl Into<String>) -> StoreError {
        StoreError::new(StoreErrorKind::Wrong, message)
    }

    /// Makes an error of one of a file.
    pub(crate) fn file(what: &str, path: &std::path::Path, error: &io::Error) -> StoreError {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => StoreErrorKind::Missing,
            io::ErrorKind::PermissionDenied => StoreErrorKind::Denied,
            _ => StoreErrorKind::Local,
        };
        let failure = StoreError::new(kind, format!("cannot {what} {}: {error}", path.display()));
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.hint("make room on that disk, and run the same command again")
            }
            _ => failure,
        }
    }
}
