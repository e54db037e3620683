//! A request that is kept with its stream until it is answered.

use crate::head_store::RequestInfo;
use crate::stored_request::StoredRequest;

/// A request that is answered later.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) info: RequestInfo,
    /// The request, if its content is received.
    pub(super) kept: Option<KeptRequest>,
}

/// A request while its content is received.
#[derive(Debug)]
pub(super) struct KeptRequest {
    pub(super) request: StoredRequest,
    /// The limit of the content, in bytes.
    pub(super) bytes_max: usize,
}

impl Unanswered {
    /// Returns the memory that it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Unanswered>() + self.kept.as_ref().map_or(0, |kept| kept.request.memory())
    }
}
