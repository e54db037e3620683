//! Errors of the HPACK decoder.

/// Reasons why we cannot decode a header block (always the peer's fault).
///
/// The connection must be closed after an error, since we do not know the state of the dynamic table any more. The code is
/// COMPRESSION_ERROR, unless there is a different one below (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The block ends in the middle of a field.
    Truncated,
    /// There are more than four bytes after the first byte of an integer.
    Number,
    /// An index is zero, or not in any table (RFC 7541 §2.3.3).
    Index,
    /// A string is not valid Huffman code (RFC 7541 §5.2).
    Huffman,
    /// The table's size is changed after the first field, or to more than we allow (RFC 7541 §4.2, §6.3).
    TableSize,
    /// The block has more than [`FIELD_LIST_BYTES_DECODED_MAX`](crate::limits::FIELD_LIST_BYTES_DECODED_MAX) bytes once it is
    /// decoded. The code is ENHANCE_YOUR_CALM.
    TooLarge,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DecodeError::Truncated => "a header block ends within a field",
            DecodeError::Number => "an integer in a header block is too large",
            DecodeError::Index => "a header block has an index that is in no table",
            DecodeError::Huffman => "a string in a header block is not valid Huffman code",
            DecodeError::TableSize => {
                "a header block changes the table size after its first field, or beyond the limit"
            }
            DecodeError::TooLarge => "a header block decodes to too many bytes",
        })
    }
}

impl std::error::Error for DecodeError {}
