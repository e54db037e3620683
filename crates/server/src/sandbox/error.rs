//! Why there is no cage: what is missing, and where.

use std::io;
use std::path::PathBuf;

/// Why there is no cage.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// There is no such user or group.
    #[error("there is no {kind} `{name}` in {}", file.display())]
    Unknown {
        /// `user` or `group`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        file: PathBuf,
    },
    /// A user by number, of which nobody knows the group.
    #[error("user {user} has no group in /etc/passwd: name one as well, as in `{user}:GROUP`")]
    NoGroup {
        /// Which user.
        user: u32,
    },
    /// A file that tells who is who cannot be read.
    #[error("{}: {source}", file.display())]
    Accounts {
        /// Which file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The kernel does not let the process give up a right.
    #[error("cannot {what}: {source}")]
    Privileges {
        /// What it was about to do.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Giving up rights had no effect.
    #[error("the rights of root came back after they were given up")]
    NotGivenUp,
    /// Files cannot be put out of reach.
    #[error("files are not restricted (landlock): {0}")]
    Filesystem(String),
    /// System calls cannot be refused.
    #[error("system calls are not restricted (seccomp): {0}")]
    SystemCalls(String),
    /// The kernel does not narrow a thread further.
    #[error("a thread cannot be put into its cage (seccomp): {0}")]
    Thread(String),
    /// Threads that are there already would stay outside.
    #[error("there are {threads} threads already, which would stay outside of the cage")]
    Threads {
        /// How many.
        threads: usize,
    },
}
