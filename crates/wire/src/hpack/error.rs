//! HPACK decoding errors.

/// Why a header block cannot be decoded. The fault is the peer's.
///
/// The dynamic table is unknown from then on, so the connection closes, with COMPRESSION_ERROR unless the
/// variant names another code (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The block ends within a field.
    #[error("a header block ends within a field")]
    Truncated,
    /// An integer takes more than four bytes after its first.
    #[error("an integer in a header block is too large")]
    Number,
    /// An index is zero, or beyond both tables (RFC 7541 §2.3.3).
    #[error("a header block has an index that is in no table")]
    Index,
    /// A string is not valid Huffman code (RFC 7541 §5.2).
    #[error("a string in a header block is not valid Huffman code")]
    Huffman,
    /// The table's size changes after the first field, or to more than we allow (RFC 7541 §4.2, §6.3).
    #[error("a header block changes the table size after its first field, or beyond the limit")]
    TableSize,
    /// The block decodes to more than
    /// [`FIELD_LIST_BYTES_DECODED_MAX`](crate::limits::FIELD_LIST_BYTES_DECODED_MAX) bytes:
    /// ENHANCE_YOUR_CALM.
    #[error("a header block decodes to too many bytes")]
    TooLarge,
}
