//! The `Location` of a redirect (RFC 9110 §10.2.2), encoded piece by piece and without allocation.
//!
//! It is relative to the requested authority unless the author of the site wrote another one or the operator wants `https`, so
//! no internal host name can leak. Captures are percent-encoded, so that they cannot end the field.
//!
//! A target that is a path stays a path: it never starts with `//`, which would name another host (open redirect).

use cannery_archive::{Key, Piece, Redirect, UrlPiece};

use crate::captures::Captures;

/// Maximum length of a `Location` in bytes. We answer 414 instead of a longer one.
///
/// It equals the limit for request targets, because a server must accept the URLs that it sends (RFC 9110 §2.3).
pub const LOCATION_BYTES_MAX: usize = cannery_archive::KEY_BYTES_MAX;

/// The target of a redirect.
#[derive(Debug, Clone, Copy)]
pub struct Location<'a> {
    form: Form<'a>,
    /// The query of the request, which redirects keep.
    query: Option<&'a [u8]>,
}

#[derive(Debug, Clone, Copy)]
enum Form<'a> {
    Rule { redirect: Redirect<'a>, captures: Captures<'a> },
    Slash { key: Key<'a>, change: SlashChange },
    Https { host: &'a [u8], port: u16, path: &'a [u8] },
}

/// How a redirect changes the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlashChange {
    /// The target has a slash at its end.
    Added,
    /// The target has none.
    Removed,
}

impl<'a> Location<'a> {
    pub(crate) fn rule(
        redirect: Redirect<'a>,
        captures: Captures<'a>,
        query: Option<&'a [u8]>,
    ) -> Location<'a> {
        Location { form: Form::Rule { redirect, captures }, query }
    }

    /// Returns the location of `key`, which has no slash at its end, with or without one.
    pub(crate) fn slash(key: Key<'a>, change: SlashChange, query: Option<&'a [u8]>) -> Location<'a> {
        Location { form: Form::Slash { key, change }, query }
    }

    pub(crate) fn https(host: &'a [u8], port: u16, path: &'a [u8], query: Option<&'a [u8]>) -> Location<'a> {
        Location { form: Form::Https { host, port, path }, query }
    }

    /// Returns `true` if the target has the host that the request named, whichever that is.
    #[must_use]
    pub fn has_requested_host(&self) -> bool {
        matches!(self.form, Form::Https { .. })
    }

    /// Passes the field value to `put`, piece by piece.
    pub fn for_each_piece(&self, put: &mut dyn FnMut(&[u8])) {
        let query = self.query.filter(|query| !query.is_empty());
        match self.form {
            Form::Slash { key, change } => {
                key.percent_encode().for_each(|piece| put(piece.bytes()));
                if change == SlashChange::Added {
                    put(b"/");
                }
                put_query(query, b"?", put);
            }
            Form::Https { host, port, path } => {
                put(b"https://");
                put(host);
                put_port(port, put);
                put_escaped(path, put);
                put_query(query, b"?", put);
            }
            Form::Rule { redirect, captures } => {
                put_target(&redirect, &captures, put);
                put_query(query, if redirect.has_query { b"&" } else { b"?" }, put);
                if !redirect.fragment.is_empty() {
                    put(b"#");
                    put(redirect.fragment);
                }
            }
        }
    }

    /// Returns the length of the field value in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        let mut length = 0;
        self.for_each_piece(&mut |bytes| length += bytes.len());
        length
    }
}

/// Expands the target of a rule.
fn put_target(redirect: &Redirect<'_>, captures: &Captures<'_>, put: &mut dyn FnMut(&[u8])) {
    let mut in_query = false;
    let mut start = Start::Empty;
    let put = &mut |bytes: &[u8]| start.put(bytes, put);
    // A corrupt piece ends the target. `Archive::verify` reports it.
    for piece in redirect.target.map_while(Result::ok) {
        match piece {
            Piece::Literal(literal) => {
                in_query |= literal.contains(&b'?');
                put(literal);
            }
            Piece::Capture(number) | Piece::Splat(number) => {
                for piece in cannery_archive::percent_encode(captures.run(number)) {
                    match piece {
                        UrlPiece::Plain(run) if in_query => put_escaped_delimiters(run, put),
                        piece => put(piece.bytes()),
                    }
                }
            }
        }
    }
}

/// The start of the target, as far as it is written.
enum Start {
    /// The target is empty.
    Empty,
    /// The target is `/`. Neither a second slash (RFC 3986 §4.2) nor a backslash, which browsers treat as a slash, may follow,
    /// for example after an empty capture.
    Root,
    /// The target is a path that cannot become an authority, or a URL that the author of the site wrote.
    Settled,
}

impl Start {
    /// Passes on the next bytes, without those that would turn a path into an authority.
    fn put(&mut self, mut bytes: &[u8], put: &mut dyn FnMut(&[u8])) {
        if let Start::Root = self {
            while let [b'/' | b'\\', rest @ ..] = bytes {
                bytes = rest;
            }
        }
        match (&self, bytes) {
            (_, []) => return,
            (Start::Empty, [b'/']) => *self = Start::Root,
            _ => *self = Start::Settled,
        }
        put(bytes);
    }
}

/// Writes a capture in a query and escapes `&`, `=`, `+` and `;`, which are delimiters there.
fn put_escaped_delimiters(run: &[u8], put: &mut dyn FnMut(&[u8])) {
    for byte in run {
        match byte {
            b'&' => put(b"%26"),
            b'=' => put(b"%3D"),
            b'+' => put(b"%2B"),
            b';' => put(b"%3B"),
            byte => put(&[*byte]),
        }
    }
}

/// Writes the query of the request, and escapes bytes that are not allowed in a query (RFC 3986 §3.4).
fn put_query(query: Option<&[u8]>, separator: &[u8], put: &mut dyn FnMut(&[u8])) {
    let Some(query) = query else { return };
    put(separator);
    put_escaped(query, put);
}

/// Writes the port after a host, unless it is the default port of `https`.
fn put_port(port: u16, put: &mut dyn FnMut(&[u8])) {
    if port != 443 {
        put(b":");
        let digits = [10_000, 1000, 100, 10, 1].map(|unit| b'0' + (port / unit % 10) as u8);
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        put(&digits[zeros..]);
    }
}

/// Writes a part of a request target, and escapes bytes that are not allowed in a URL.
fn put_escaped(mut rest: &[u8], put: &mut dyn FnMut(&[u8])) {
    while let [byte, others @ ..] = rest {
        match others {
            // A valid escape is kept.
            [first, second, after @ ..]
                if *byte == b'%' && first.is_ascii_hexdigit() && second.is_ascii_hexdigit() =>
            {
                put(&[b'%', *first, *second]);
                rest = after;
                continue;
            }
            _ if *byte == b'?' => put(b"?"),
            _ => cannery_archive::percent_encode(&[*byte]).for_each(|piece| put(piece.bytes())),
        }
        rest = others;
    }
}
