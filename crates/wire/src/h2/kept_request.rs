//! A postponed request, kept with its stream.

use crate::request::head_store::RequestInfo;
use crate::request::stored::StoredRequest;

/// A request we will answer later.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) info: RequestInfo,
    /// The request itself, if we are receiving content for it.
    pub(super) kept: Option<KeptRequest>,
}

/// A request whose content we are receiving.
#[derive(Debug)]
pub(super) struct KeptRequest {
    pub(super) request: StoredRequest,
    /// Content limit, in bytes.
    pub(super) bytes_max: usize,
}

impl Unanswered {
    pub(super) fn memory(&self) -> usize {
        size_of::<Unanswered>() + self.kept.as_ref().map_or(0, |kept| kept.request.memory())
    }
}
