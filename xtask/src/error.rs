//! Errors of tasks: the place of the failure and the remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

#[derive(Debug)]
pub(crate) enum Error {
    /// The command line has no valid task.
    Usage { problem: String },
    /// A program is missing, or the kernel didn't start it.
    Start { program: String, source: io::Error },
    /// A program ran and failed, after printing its own error.
    Failed { program: String, status: ExitStatus },
    /// Tests failed, with these messages.
    Tests { program: String, status: ExitStatus, failures: Vec<String> },
    /// Several programs ran, and these errors came.
    Several { errors: Vec<Error> },
    /// A file or directory can't be read or written.
    File { path: PathBuf, source: io::Error },
    /// The machine lacks a program or a package.
    Missing { what: String, remedy: String },
    /// Targets can't be built on this machine, for these reasons.
    Targets { reasons: Vec<String> },
    /// A program or a file had another result than expected.
    Unexpected { what: String, expected: String, got: String },
    /// Findings of the checks of texts.
    Untidy { findings: Vec<String> },
    /// Steps of the request path that cost more than the tolerance, or that only one table has.
    Counts { percent_max: u64, findings: Vec<String> },
    /// Steps failed; the summary above names them.
    Steps { failed: usize, total: usize },
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Error {
        Error::File { path: path.into(), source }
    }

    pub(crate) fn start(command: &Command, source: io::Error) -> Error {
        Error::Start { program: name(command), source }
    }

    pub(crate) fn failed(command: &Command, status: ExitStatus) -> Error {
        Error::Failed { program: name(command), status }
    }
}

/// Returns the program's name and its first argument, enough to find it in the output.
pub(crate) fn name(command: &Command) -> String {
    let first = command.get_args().next().map(|word| format!(" {}", word.display()));
    format!("{}{}", command.get_program().display(), first.unwrap_or_default())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage { problem } => write!(f, "{problem}\n\n{}", crate::USAGE),
            Error::Start { program, source } => write!(f, "cannot start `{program}`: {source}"),
            Error::Failed { program, status } => {
                write!(f, "`{program}` failed ({status}); see its output")
            }
            Error::Tests { program, status, failures } => {
                write!(f, "`{program}` failed ({status})\n{}", failures.join("\n"))
            }
            Error::Several { errors } => errors.iter().try_for_each(|error| writeln!(f, "{error}")),
            Error::File { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Targets { reasons } => {
                write!(f, "can't be built on this machine:")?;
                reasons.iter().try_for_each(|reason| write!(f, "\n{reason}"))
            }
            Error::Missing { what, remedy } => write!(f, "missing: {what}; {remedy}"),
            Error::Unexpected { what, expected, got } => write!(f, "{what}: expected {expected}, got {got}"),
            Error::Untidy { findings } => write!(f, "not tidy:\n  {}", findings.join("\n  ")),
            Error::Counts { percent_max, findings } => write!(
                f,
                "more than {percent_max} % above bench/counts.txt, or not in it:\n  {}\nIf the change is worth it, give the \
                 reason in the commit and write the table with `cargo xtask counts --accept`.",
                findings.join("\n  ")
            ),
            Error::Steps { failed, total } => write!(f, "{failed} of {total} steps failed"),
        }
    }
}
