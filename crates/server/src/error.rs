//! Errors that can occur while a server starts.

use std::io;
use std::path::PathBuf;

use cannery_archive::{OpenError, VerifyError};
use cannery_eventloop::Address;

use crate::config::LogTarget;
use crate::sandbox::SandboxError;

/// An error that keeps the server from starting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The archive cannot be served.
    #[error("{}: {source}", path.display())]
    #[non_exhaustive]
    Archive {
        /// The archive.
        path: PathBuf,
        /// The cause.
        source: OpenError,
    },
    /// The archive is damaged.
    #[error("{}: {source}", path.display())]
    #[non_exhaustive]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// The cause.
        source: VerifyError,
    },
    /// No listed key has signed the current release, or it isn't acceptable for another reason.
    #[error("{}: {why}", path.display())]
    #[non_exhaustive]
    Untrusted {
        /// The archive.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The current release has to be signed, but it can't be checked at the moment, or not be protected from changes.
    #[error("{}: {why}", path.display())]
    #[non_exhaustive]
    Unready {
        /// The archive.
        path: PathBuf,
        /// The reason.
        why: String,
        /// The cause, if the system has refused something.
        source: Option<io::Error>,
    },
    /// The site directory cannot be listed.
    #[error("{}: {source}", path.display())]
    #[non_exhaustive]
    Sites {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The certificates or keys cannot be used.
    #[error("{0}")]
    Tls(#[from] cannery_transport::Error),
    /// A route's pattern is invalid, or conflicts with another one.
    #[error(transparent)]
    Route(#[from] cannery_routes::RouteError),
    /// A host given by the program is invalid.
    #[error("{0:?} is no host: give a name such as `example.com` or `*.example.com`")]
    Host(String),
    /// The service manager cannot be notified.
    #[error("cannot notify the service manager: {0}")]
    Notify(io::Error),
    /// An address given by the program is invalid.
    #[error("cannot listen at {text:?}: {source}")]
    #[non_exhaustive]
    Address {
        /// The text.
        text: String,
        /// The cause.
        source: cannery_eventloop::ParseAddressError,
    },
    /// There is no address to listen on.
    #[error("there is no address to listen on: call `bind`, `bind_tls` or `bind_quic`")]
    NoListener,
    /// There is a listener for TLS or HTTP/3, but no certificate.
    #[error("there is a listener for TLS or HTTP/3, but no certificate")]
    NoCertificate,
    /// The inherited seed of the ticket keys cannot be read.
    #[error("cannot read the seed of ticket keys from descriptor {descriptor}: {source}")]
    #[non_exhaustive]
    Seed {
        /// The descriptor.
        descriptor: i32,
        /// The cause.
        source: io::Error,
    },
    /// The address cannot be bound.
    #[error("cannot listen at {address}: {source}")]
    #[non_exhaustive]
    Listen {
        /// The address.
        address: Address,
        /// The cause.
        source: io::Error,
    },
    /// The address cannot be bound for HTTP/3.
    #[error("cannot receive datagrams at {address}: {source}")]
    #[non_exhaustive]
    ListenUdp {
        /// The address.
        address: Address,
        /// The cause.
        source: io::Error,
    },
    /// An inherited descriptor is not a listening socket.
    #[error("cannot listen with inherited descriptor {descriptor}: {source}")]
    #[non_exhaustive]
    Inherited {
        /// The descriptor.
        descriptor: i32,
        /// The cause.
        source: io::Error,
    },
    /// An inherited descriptor is not a UDP socket.
    #[error("cannot receive datagrams from inherited descriptor {descriptor}: {source}")]
    #[non_exhaustive]
    InheritedUdp {
        /// The descriptor.
        descriptor: i32,
        /// The cause.
        source: io::Error,
    },
    /// A variable set by the supervisor does not contain valid descriptors.
    #[error("{variable} is no list of {of}")]
    #[non_exhaustive]
    InheritedList {
        /// The environment variable.
        variable: &'static str,
        /// The form of its items.
        of: &'static str,
    },
    /// We cannot find the file of this program, which other processes should run.
    #[error("cannot find this program to start it again: {0}")]
    Program(#[source] io::Error),
    /// The supervisor has failed, so no process is serving.
    #[error("{0}")]
    Supervisor(#[source] io::Error),
    /// A server with several processes cannot be started by a function that returns while it is serving.
    #[error("a server with several processes is started by `Server::run`")]
    Processes,
    /// The admin process has not inherited a listener.
    #[error("this process has inherited no listening socket")]
    NoAdminListener,
    /// The access log cannot be written.
    #[error("cannot write the access log {target}: {source}")]
    #[non_exhaustive]
    AccessLog {
        /// The target of the log.
        target: LogTarget,
        /// The cause.
        source: io::Error,
    },
    /// The directory of ACME challenges cannot be read.
    #[error("cannot serve ACME challenges from {}: {source}", path.display())]
    #[non_exhaustive]
    Webroot {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// `io_uring` is required but not available.
    #[error("`--io io_uring`: the kernel lacks or forbids io_uring with the features of Linux 6.1: {0}")]
    Uring(#[source] io::Error),
    /// The kernel does not provide an event loop.
    #[error("cannot create an event loop: {0}")]
    EventLoop(#[source] io::Error),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The sandbox cannot be entered as configured.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Signals cannot be registered.
    #[error("cannot wait for signals: {0}")]
    Signals(#[source] io::Error),
}
