//! What can go wrong in a task: whose fault, where, and what to do next.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

#[derive(Debug)]
pub(crate) enum Error {
    /// The caller's words make no task.
    Usage { problem: String },
    /// A program is not there, or the kernel would not start it.
    Start { program: String, source: io::Error },
    /// A program ran and said that it failed; its own words stand above.
    Failed { program: String, status: ExitStatus },
    /// A file or folder would not be read or written.
    File { path: PathBuf, source: io::Error },
    /// Something this machine needs and does not have.
    Missing { what: String, remedy: String },
    /// Something answered, but not what it should.
    Unexpected { what: String, expected: String, got: String },
    /// Checks of the text that did not hold.
    Untidy { findings: Vec<String> },
    /// Steps of the request path that cost more than is let pass, or are new or gone.
    Counts { percent_max: u64, findings: Vec<String> },
    /// Steps that failed, named in the summary above.
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

/// The program's name and its first argument, enough to find it in the output above.
fn name(command: &Command) -> String {
    let first = command.get_args().next().map(|word| format!(" {}", word.display()));
    format!("{}{}", command.get_program().display(), first.unwrap_or_default())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage { problem } => write!(f, "{problem}\n\n{}", crate::USAGE),
            Error::Start { program, source } => write!(f, "cannot start `{program}`: {source}"),
            Error::Failed { program, status } => {
                write!(f, "`{program}` failed ({status}); its output says why")
            }
            Error::File { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Missing { what, remedy } => write!(f, "missing: {what}; {remedy}"),
            Error::Unexpected { what, expected, got } => write!(f, "{what}: expected {expected}, got {got}"),
            Error::Untidy { findings } => write!(f, "not tidy:\n  {}", findings.join("\n  ")),
            Error::Counts { percent_max, findings } => write!(
                f,
                "more than {percent_max} % above bench/counts.txt, or not in it:\n  {}\nIf that is worth it, say why in \
                 the commit, and write the table with `cargo xtask counts --accept`.",
                findings.join("\n  ")
            ),
            Error::Steps { failed, total } => write!(f, "{failed} of {total} steps failed"),
        }
    }
}
