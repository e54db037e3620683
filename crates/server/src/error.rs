//! Why a server would not start: whose fault, and what to turn.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use cannery_archive::OpenError;

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
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The access log cannot be written.
    #[error("cannot write the access log: {0}")]
    AccessLog(#[source] io::Error),
    /// The kernel gives no event loop.
    #[error("cannot make an event loop: {0}")]
    EventLoop(#[source] io::Error),
    /// The kernel gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// Signals cannot be waited for.
    #[error("cannot wait for signals: {0}")]
    Signals(#[source] io::Error),
}
