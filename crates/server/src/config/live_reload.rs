//! Live reload: serves a folder while it is being edited, and pages that tell browsers about changes.

use std::fmt;
use std::sync::Arc;

/// A folder that can be edited while it is served.
pub trait LiveReload: Send + Sync {
    /// Waits for a short time until all earlier changes of the folder are served.
    ///
    /// Workers call this before processing received data and cannot respond to other clients in the meantime,
    /// so it is only suitable for servers with few clients.
    fn refresh(&self);

    /// Called when a browser requests a service worker script over HTTP/1. Browsers will not accept
    /// service workers over TLS with a certificate that we signed ourselves.
    fn service_worker_requested(&self, _target: &[u8]) {}

    /// The absolute path of the script to insert into documents, or `None` to send them unchanged.
    /// It must not contain any characters that need to be escaped in HTML.
    fn document_script(&self) -> Option<&str> {
        None
    }

    /// Returns the page at a path.
    fn page(&self, path: &[u8], query: &[u8]) -> LivePage;
}

/// A page about changes of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LivePage {
    /// There is no such page.
    Missing,
    /// The page is not ready yet. HTTP/1 clients will have to wait until
    /// [`WakeHandle::wake`](crate::WakeHandle::wake) makes the server check again, whereas other clients
    /// get `null` immediately because all of their requests share one connection.
    Pending,
    /// The page is ready.
    Ready {
        /// The value of `Content-Type`.
        media_type: &'static str,
        /// The content.
        body: Vec<u8>,
    },
}

/// Wraps the folder for the configuration.
#[derive(Clone)]
pub struct LiveFolder(pub Arc<dyn LiveReload>);

impl fmt::Debug for LiveFolder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LiveFolder")
    }
}
