//! Errors of QPACK.

/// An error by the peer. We must close the connection (RFC 9204 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// In a section. The code is `QPACK_DECOMPRESSION_FAILED`.
    FieldSection(Fault),
    /// On the peer's encoder stream. The code is `QPACK_ENCODER_STREAM_ERROR`.
    EncoderStream(Fault),
    /// On the peer's decoder stream. The code is `QPACK_DECODER_STREAM_ERROR`.
    DecoderStream(Fault),
    /// A section has more than [`FIELD_LIST_BYTES_DECODED_MAX`](crate::limits::FIELD_LIST_BYTES_DECODED_MAX) bytes when it's
    /// decoded. The code is `H3_EXCESSIVE_LOAD`.
    TooLarge,
}

/// A fault in a field or instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The section ends in the middle of a field.
    Truncated,
    /// An integer has more than 62 bits (RFC 9204 §4.1.1).
    Integer,
    /// An index is not in any table or is beyond the Required Insert Count, or its entry was evicted (RFC 9204 §2.2.3).
    Index,
    /// The Base is negative, or no encoder could send this Required Insert Count (RFC 9204 §4.5.1).
    Prefix,
    /// The section needs entries that have not arrived, but we do not allow blocked streams (RFC 9204 §2.1.2).
    Blocked,
    /// A string is not valid Huffman code (RFC 7541 §5.2).
    Huffman,
    /// The capacity is larger than we allow (RFC 9204 §4.3.1).
    Capacity,
    /// There is a Section Acknowledgment, but no section for it (RFC 9204 §4.4.1).
    Acknowledgment,
    /// There is an Insert Count Increment of 0 or beyond the insertions sent (RFC 9204 §4.4.3).
    Increment,
    /// An entry is larger than the table (RFC 9204 §3.2.2).
    EntryTooLarge,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::FieldSection(fault) => write!(f, "a field section {fault}"),
            Error::EncoderStream(fault) => write!(f, "the encoder stream {fault}"),
            Error::DecoderStream(fault) => write!(f, "the decoder stream {fault}"),
            Error::TooLarge => f.write_str("a field section decodes to too many bytes"),
        }
    }
}

impl std::error::Error for Error {}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Fault::Truncated => "ends within a field",
            Fault::Integer => "has an integer of more than 62 bits",
            Fault::Index => "has an index that is in no table",
            Fault::Prefix => "has an invalid prefix",
            Fault::Blocked => "needs entries that have not arrived",
            Fault::Huffman => "has a string that is not valid Huffman code",
            Fault::Capacity => "sets a table capacity beyond the limit",
            Fault::Acknowledgment => "acknowledges a section that was not sent",
            Fault::Increment => "acknowledges insertions that were not sent",
            Fault::EntryTooLarge => "inserts an entry that is larger than the table",
        })
    }
}

impl std::error::Error for Fault {}
