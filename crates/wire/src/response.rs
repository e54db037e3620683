//! A response before it is encoded for a version of HTTP.

use cannery_site::Answer;

use crate::archive_ref::ArchiveRef;
use crate::server_fields::ServerFields;

/// A response before it is encoded.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// The answer of a site.
    pub answer: &'a Answer<'a>,
    /// The archive that the answer's ranges refer to.
    pub archive: ArchiveRef<'a>,
    /// The fields that only the server knows.
    pub fields: &'a ServerFields,
}
