//! Errors of the sandbox.

use std::io;
use std::path::PathBuf;

/// An error that keeps us from entering the sandbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// There is no such user or group.
    #[error("there is no {kind} `{name}` in {}", file.display())]
    #[non_exhaustive]
    Unknown {
        /// `user` or `group`.
        kind: &'static str,
        /// The requested name.
        name: String,
        /// The file where we have looked.
        file: PathBuf,
    },
    /// The user was given by number, and we do not know the primary group.
    #[error("user {user} has no group in /etc/passwd: name one as well, as in `{user}:GROUP`")]
    #[non_exhaustive]
    NoGroup {
        /// The user ID.
        user: u32,
    },
    /// The user or group file cannot be read.
    #[error("{}: {source}", file.display())]
    #[non_exhaustive]
    Accounts {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The kernel has refused to change the user or its groups.
    #[error("cannot {what}: {source}")]
    #[non_exhaustive]
    User {
        /// The step that failed.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The kernel has refused to drop a privilege.
    #[error("cannot {what}: {source}")]
    #[non_exhaustive]
    Privileges {
        /// The step that failed.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Dropping privileges did not have any effect.
    #[error("the process could become root again after it had dropped its privileges")]
    PrivilegesRegained,
    /// Access to files cannot be restricted.
    #[error("files are not restricted (landlock): {0}")]
    Filesystem(String),
    /// System calls cannot be restricted.
    #[error("system calls are not restricted (seccomp): {0}")]
    SystemCalls(String),
    /// A thread cannot enter its sandbox.
    #[error("a thread cannot enter its sandbox (seccomp): {0}")]
    Thread(String),
    /// The process has several threads, which would stay outside of the sandbox.
    #[error("the process has {threads} threads, which would stay outside the sandbox")]
    #[non_exhaustive]
    Threads {
        /// Number of threads.
        threads: usize,
    },
}

impl SandboxError {
    /// Creates an error, for a test of the program's hints.
    #[doc(hidden)]
    #[must_use]
    pub fn privileges(what: &'static str, source: io::Error) -> SandboxError {
        SandboxError::Privileges { what, source }
    }
}
