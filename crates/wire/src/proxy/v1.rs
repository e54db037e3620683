//! Version 1: a line of text (section 2.1).
//!
//! Never takes a spelling that the section does not have: no second space, no leading zero, no sign.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Parsed, Source};
use crate::limits::PROXY_LINE_BYTES_MAX;

/// What every line begins with.
pub(super) const BEGINNING: &[u8] = b"PROXY ";

/// Reads the line at the beginning of `input`, which agrees with [`BEGINNING`].
pub(super) fn parse(input: &[u8]) -> Parsed {
    let window = &input[..input.len().min(PROXY_LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        return if window.len() < PROXY_LINE_BYTES_MAX { Parsed::More } else { Parsed::Malformed };
    };
    let source = window[..end].strip_suffix(b"\r").and_then(source);
    source.map_or(Parsed::Malformed, |source| Parsed::Header(source, end + 1))
}

/// Whom a line without its end names.
fn source(line: &[u8]) -> Option<Source> {
    let rest = line.strip_prefix(BEGINNING)?;
    // What follows then is to be ignored, whatever it is.
    if rest == b"UNKNOWN" || rest.starts_with(b"UNKNOWN ") {
        return Some(Source::Connection);
    }
    let mut words = std::str::from_utf8(rest).ok()?.split(' ');
    let read_address = match words.next()? {
        "TCP4" => |word: &str| word.parse::<Ipv4Addr>().ok().map(IpAddr::from),
        "TCP6" => |word: &str| word.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        _ => return None,
    };
    let (source, _destination) = (read_address(words.next()?)?, read_address(words.next()?)?);
    let (source_port, _destination_port) = (port(words.next()?)?, port(words.next()?)?);
    let is_end = words.next().is_none();
    is_end.then(|| Source::Internet(SocketAddr::new(source, source_port)))
}

fn port(word: &str) -> Option<u16> {
    let is_plain = word == "0" || !word.starts_with(['0', '+']);
    is_plain.then(|| word.parse().ok())?
}

#[cfg(test)]
mod tests;
