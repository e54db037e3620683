//! Why a build failed, for the log and for pages in browsers.

use cannery_archiver::Error;
use cannery_archiver::diagnostic::Diagnostic;
use serde::Serialize;

use crate::format;

/// A failed build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct BuildFailure {
    pub(in crate::commands) message: String,
    /// The remarks that the message is about.
    pub(in crate::commands) diagnostics: Vec<Diagnostic>,
}

impl From<&Error> for BuildFailure {
    fn from(error: &Error) -> BuildFailure {
        match error {
            Error::Sources { report, .. } => {
                let count = format::counted(report.errors() as u64, "error");
                let message = format!("{count} in the folder");
                BuildFailure { message, diagnostics: report.diagnostics.clone() }
            }
            Error::Strict { report, .. } => {
                BuildFailure { message: error.to_string(), diagnostics: report.diagnostics.clone() }
            }
            error => BuildFailure { message: error.to_string(), diagnostics: Vec::new() },
        }
    }
}
