//! A response as a test sees it, whatever the protocol, and the reasons for which there is none.

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
    /// Returns the value of a field, or `None` if the response doesn't have it.
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
}

/// The reason for which a client has no response.
#[derive(Debug)]
pub enum Ended {
    /// The server reset the stream with this error code (RFC 9113, section 6.4).
    Reset(u32),
    /// The server sent GOAWAY with this error code and did not process the request (RFC 9113, section 6.8).
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

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Closed(error)
    }
}
