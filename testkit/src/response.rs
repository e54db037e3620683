//! A response as seen by a test, whatever the protocol, and the possible reasons for not getting one.

use std::error::Error;
use std::fmt;
use std::io;

/// A response: status, header fields in their order, and content as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names and values of the header fields. Names have the case in which they were received.
    pub fields: Vec<(String, String)>,
    /// The content, with its content coding.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the value of a field, or `None` if the response does not have it.
    ///
    /// # Panics
    ///
    /// Panics if the response has several fields of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "several fields {name}: {:?}", self.fields);
        value
    }

    /// Converts the fields of a response in HTTP/2 or HTTP/3, without content.
    ///
    /// # Panics
    ///
    /// Panics if a response must not have these fields.
    pub(crate) fn from_fields(fields: impl IntoIterator<Item = (String, String)>) -> Response {
        let mut fields = fields.into_iter();
        let (name, status) = fields.next().expect("a response has a status");
        assert_eq!(name, ":status", "pseudo-header fields come first");
        let fields: Vec<_> = fields.collect();
        for (name, value) in &fields {
            assert!(is_valid_field(name, value), "{name}: {value}");
        }
        Response { status: status.parse().unwrap(), fields, body: Vec::new() }
    }

    /// Panics unless the content has the length that the response states, or is empty if no content is allowed.
    pub(crate) fn check_length(&self, is_head: bool) {
        if is_head || matches!(self.status, 204 | 304) {
            assert!(self.body.is_empty(), "content in a response without content: {self:?}");
            return;
        }
        let length = self.field("content-length").expect("content-length is always sent");
        assert_eq!(length, self.body.len().to_string(), "content-length is not the content's length");
    }
}

/// Returns `true` if a response may have this field (RFC 9113, section 8.2; RFC 9114, section 4.2).
fn is_valid_field(name: &str, value: &str) -> bool {
    const CONNECTION_SPECIFIC: [&str; 5] =
        ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    let is_token = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'z') || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_token) && !CONNECTION_SPECIFIC.contains(&name);
    is_name && value == value.trim()
}

/// The reason for which a client has no response.
#[derive(Debug)]
pub enum Ended {
    /// The server reset the stream with this error code (RFC 9113, section 6.4; RFC 9114, section 8.1).
    Reset(u32),
    /// The server did not process the request because it sent GOAWAY or rejected the request with this error code (RFC 9113,
    /// section 6.8; RFC 9114, section 5.2).
    GoneAway(u32),
    /// The connection was closed or reset.
    Closed(io::Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Reset(code) => write!(f, "the server reset the stream with error {code}"),
            Ended::GoneAway(code) => write!(f, "the server sent GOAWAY with error {code}"),
            Ended::Closed(error) => write!(f, "the connection was closed: {error}"),
        }
    }
}

impl Error for Ended {}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Closed(error)
    }
}
