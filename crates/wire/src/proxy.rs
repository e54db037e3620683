//! The PROXY protocol, version 1 and 2: headers by which proxies tell us the client's address.
//!
//! The protocol is specified by HAProxy in `doc/proxy-protocol.txt`. Each listener either requires a header on all connections or
//! does not parse any. If we tried to detect headers instead, clients could claim to have any address (section 5).

mod v1;
mod v2;

use std::net::SocketAddr;

/// The origin of a connection, according to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The peer of our connection, either because it is the proxy itself (a health check) or because the client's address is
    /// unknown.
    Connection,
    /// A client on the network.
    Internet(SocketAddr),
    /// A client that uses a Unix socket of the proxy.
    Local,
}

/// Whether there is a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// There is. It has this many bytes. Then come the client's bytes.
    Header(Source, usize),
    /// The header is incomplete.
    More,
    /// There is no header, and more bytes cannot change this. The connection should be closed without a response.
    Malformed,
}

/// Parses the header at the start of `input`. After [`Parsed::More`], callers should try again with the same bytes and more.
///
/// You will not get [`Parsed::More`] if there are already [`PROXY_HEADER_BYTES_MAX`](crate::limits::PROXY_HEADER_BYTES_MAX) bytes,
/// since a header cannot have more than this.
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

/// Returns `true` if `input` starts with `prefix`, or could still do so.
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
