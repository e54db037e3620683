//! The `Location` of a redirect (RFC 9110 §10.2.2), spelled piece by piece.
//!
//! Always relative to the authority that was asked unless the site's author wrote another one, or the operator wants
//! another scheme: no host of ours can leak. What a request captured is escaped, so that it cannot end the field, and a
//! target that is a path stays one: it never begins with `//`, which would name another host. Never allocates.

use cannery_archive::{Key, Piece, Redirect, UrlPiece};

use crate::captures::Captures;

/// A longer `Location` is not sent: the answer is 414. It is what we read ourselves, since what a server sends it
/// must also take (RFC 9110 §2.3).
pub const LOCATION_BYTES_MAX: usize = cannery_archive::KEY_BYTES_MAX;

/// Where a redirect leads.
#[derive(Debug, Clone, Copy)]
pub struct Location<'a> {
    form: Form<'a>,
    /// The query of the request, which a redirect keeps.
    query: Option<&'a [u8]>,
}

#[derive(Debug, Clone, Copy)]
enum Form<'a> {
    Rule { redirect: Redirect<'a>, captures: Captures<'a> },
    Slash { key: Key<'a>, add: bool },
    Https { host: &'a [u8], port: u16, path: &'a [u8] },
}

impl<'a> Location<'a> {
    pub(crate) fn of_rule(
        redirect: Redirect<'a>,
        captures: Captures<'a>,
        query: Option<&'a [u8]>,
    ) -> Location<'a> {
        Location { form: Form::Rule { redirect, captures }, query }
    }

    pub(crate) fn of_slash(key: Key<'a>, add: bool, query: Option<&'a [u8]>) -> Location<'a> {
        Location { form: Form::Slash { key, add }, query }
    }

    /// The same target by `https`, at this port of the host.
    pub(crate) fn of_https(
        host: &'a [u8],
        port: u16,
        path: &'a [u8],
        query: Option<&'a [u8]>,
    ) -> Location<'a> {
        Location { form: Form::Https { host, port, path }, query }
    }

    /// Hands the bytes of the field's value to `put`, in order.
    pub fn for_each_piece(&self, put: &mut dyn FnMut(&[u8])) {
        let query = self.query.filter(|query| !query.is_empty());
        match self.form {
            Form::Slash { key, add } => {
                key.percent_encode().for_each(|piece| put(piece.bytes()));
                if add {
                    put(b"/");
                }
                put_query(query, b"?", put);
            }
            Form::Https { host, port, path } => {
                put(b"https://");
                put(host);
                put_port(port, put);
                put_as_sent(path, put);
                put_query(query, b"?", put);
            }
            Form::Rule { redirect, captures } => {
                spell_target(&redirect, &captures, put);
                put_query(query, if redirect.has_query { b"&" } else { b"?" }, put);
                if !redirect.fragment.is_empty() {
                    put(b"#");
                    put(redirect.fragment);
                }
            }
        }
    }

    /// Bytes of the field's value.
    #[must_use]
    pub fn length(&self) -> usize {
        let mut length = 0;
        self.for_each_piece(&mut |bytes| length += bytes.len());
        length
    }
}

fn spell_target(redirect: &Redirect<'_>, captures: &Captures<'_>, put: &mut dyn FnMut(&[u8])) {
    let mut in_query = false;
    let mut start = Start::Empty;
    let put = &mut |bytes: &[u8]| start.put(bytes, put);
    // What cannot be decoded ends the target; `verify` tells of it.
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

/// How a target begins, as far as it is spelled.
enum Start {
    /// Nothing is spelled yet.
    Empty,
    /// The one slash that a path begins with. An empty capture behind it must not let a second slash follow (RFC 3986 §4.2),
    /// nor a backslash, which browsers read as a slash.
    Root,
    /// A path that cannot become an authority any more, or an address that the site's author wrote.
    Settled,
}

impl Start {
    /// Hands on the bytes that come next, without those that would make an authority of a path.
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

/// In a query `&`, `=`, `+` and `;` have a meaning: a captured one has none.
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

/// The request's query as it was sent, but for bytes that a URL may not hold there (RFC 3986 §3.4).
fn put_query(query: Option<&[u8]>, separator: &[u8], put: &mut dyn FnMut(&[u8])) {
    let Some(query) = query else { return };
    put(separator);
    put_as_sent(query, put);
}

/// The port behind a host, unless it is the one of `https`.
fn put_port(port: u16, put: &mut dyn FnMut(&[u8])) {
    if port != 443 {
        put(b":");
        let digits = [10_000, 1000, 100, 10, 1].map(|unit| b'0' + (port / unit % 10) as u8);
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        put(&digits[zeros..]);
    }
}

/// Bytes of a target as they were sent, but for those that a URL may not hold.
fn put_as_sent(mut rest: &[u8], put: &mut dyn FnMut(&[u8])) {
    while let [byte, others @ ..] = rest {
        match others {
            // Two digits of an escape, which is left as it is.
            [first, second, behind @ ..]
                if *byte == b'%' && first.is_ascii_hexdigit() && second.is_ascii_hexdigit() =>
            {
                put(&[b'%', *first, *second]);
                rest = behind;
                continue;
            }
            _ if *byte == b'?' => put(b"?"),
            _ => cannery_archive::percent_encode(&[*byte]).for_each(|piece| put(piece.bytes())),
        }
        rest = others;
    }
}
