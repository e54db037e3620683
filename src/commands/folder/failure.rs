//! Failed builds, for the log and for pages in browsers.

use std::io::ErrorKind;

use cannery_archiver::Error;
use cannery_archiver::diagnostic::Diagnostic;
use serde::Serialize;

use crate::format;

/// A failed build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct BuildFailure {
    pub(in crate::commands) message: String,
    /// The remarks that the message refers to.
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
            Error::Read { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                let message = format!(
                    "{error}; let the user of this process read it, or name it in `.canneryignore`. `cannery-server` must be \
                     restarted to follow a new link out of the folder"
                );
                BuildFailure { message, diagnostics: Vec::new() }
            }
            error => BuildFailure { message: error.to_string(), diagnostics: Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_file_has_a_remedy() {
        let failure = |kind: ErrorKind| {
            BuildFailure::from(&Error::Read { path: "site/a".into(), source: kind.into() }).message
        };
        let denied = failure(ErrorKind::PermissionDenied);
        assert!(denied.starts_with("cannot read site/a") && denied.contains(".canneryignore"), "{denied}");
        assert!(!failure(ErrorKind::Other).contains(".canneryignore"));
    }
}
