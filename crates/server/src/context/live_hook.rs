//! Everything that serving a folder while it is edited adds to the request path.
//!
//! Workers wait for changes before they process requests ([`WorkerContext::before_requests`]), hold back requests for
//! pages that are not ready ([`LiveHook::holds_back`]), and process these again after each wake-up. All of this is one
//! comparison for other servers.
//!
//! [`WorkerContext::before_requests`]: super::WorkerContext::before_requests

use cannery_wire::RequestHead;

use crate::config::LiveFolder;
use crate::content::Content;

/// The folder that the content is made from, if someone may be editing it.
pub(crate) struct LiveHook(Option<LiveFolder>);

/// Tells if the release may have been replaced, so that responses must not be batched with earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    Impossible,
    Possible,
}

impl LiveHook {
    pub(crate) fn new(folder: Option<LiveFolder>) -> LiveHook {
        LiveHook(folder)
    }

    /// Returns `true` if requests may have to wait for pages.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.0.is_some()
    }

    /// Waits until recent changes of the folder are served.
    pub(super) fn await_changes(&self) {
        if let Some(folder) = &self.0 {
            folder.0.refresh();
        }
    }

    /// Returns `true` if a request should wait for the next wake-up because its page will not be ready until the folder
    /// changes. Must be called for each HTTP/1 request. `is_last` tells if no other request of the connection has
    /// arrived.
    #[inline]
    pub(crate) fn holds_back(&self, head: &RequestHead<'_>, is_last: bool, content: &Content) -> bool {
        self.0.as_ref().is_some_and(|folder| holds_back(folder, head, is_last, content))
    }
}

/// Implements [`LiveHook::holds_back`] for a folder.
#[cold]
fn holds_back(folder: &LiveFolder, head: &RequestHead<'_>, is_last: bool, content: &Content) -> bool {
    let request = &head.request;
    if is_last && folder.is_pending(head) && content.answers_host(request) {
        return true;
    }
    folder.notice_service_worker(request.target, head.field_lines);
    false
}
