//! Errors of the sandbox.

use std::io;
use std::path::PathBuf;

/// An error that prevents a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// There is no such user or group.
    #[error("there is no {kind} `{name}` in {}", file.display())]
    Unknown {
        /// `user` or `group`.
        kind: &'static str,
        /// The requested name.
        name: String,
        /// The file in which it was looked up.
        file: PathBuf,
    },
    /// The user is given by number, and has no known primary group.
    #[error("user {user} has no group in /etc/passwd: name one as well, as in `{user}:GROUP`")]
    NoGroup {
        /// The user ID.
        user: u32,
    },
    /// The user or group file cannot be read.
    #[error("{}: {source}", file.display())]
    Accounts {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The kernel refuses to drop a privilege.
    #[error("cannot {what}: {source}")]
    Privileges {
        /// The failed step.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Dropping privileges had no effect.
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
    /// The process has several threads, which would stay outside.
    #[error("the process has {threads} threads, which would stay outside the sandbox")]
    Threads {
        /// Their number.
        threads: usize,
    },
}
