//! Responses: before they are encoded, their fields in each syntax, and the buffer that they are written to.

// Fields, in the syntax of each protocol.
pub(crate) mod fields;

// The interface that HTTP/2 and HTTP/3 have in common.
pub(crate) mod multiplexed;

// Fields of responses without an archive.
pub(crate) mod builtin_fields;

// Fields that the server adds.
pub(crate) mod server_fields;

// Status lines and fields as text.
pub mod head;

// The buffer.
pub(crate) mod output;

use cannery_site::Answer;

use self::server_fields::ServerFields;
use crate::ground::archive_ref::ArchiveRef;

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
