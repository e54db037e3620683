//! The `Location` of redirects (RFC 9110 §10.2.2), encoded piece by piece without allocating.
//!
//! In order not to leak internal names, it usually does not have a host, unless the site's author has written one or the operator
//! wants `https`. Captures are percent-encoded, so they cannot end the field.
//!
//! If the author has written a path, the `Location` will always be a path. It never starts with `//` because that would be a
//! different host (open redirect).

use cannery_archive::{Key, Piece, Redirect, UrlPiece};

use crate::request::captures::Captures;

/// Maximum length of a `Location`, in bytes. Beyond this, the answer is 414.
///
/// This is the limit for request targets, since a server must accept all URLs it sends (RFC 9110 §2.3).
pub const LOCATION_BYTES_MAX: usize = cannery_archive::KEY_BYTES_MAX;

/// Target of a redirect.
#[derive(Debug, Clone, Copy)]
pub struct Location<'a> {
    form: Form<'a>,
    /// The request's query. Redirects keep it.
    query: Option<&'a [u8]>,
}

#[derive(Debug, Clone, Copy)]
enum Form<'a> {
    Rule { redirect: Redirect<'a>, captures: Captures<'a> },
    Slash { key: Key<'a>, change: SlashChange },
    Https { host: &'a [u8], port: u16, path: &'a [u8] },
}

/// Whether a redirect adds or removes the slash at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlashChange {
    /// With the slash.
    Added,
    /// Without the slash.
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

    /// Returns the location of `key` with or without a slash at the end. `key` itself does not have one.
    pub(crate) fn slash(key: Key<'a>, change: SlashChange, query: Option<&'a [u8]>) -> Location<'a> {
        Location { form: Form::Slash { key, change }, query }
    }

    pub(crate) fn https(host: &'a [u8], port: u16, path: &'a [u8], query: Option<&'a [u8]>) -> Location<'a> {
        Location { form: Form::Https { host, port, path }, query }
    }

    /// Returns `true` if the target has whatever host the request was for.
    #[must_use]
    pub fn has_requested_host(&self) -> bool {
        matches!(self.form, Form::Https { .. })
    }

    /// Calls `put` with each piece of the field value.
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

    /// Returns the length of the field value, in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        let mut length = 0;
        self.for_each_piece(&mut |bytes| length += bytes.len());
        length
    }
}

/// Writes a rule's target, with its captures filled in.
fn put_target(redirect: &Redirect<'_>, captures: &Captures<'_>, put: &mut dyn FnMut(&[u8])) {
    let mut in_query = false;
    let mut start = Start::Empty;
    let put = &mut |bytes: &[u8]| start.put(bytes, put);

    // We stop at a corrupt piece. `Archive::verify` will report it.
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

/// The start of the target, as far as we have written it.
enum Start {
    /// There is nothing yet.
    Empty,
    /// `/`. No slash must follow (RFC 3986 §4.2), for example after an empty capture. Neither must a backslash because browsers
    /// treat it as a slash.
    Root,
    /// A URL by the site's author, or a path that can no longer turn into a host.
    Settled,
}

impl Start {
    /// Writes bytes, except those that would turn a path into a host.
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

/// Writes a capture into a query, escaping the delimiters `&`, `=`, `+` and `;`.
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

/// Writes the request's query, escaping bytes that are not allowed there (RFC 3986 §3.4).
fn put_query(query: Option<&[u8]>, separator: &[u8], put: &mut dyn FnMut(&[u8])) {
    let Some(query) = query else { return };
    put(separator);
    put_escaped(query, put);
}

/// Writes the port after a host, unless it is the default one.
fn put_port(port: u16, put: &mut dyn FnMut(&[u8])) {
    if port != 443 {
        put(b":");
        let digits = [10_000, 1000, 100, 10, 1].map(|unit| b'0' + (port / unit % 10) as u8);
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        put(&digits[zeros..]);
    }
}

/// Writes a part of a request target, escaping bytes that are not allowed in a URL.
fn put_escaped(mut rest: &[u8], put: &mut dyn FnMut(&[u8])) {
    while let [byte, others @ ..] = rest {
        match others {
            // Keep valid escapes.
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
