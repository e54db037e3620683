//! A request: the method, the target, and the few fields that can change an answer.
//!
//! All borrowed: never owns or copies a byte.

/// What a request asks to be done (RFC 9110 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `HEAD`.
    Head,
    /// `OPTIONS`.
    Options,
    /// A method that RFC 9110 or RFC 5789 defines, and that no resource of ours allows.
    Other,
    /// A method that we do not know.
    Unknown,
}

impl Method {
    /// The method of this name. Names are case-sensitive.
    #[must_use]
    #[inline]
    pub fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            b"POST" | b"PUT" | b"DELETE" | b"PATCH" | b"CONNECT" | b"TRACE" => Method::Other,
            _ => Method::Unknown,
        }
    }
}

/// A request, as far as it can change an answer.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What is asked to be done.
    pub method: Method,
    /// The request target as it was sent (RFC 9112 §3.2): origin, absolute or asterisk form.
    pub target: &'a [u8],
    /// The value of `Host`, or HTTP/2's and HTTP/3's `:authority`.
    pub host: Option<&'a [u8]>,
    /// The values of `Accept-Encoding`.
    pub accept_encoding: Values<'a>,
    /// What the answer depends on besides, and which part of it is wanted.
    pub conditions: Conditions<'a>,
}

impl<'a> Request<'a> {
    /// A request without fields.
    #[must_use]
    pub const fn new(method: Method, target: &'a [u8]) -> Request<'a> {
        let (accept_encoding, conditions) = (Values::NONE, Conditions::NONE);
        Request { method, target, host: None, accept_encoding, conditions }
    }
}

/// The fields of conditional and range requests (RFC 9110 §13, §14).
#[derive(Debug, Clone, Copy)]
pub struct Conditions<'a> {
    /// Whether any of the fields below is there: in most requests none is.
    pub any: bool,
    /// The values of `If-Match`.
    pub if_match: Values<'a>,
    /// The values of `If-None-Match`.
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
    /// None of the fields.
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

/// The value of a field that must stand in one line (RFC 9110 §5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Single<'a> {
    /// It is not there.
    Absent,
    /// Its value.
    Value(&'a [u8]),
    /// It stands there more than once: nobody can tell which one counts, so none does.
    Repeated,
}

impl<'a> Single<'a> {
    /// Adds a line.
    pub fn push(&mut self, value: &'a [u8]) {
        *self = match self {
            Single::Absent => Single::Value(value),
            Single::Value(_) | Single::Repeated => Single::Repeated,
        };
    }
}

/// The values of a field that may stand in several lines (RFC 9110 §5.3): a list, if joined with commas.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    lines: [&'a [u8]; Values::LINES_MAX],
    count: u8,
}

impl<'a> Values<'a> {
    /// More lines than this of one field are refused by [`Values::push`].
    pub const LINES_MAX: usize = 4;

    /// No line at all.
    pub const NONE: Values<'static> = Values { lines: [b""; Values::LINES_MAX], count: 0 };

    /// Takes all lines out.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// One line.
    #[must_use]
    pub fn one(value: &'a [u8]) -> Values<'a> {
        Values { lines: [value, b"", b"", b""], count: 1 }
    }

    /// Adds a line; false if there are too many.
    #[must_use]
    pub fn push(&mut self, value: &'a [u8]) -> bool {
        match self.lines.get_mut(usize::from(self.count)) {
            Some(line) => {
                *line = value;
                self.count += 1;
                true
            }
            None => false,
        }
    }

    /// Whether the field is absent.
    #[must_use]
    #[inline]
    pub const fn is_absent(&self) -> bool {
        self.count == 0
    }

    /// The lines, in the order in which they were sent.
    pub fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines.into_iter().take(usize::from(self.count))
    }
}
