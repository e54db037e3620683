//! QPACK errors.

/// An error of the peer, which closes the connection (RFC 9204 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// In a field section: `QPACK_DECOMPRESSION_FAILED`.
    #[error("a field section {0}")]
    FieldSection(Fault),
    /// In the peer's encoder stream: `QPACK_ENCODER_STREAM_ERROR`.
    #[error("the encoder stream {0}")]
    EncoderStream(Fault),
    /// In the peer's decoder stream: `QPACK_DECODER_STREAM_ERROR`.
    #[error("the decoder stream {0}")]
    DecoderStream(Fault),
    /// A field section decodes to more than
    /// [`FIELD_LIST_BYTES_DECODED_MAX`](crate::limits::FIELD_LIST_BYTES_DECODED_MAX) bytes: `H3_EXCESSIVE_LOAD`.
    #[error("a field section decodes to too many bytes")]
    TooLarge,
}

/// The fault in an encoded field or instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The section ends within a field.
    #[error("ends within a field")]
    Truncated,
    /// An integer takes more than 62 bits (RFC 9204 §4.1.1).
    #[error("has an integer of more than 62 bits")]
    Integer,
    /// An index is in no table, or its entry was evicted, or is not covered by the Required Insert Count (RFC 9204 §2.2.3).
    #[error("has an index that is in no table")]
    Index,
    /// The Required Insert Count is not a number that an encoder can send, or the Base is negative (RFC 9204 §4.5.1).
    #[error("has an invalid prefix")]
    Prefix,
    /// The section needs entries that haven't arrived. We allow no blocked streams (RFC 9204 §2.1.2).
    #[error("needs entries that have not arrived")]
    Blocked,
    /// A string is not valid Huffman code (RFC 7541 §5.2).
    #[error("has a string that is not valid Huffman code")]
    Huffman,
    /// The capacity is more than we allow (RFC 9204 §4.3.1).
    #[error("sets a table capacity beyond the limit")]
    Capacity,
    /// A Section Acknowledgment for which there is no section (RFC 9204 §4.4.1).
    #[error("acknowledges a section that was not sent")]
    Acknowledgment,
    /// An Insert Count Increment of 0, or beyond the insertions that were sent (RFC 9204 §4.4.3).
    #[error("acknowledges insertions that were not sent")]
    Increment,
    /// An entry is larger than the table's capacity (RFC 9204 §3.2.2).
    #[error("inserts an entry that is larger than the table")]
    EntryTooLarge,
}
