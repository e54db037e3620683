//! What can be wrong with a header block.
//!
//! Never knows where it stood.

/// Why a block cannot be read, by the peer's fault. The table is worth nothing from then on, so the connection ends, with
/// COMPRESSION_ERROR unless it says otherwise (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It ends within a field.
    #[error("a header block ends within a field")]
    Truncated,
    /// A number takes more than four bytes behind its first.
    #[error("a number in a header block is too large")]
    Number,
    /// An index is zero, or beyond the table (RFC 7541 §2.3.3).
    #[error("a header block refers to a field that is in no table")]
    Index,
    /// A string is not in the Huffman code (RFC 7541 §5.2).
    #[error("a string in a header block is not in the Huffman code")]
    Huffman,
    /// The table's size is changed behind the first field, or to more than we allow (RFC 7541 §4.2, §6.3).
    #[error("a header block sets the size of the table where, or to what, it must not")]
    TableSize,
    /// It stands for more than [`FIELD_LIST_BYTES_DECODED_MAX`]: ENHANCE_YOUR_CALM.
    #[error("a header block stands for too many bytes")]
    Endless,
}
