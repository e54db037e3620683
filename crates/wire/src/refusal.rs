//! Refusals: why a peer's bytes are not a request, and the status of the response.
//!
//! Over HTTP/1 the connection closes after a refusal, because the start of the next request is unknown.

/// Why a peer's bytes are not answered as a request. The fault is the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request line breaks the grammar of RFC 9112 §3.
    RequestLine,
    /// A field line breaks the grammar of RFC 9112 §5: a space before the colon, a folded line, a
    /// control byte, a bare line feed.
    FieldLine,
    /// HTTP/1.1 without `Host`, several `Host` fields, or an invalid one (RFC 9112 §3.2).
    Host,
    /// Ambiguous framing (request smuggling, RFC 9112 §6.3): an invalid or repeated `Content-Length`, or one
    /// together with `Transfer-Encoding`.
    Framing,
    /// The method is longer than [`crate::limits::METHOD_BYTES_MAX`] (RFC 9112 §3).
    Method,
    /// A target of the scheme `https` on an unencrypted connection (RFC 9110 §7.4).
    Scheme,
    /// A transfer coding before `chunked` (RFC 9112 §6.1).
    TransferCoding,
    /// An expectation other than `100-continue` (RFC 9110 §10.1.1).
    Expectation,
    /// The target is longer than [`crate::limits::TARGET_BYTES_MAX`].
    TargetTooLong,
    /// The head is longer than [`crate::limits::HEAD_BYTES_MAX`], or has too many lines.
    HeadTooLarge,
    /// Another major version of HTTP.
    Version,
    /// The head didn't arrive before its timeout.
    Timeout,
    /// Unencrypted HTTP on a port for TLS.
    PlainHttp,
}

impl Refusal {
    /// All refusals, in the order of their discriminants.
    pub const ALL: [Refusal; 13] = [
        Refusal::RequestLine,
        Refusal::FieldLine,
        Refusal::Host,
        Refusal::Framing,
        Refusal::Method,
        Refusal::Scheme,
        Refusal::TransferCoding,
        Refusal::Expectation,
        Refusal::TargetTooLong,
        Refusal::HeadTooLarge,
        Refusal::Version,
        Refusal::Timeout,
        Refusal::PlainHttp,
    ];

    /// Returns the label in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::RequestLine => "request_line",
            Refusal::FieldLine => "field_line",
            Refusal::Host => "host",
            Refusal::Framing => "framing",
            Refusal::Method => "method",
            Refusal::Scheme => "scheme",
            Refusal::TransferCoding => "transfer_coding",
            Refusal::Expectation => "expectation",
            Refusal::TargetTooLong => "target_too_long",
            Refusal::HeadTooLarge => "head_too_large",
            Refusal::Version => "version",
            Refusal::Timeout => "timeout",
            Refusal::PlainHttp => "plain_http",
        }
    }

    /// Returns the status of the response.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Refusal::RequestLine
            | Refusal::FieldLine
            | Refusal::Host
            | Refusal::Framing
            | Refusal::PlainHttp => 400,
            Refusal::Scheme => 421,
            Refusal::Method | Refusal::TransferCoding => 501,
            Refusal::Expectation => 417,
            Refusal::TargetTooLong => 414,
            Refusal::HeadTooLarge => 431,
            Refusal::Version => 505,
            Refusal::Timeout => 408,
        }
    }
}
