//! Live reload: a folder that is edited while it is served, and the pages by which browsers follow it.

use std::fmt;
use std::sync::Arc;

/// A folder that is edited while it is served.
pub trait LiveReload: Send + Sync {
    /// Waits until all changes of the folder before this call are served, for a short time at most.
    ///
    /// A worker calls it before it processes received data, and responds to no other client meanwhile. So this is for a
    /// server with few clients.
    fn refresh(&self);

    /// Handles that a browser requests the script of a service worker, over HTTP/1. Over TLS with a certificate of our own,
    /// browsers refuse service workers.
    fn service_worker_requested(&self, _target: &[u8]) {}

    /// Returns the absolute path of the script that documents get, without characters that HTML escapes, or `None` if they are
    /// sent as they are.
    fn document_script(&self) -> Option<&str> {
        None
    }

    /// Returns the page at a path.
    fn page(&self, path: &[u8], query: &[u8]) -> LivePage;
}

/// A page about changes of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LivePage {
    /// There is none at the path.
    Missing,
    /// It has no content yet. An HTTP/1 client waits for it, and [`WakeHandle::wake`](crate::WakeHandle::wake) makes the server
    /// check again. Other clients get `null` at once, because all their requests share a connection.
    Pending,
    /// Its content.
    Ready {
        /// The value of `Content-Type`.
        media_type: &'static str,
        /// The content.
        body: Vec<u8>,
    },
}

/// The folder that a server is configured with.
#[derive(Clone)]
pub struct LiveFolder(pub Arc<dyn LiveReload>);

impl fmt::Debug for LiveFolder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LiveFolder")
    }
}
