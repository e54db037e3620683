//! The grammar of tokens, values, lists, hosts and lengths, which all HTTP versions share (RFC 9110 §5).

use std::net::Ipv6Addr;

/// Returns the elements of a list, without empty ones (RFC 9110 §5.6.1.2).
pub(crate) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(trim).filter(|element| !element.is_empty())
}

/// Parses `Content-Length` (RFC 9110 §8.6). Only digits are allowed: the result is `None` for a sign, a list, or a number that does
/// not fit into 64 bits.
pub(crate) fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    })
}

/// Returns `true` if a value is valid for `Host` (RFC 9110 §7.2): a host (RFC 3986 §3.2.2) with or without a port. Note that the
/// value can be empty when the target does not have an authority.
#[must_use]
pub fn is_host(value: &[u8]) -> bool {
    let Some(end) = value.iter().position(|byte| !is_host_byte(*byte)) else { return true };
    match &value[end..] {
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        // IP literals and percent-encoded hosts are rare.
        _ => after_unusual_host(value).is_some_and(is_port),
    }
}

/// Returns `true` if the rest after a host is a port, or if there is no rest.
fn is_port(rest: &[u8]) -> bool {
    rest.strip_prefix(b":").map_or(rest.is_empty(), |port| port.iter().all(u8::is_ascii_digit))
}

/// Returns the rest after a host that is an IP literal or is percent-encoded, or `None` when there is no such host.
#[cold]
fn after_unusual_host(value: &[u8]) -> Option<&[u8]> {
    if let Some(literal) = value.strip_prefix(b"[") {
        let end = literal.iter().position(|byte| *byte == b']')?;
        return is_literal(&literal[..end]).then_some(&literal[end + 1..]);
    }

    let mut rest = value;
    loop {
        rest = match rest {
            [b'%', high, low, others @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => others,
            [byte, others @ ..] if is_host_byte(*byte) => others,
            _ => return Some(rest),
        };
    }
}

/// Returns `true` if text in brackets is an IPv6 address without a zone, or an address of a later version (RFC 3986 §3.2.2).
fn is_literal(text: &[u8]) -> bool {
    let is_future_byte = |byte: &u8| *byte == b':' || is_host_byte(*byte);
    match text {
        [b'v' | b'V', future @ ..] => future.iter().position(|byte| *byte == b'.').is_some_and(|dot| {
            let version = &future[..dot];
            let address = &future[dot + 1..];
            let are_present = !version.is_empty() && !address.is_empty();
            are_present && version.iter().all(u8::is_ascii_hexdigit) && address.iter().all(is_future_byte)
        }),
        address => std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok()),
    }
}

/// Removes white space at both ends (RFC 9110 §5.6.3).
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

const TOKEN: u8 = 1;
const VALUE: u8 = 2;
const HOST: u8 = 4;

/// The classes of each byte. They are bits.
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut b = 0u8;
    loop {
        let is_mark = matches!(
            b,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        );

        if b.is_ascii_alphanumeric() || is_mark {
            classes[b as usize] |= TOKEN;
        }
        if (b >= b' ' && b != 0x7f) || b == b'\t' {
            classes[b as usize] |= VALUE;
        }
        // RFC 3986 §3.2.2: unreserved and sub-delims.
        if b.is_ascii_alphanumeric()
            || matches!(b, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&'..=b',' | b';' | b'=')
        {
            classes[b as usize] |= HOST;
        }

        if b == u8::MAX {
            return classes;
        }
        b += 1;
    }
}

/// Returns `true` if tokens can have this byte (RFC 9110 §5.6.2).
#[inline]
pub(crate) fn is_token_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TOKEN != 0
}

#[inline]
fn is_host_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & HOST != 0
}

/// Returns `true` if field values can have this byte (RFC 9110 §5.5).
#[inline]
pub(crate) fn is_value_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & VALUE != 0
}

#[cfg(test)]
mod tests;
