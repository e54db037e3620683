//! Why a server would not start: whose fault, and what to turn.

use std::io;
use std::path::PathBuf;

use cannery_archive::OpenError;
use cannery_eventloop::Address;

use crate::config::LogTarget;
use crate::sandbox::SandboxError;

/// Why a server would not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The archive cannot be served.
    #[error("{}: {source}", path.display())]
    Archive {
        /// Which archive.
        path: PathBuf,
        /// Why not.
        source: OpenError,
    },
    /// There is no TLS with these certificates.
    #[error("{0}")]
    Tls(#[from] cannery_secure::Error),
    /// Connections are to speak TLS, and nobody has said with which certificate.
    #[error("there is a listener for TLS, and no certificate")]
    NoCertificate,
    /// The seed of tickets that whoever started us left for us cannot be read.
    #[error("cannot read the seed of tickets from descriptor {descriptor}: {source}")]
    Seed {
        /// Its number.
        descriptor: i32,
        /// Why not.
        source: io::Error,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// Which address.
        address: Address,
        /// Why not.
        source: io::Error,
    },
    /// A socket that whoever started us left open is not one that can be listened at.
    #[error("cannot listen with inherited descriptor {descriptor}: {source}")]
    Inherited {
        /// Its number.
        descriptor: i32,
        /// Why not.
        source: io::Error,
    },
    /// A process that is to answer operators was handed no socket to listen with.
    #[error("no socket to listen with was handed to this process")]
    NoOperators,
    /// The access log cannot be written.
    #[error("cannot write the access log {target}: {source}")]
    AccessLog {
        /// Where it was to go.
        target: LogTarget,
        /// Why not.
        source: io::Error,
    },
    /// The directory of challenges cannot be read.
    #[error("cannot serve challenges from {}: {source}", path.display())]
    Webroot {
        /// Which directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The kernel gives no ring, and one was ordered.
    #[error("`--io io_uring`: this kernel does not have what it takes (Linux 6.1), or does not let us: {0}")]
    Uring(#[source] io::Error),
    /// The kernel gives no event loop.
    #[error("cannot make an event loop: {0}")]
    EventLoop(#[source] io::Error),
    /// The kernel gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The server cannot be held as it was told to.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Signals cannot be waited for.
    #[error("cannot wait for signals: {0}")]
    Signals(#[source] io::Error),
}
