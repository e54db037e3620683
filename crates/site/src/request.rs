//! Requests: method, target, and the few fields needed for the answer. All bytes are borrowed.

// The purpose of the response.
pub(crate) mod intent;

// Authority, path and query.
pub(crate) mod target;

// Conditions.
pub(crate) mod conditional;

// Ranges.
pub(crate) mod range;

// Parts of a path that rules refer to.
pub(crate) mod captures;

use self::intent::Intent;

/// A method (RFC 9110 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `HEAD`.
    Head,
    /// `OPTIONS`.
    Options,
    /// Another registered method. Our resources do not allow it.
    Other,
    /// An unknown method.
    Unknown,
}

impl Method {
    /// Parses a method. Methods are case-sensitive.
    #[must_use]
    // Several parsers use this for each request. A call would cost as much as the comparisons.
    #[inline(always)]
    pub fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            b"POST" | b"PUT" | b"DELETE" | b"PATCH" => Method::Other,
            _ => Method::of_registered(name),
        }
    }

    /// Checks if a method is one of the less common ones.
    #[cold]
    fn of_registered(name: &[u8]) -> Method {
        let is_registered = REGISTERED.iter().any(|registered| registered.as_bytes() == name);
        if is_registered { Method::Other } else { Method::Unknown }
    }
}

/// The methods of the IANA registry (RFC 9110 §16.1.1) that [`Method::of`] does not check: those of HTTP, of WebDAV with
/// extensions, and QUERY (RFC 10008). `PRI` (which must not be used, see RFC 9113 §3.4) and `*` are registered as well, but no
/// methods of requests.
const REGISTERED: [&str; 32] = [
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PROPFIND",
    "PROPPATCH",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "TRACE",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

/// The parts of a request that matter for the answer.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// The target as received (RFC 9112 §3.2), in origin, absolute or asterisk form.
    pub target: &'a [u8],
    /// `Host`, or `:authority` in HTTP/2 and HTTP/3.
    pub host: Option<&'a [u8]>,
    /// `Accept-Encoding`.
    pub accept_encoding: Values<'a>,
    /// The client's purpose for the response.
    pub intent: Intent,
    /// The fields of conditional and range requests.
    pub conditions: Conditions<'a>,
}

impl<'a> Request<'a> {
    /// Returns a request without fields.
    #[must_use]
    pub const fn new(method: Method, target: &'a [u8]) -> Request<'a> {
        let (intent, conditions) = (Intent::UNKNOWN, Conditions::NONE);
        Request { method, target, host: None, accept_encoding: Values::NONE, intent, conditions }
    }
}

/// The fields of conditional and range requests (RFC 9110 §13, §14).
#[derive(Debug, Clone, Copy)]
pub struct Conditions<'a> {
    /// Whether any of these fields is present. Most requests do not have them.
    pub any: bool,
    /// `If-Match`.
    pub if_match: Values<'a>,
    /// `If-None-Match`.
    pub if_none_match: Values<'a>,
    /// `If-Modified-Since`.
    pub if_modified_since: Single<'a>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Single<'a>,
    /// `If-Range`.
    pub if_range: Single<'a>,
    /// `Range`.
    pub range: Single<'a>,
}

impl Conditions<'_> {
    /// None of these fields.
    pub const NONE: Conditions<'static> = Conditions {
        any: false,
        if_match: Values::NONE,
        if_none_match: Values::NONE,
        if_modified_since: Single::Absent,
        if_unmodified_since: Single::Absent,
        if_range: Single::Absent,
        range: Single::Absent,
    };
}

/// A field that is not a list, so there must only be one line (RFC 9110 §5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Single<'a> {
    /// The field is absent.
    Absent,
    /// The value of the line.
    Value(&'a [u8]),
    /// There are several lines. This field should be ignored, since we do not know which one the client means.
    Repeated,
}

impl<'a> Single<'a> {
    /// Adds a field line.
    pub fn push(&mut self, value: &'a [u8]) {
        *self = match self {
            Single::Absent => Single::Value(value),
            Single::Value(_) | Single::Repeated => Single::Repeated,
        };
    }
}

/// There are too many values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// A field that is a list. Several lines mean the same as a single line joined with commas (RFC 9110 §5.3).
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    lines: [&'a [u8]; Values::LINES_MAX],
    count: u8,
}

impl<'a> Values<'a> {
    /// Maximum number of lines. [`Values::push`] does not accept more.
    pub const LINES_MAX: usize = 4;

    /// An absent field.
    pub const NONE: Values<'static> = Values { lines: [b""; Values::LINES_MAX], count: 0 };

    /// Removes all field lines.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Returns a field with one field line.
    #[must_use]
    pub fn one(value: &'a [u8]) -> Values<'a> {
        Values { lines: [value, b"", b"", b""], count: 1 }
    }

    /// Adds a field line.
    ///
    /// # Errors
    ///
    /// Returns [`Full`] if there are [`Values::LINES_MAX`] lines already.
    pub fn push(&mut self, value: &'a [u8]) -> Result<(), Full> {
        let line = self.lines.get_mut(usize::from(self.count)).ok_or(Full)?;
        *line = value;
        self.count += 1;
        Ok(())
    }

    /// Returns `true` if the field is absent.
    #[must_use]
    #[inline]
    pub const fn is_absent(&self) -> bool {
        self.count == 0
    }

    /// Returns the value of each line, in order.
    pub fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines.into_iter().take(usize::from(self.count))
    }
}
