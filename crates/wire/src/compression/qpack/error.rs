//! Errors of QPACK.

/// An error by the peer. We must close the connection (RFC 9204 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// In a section. The code is `QPACK_DECOMPRESSION_FAILED`.
    #[error("a field section {0}")]
    FieldSection(Fault),
    /// On the peer's encoder stream. The code is `QPACK_ENCODER_STREAM_ERROR`.
    #[error("the encoder stream {0}")]
    EncoderStream(Fault),
    /// On the peer's decoder stream. The code is `QPACK_DECODER_STREAM_ERROR`.
    #[error("the decoder stream {0}")]
    DecoderStream(Fault),
    /// A section has more than [`FIELD_LIST_BYTES_DECODED_MAX`](crate::limits::FIELD_LIST_BYTES_DECODED_MAX) bytes when it's
    /// decoded. The code is `H3_EXCESSIVE_LOAD`.
    #[error("a field section decodes to too many bytes")]
    TooLarge,
}

/// A fault in a field or instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The section ends in the middle of a field.
    #[error("ends within a field")]
    Truncated,
    /// An integer has more than 62 bits (RFC 9204 §4.1.1).
    #[error("has an integer of more than 62 bits")]
    Integer,
    /// An index is not in any table or is beyond the Required Insert Count, or its entry was evicted (RFC 9204 §2.2.3).
    #[error("has an index that is in no table")]
    Index,
    /// The Base is negative, or no encoder could send this Required Insert Count (RFC 9204 §4.5.1).
    #[error("has an invalid prefix")]
    Prefix,
    /// The section needs entries that have not arrived, but we do not allow blocked streams (RFC 9204 §2.1.2).
    #[error("needs entries that have not arrived")]
    Blocked,
    /// A string is not valid Huffman code (RFC 7541 §5.2).
    #[error("has a string that is not valid Huffman code")]
    Huffman,
    /// The capacity is larger than we allow (RFC 9204 §4.3.1).
    #[error("sets a table capacity beyond the limit")]
    Capacity,
    /// There is a Section Acknowledgment, but no section for it (RFC 9204 §4.4.1).
    #[error("acknowledges a section that was not sent")]
    Acknowledgment,
    /// There is an Insert Count Increment of 0 or beyond the insertions sent (RFC 9204 §4.4.3).
    #[error("acknowledges insertions that were not sent")]
    Increment,
    /// An entry is larger than the table (RFC 9204 §3.2.2).
    #[error("inserts an entry that is larger than the table")]
    EntryTooLarge,
}
