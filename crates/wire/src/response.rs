//! Responses that have not been encoded for an HTTP version yet.

use cannery_site::Answer;

use crate::archive_ref::ArchiveRef;
use crate::server_fields::ServerFields;

/// A response that has not been encoded yet.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// The site's answer.
    pub answer: &'a Answer<'a>,
    /// The archive that the answer's ranges refer to.
    pub archive: ArchiveRef<'a>,
    /// Fields the server adds.
    pub fields: &'a ServerFields,
}
