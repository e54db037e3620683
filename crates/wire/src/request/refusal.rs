//! Reasons why a peer's bytes are not a valid request, with the status for each of them.
//!
//! With HTTP/1, the connection must be closed after this because there is no way to find the next request.

/// Reasons why we do not answer a request (always the peer's fault).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request line violates the grammar (RFC 9112 §3).
    RequestLine,
    /// A field line violates the grammar (RFC 9112 §5), e.g. by a space before the colon, a folded line, a control character, or a
    /// line feed without a carriage return.
    FieldLine,
    /// `Host` is missing in HTTP/1.1, repeated, or invalid (RFC 9112 §3.2).
    Host,
    /// The end of the request is ambiguous (request smuggling, RFC 9112 §6.3) because `Content-Length` is repeated, invalid, or
    /// combined with `Transfer-Encoding`.
    Framing,
    /// The method is longer than [`crate::limits::METHOD_BYTES_MAX`] (RFC 9112 §3).
    Method,
    /// The target has the scheme `https`, but the connection is not encrypted (RFC 9110 §7.4).
    Scheme,
    /// There is a transfer coding before `chunked` (RFC 9112 §6.1).
    TransferCoding,
    /// There is an expectation that is not `100-continue` (RFC 9110 §10.1.1).
    Expectation,
    /// The target is longer than [`crate::limits::TARGET_BYTES_MAX`].
    TargetTooLong,
    /// The head is longer than [`crate::limits::HEAD_BYTES_MAX`], or it has too many lines.
    HeadTooLarge,
    /// It is a different major version of HTTP.
    Version,
    /// The head has not arrived in time.
    Timeout,
    /// It is unencrypted HTTP, but the port is for TLS.
    PlainHttp,
}

impl Refusal {
    /// All refusals in order.
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

    /// Returns the name for metrics.
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

    /// Returns the response's status.
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
