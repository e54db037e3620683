//! PROXY protocol, versions 1 and 2: the header in which a proxy passes on the client's address.
//!
//! The specification is HAProxy's `doc/proxy-protocol.txt`. A header is never detected: it is parsed only on
//! listeners where every connection must begin with one. Otherwise any client could claim any address
//! (section 5).

mod v1;
mod v2;

use std::net::SocketAddr;

/// The source of a connection, according to its proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The peer of the connection: the proxy itself (a health check), or a client with an unknown address.
    Connection,
    /// A client with this address.
    Internet(SocketAddr),
    /// A client on a Unix socket of the proxy's.
    Local,
}

/// Outcome of [`parse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A header of this length in bytes. The client's bytes follow.
    Header(Source, usize),
    /// An incomplete header.
    More,
    /// Not a header, whatever follows: the connection must be closed without a response.
    Malformed,
}

/// Parses the header at the beginning of `input`. After [`Parsed::More`], call it again with the same bytes
/// and more.
///
/// A header has at most [`PROXY_HEADER_BYTES_MAX`](crate::limits::PROXY_HEADER_BYTES_MAX) bytes: with that
/// many, the result is never [`Parsed::More`].
#[must_use]
pub fn parse(input: &[u8]) -> Parsed {
    if may_begin_with(input, v1::PREFIX) {
        v1::parse(input)
    } else if may_begin_with(input, &v2::SIGNATURE) {
        v2::parse(input)
    } else {
        Parsed::Malformed
    }
}

/// Returns `true` if `input` begins with `prefix`, or is the beginning of it.
fn may_begin_with(input: &[u8], prefix: &[u8]) -> bool {
    input.iter().zip(prefix).all(|(byte, expected)| byte == expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PROXY_HEADER_BYTES_MAX;

    #[test]
    fn versions_are_distinguished_by_their_first_byte() {
        assert_eq!(parse(b""), Parsed::More);
        assert_eq!(parse(b"P"), Parsed::More);
        assert_eq!(parse(b"\r"), Parsed::More);
        for input in ["G", "PROXZ", "proxy ", "\r\n\r\n\0\r\nQUIT\r", "\n", "PROXYTCP4"] {
            assert_eq!(parse(input.as_bytes()), Parsed::Malformed, "{input:?}");
        }
    }

    #[test]
    fn headers_are_bounded() {
        let mut block = v2::SIGNATURE.to_vec();
        block.extend_from_slice(b"\x21\x11\xff\xff");
        for prefix in [b"PROXY UNKNOWN ".as_slice(), b"PROXY TCP4 ", &block] {
            let mut input = prefix.to_vec();
            input.resize(PROXY_HEADER_BYTES_MAX, b'x');
            assert_eq!(parse(&input), Parsed::Malformed, "{prefix:?}");
        }
    }
}
