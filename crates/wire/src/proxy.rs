//! The header with which a proxy says whom it has connected for: the PROXY protocol, version 1 and version 2.
//!
//! The specification is HAProxy's `doc/proxy-protocol.txt`. A header is read only where every connection must
//! begin with one, and never looked for: who may send one unasked may give himself any address (its section 5).

mod v1;
mod v2;

use std::net::SocketAddr;

/// Whom a connection is from, as its proxy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Whoever has connected: the proxy itself, to see whether we live, or a client whose address it does not tell.
    Connection,
    /// A client with this address.
    Internet(SocketAddr),
    /// A client at a local socket of the proxy's.
    Local,
}

/// What the first bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A header of so many bytes; behind it comes what the client sent.
    Header(Source, usize),
    /// Not a whole one yet.
    More,
    /// None, whatever may follow: the connection has to be ended without an answer.
    Malformed,
}

/// Reads the header at the beginning of `input`. Bytes that were `More` are handed in again with those that follow.
///
/// A header is at most [`PROXY_HEADER_BYTES_MAX`](crate::limits::PROXY_HEADER_BYTES_MAX) long: with as many bytes
/// the answer is never `More`.
#[must_use]
pub fn parse(input: &[u8]) -> Parsed {
    if agrees(input, v1::BEGINNING) {
        v1::parse(input)
    } else if agrees(input, &v2::SIGNATURE) {
        v2::parse(input)
    } else {
        Parsed::Malformed
    }
}

/// Whether `input` begins with these bytes, as far as it goes.
fn agrees(input: &[u8], beginning: &[u8]) -> bool {
    input.iter().zip(beginning).all(|(byte, expected)| byte == expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PROXY_HEADER_BYTES_MAX;

    #[test]
    fn either_version_is_known_by_its_first_byte() {
        assert_eq!(parse(b""), Parsed::More);
        assert_eq!(parse(b"P"), Parsed::More);
        assert_eq!(parse(b"\r"), Parsed::More);
        for input in ["G", "PROXZ", "proxy ", "\r\n\r\n\0\r\nQUIT\r", "\n", "PROXYTCP4"] {
            assert_eq!(parse(input.as_bytes()), Parsed::Malformed, "{input:?}");
        }
    }

    #[test]
    fn what_is_kept_of_a_header_is_bounded() {
        let mut block = v2::SIGNATURE.to_vec();
        block.extend_from_slice(b"\x21\x11\xff\xff");
        for beginning in [b"PROXY UNKNOWN ".as_slice(), b"PROXY TCP4 ", &block] {
            let mut input = beginning.to_vec();
            input.resize(PROXY_HEADER_BYTES_MAX, b'x');
            assert_eq!(parse(&input), Parsed::Malformed, "{beginning:?}");
        }
    }
}
