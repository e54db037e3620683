//! PROXY protocol version 1. The header is a line of text (section 2.1).
//!
//! This parser is strict: additional spaces, leading zeros, and signs are *not* accepted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Parsed, Source};
use crate::limits::PROXY_LINE_BYTES_MAX;

/// Start of each line.
pub(super) const PREFIX: &[u8] = b"PROXY ";

/// Parses the line at the start of `input`, which must match [`PREFIX`] as far as there are bytes.
pub(super) fn parse(input: &[u8]) -> Parsed {
    let window = &input[..input.len().min(PROXY_LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        return if window.len() < PROXY_LINE_BYTES_MAX { Parsed::More } else { Parsed::Malformed };
    };

    let source = window[..end].strip_suffix(b"\r").and_then(source);
    source.map_or(Parsed::Malformed, |source| Parsed::Header(source, end + 1))
}

/// Parses a line. It comes without its end.
fn source(line: &[u8]) -> Option<Source> {
    let rest = line.strip_prefix(PREFIX)?;
    // We must ignore the rest.
    if rest == b"UNKNOWN" || rest.starts_with(b"UNKNOWN ") {
        return Some(Source::Connection);
    }

    let mut words = std::str::from_utf8(rest).ok()?.split(' ');
    let read_address = match words.next()? {
        "TCP4" => |word: &str| word.parse::<Ipv4Addr>().ok().map(IpAddr::from),
        "TCP6" => |word: &str| word.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        _ => return None,
    };

    let source = read_address(words.next()?)?;
    let _destination = read_address(words.next()?)?;
    let source_port = port(words.next()?)?;
    let _destination_port = port(words.next()?)?;

    let is_end = words.next().is_none();
    is_end.then(|| Source::Internet(SocketAddr::new(source, source_port)))
}

fn port(word: &str) -> Option<u16> {
    let is_plain = word == "0" || !word.starts_with(['0', '+']);
    is_plain.then(|| word.parse().ok())?
}

#[cfg(test)]
mod tests;
