//! What lines of every format are spelled with: addresses, numbers, and bytes that need no escape.
//!
//! Never formats by the standard library's means, which take longer for an address than the rest of a line.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address without its port; `-` where there is none, as with local sockets. An IPv4 address is spelled as
/// one, also where it came in the form of IPv6.
pub(super) fn put_peer(out: &mut Vec<u8>, peer: Option<SocketAddr>) {
    match peer.map(|peer| peer.ip().to_canonical()) {
        Some(IpAddr::V4(address)) => put_ipv4(out, address),
        Some(IpAddr::V6(address)) => put_ipv6(out, address),
        None => out.push(b'-'),
    }
}

#[inline]
fn put_ipv4(out: &mut Vec<u8>, address: Ipv4Addr) {
    for octet in address.octets().map(u64::from) {
        match octet {
            0..10 => out.extend_from_slice(&[digit(octet), b'.']),
            10..100 => out.extend_from_slice(&[digit(octet / 10), digit(octet), b'.']),
            _ => out.extend_from_slice(&[digit(octet / 100), digit(octet / 10), digit(octet), b'.']),
        }
    }
    out.pop();
}

/// RFC 5952 §4: hexadecimal without leading zeros, and the first of the longest runs of zeros left out.
fn put_ipv6(out: &mut Vec<u8>, address: Ipv6Addr) {
    let groups = address.segments();
    let zeros_from = |start: usize| groups[start..].iter().take_while(|group| **group == 0).count();
    let (mut run_start, mut run_length) = (groups.len(), 1);
    for start in 0..groups.len() {
        let length = zeros_from(start);
        if length > run_length {
            (run_start, run_length) = (start, length);
        }
    }
    let put_groups = |out: &mut Vec<u8>, groups: &[u16]| {
        for (number, group) in groups.iter().enumerate() {
            if number > 0 {
                out.push(b':');
            }
            put_group(out, *group);
        }
    };
    let (before, run_and_after) = groups.split_at(run_start);
    put_groups(out, before);
    if let Some(after) = run_and_after.get(run_length..) {
        out.extend_from_slice(b"::");
        put_groups(out, after);
    }
}

fn put_group(out: &mut Vec<u8>, group: u16) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = [12, 8, 4, 0].map(|shift| DIGITS[usize::from(group >> shift & 15)]);
    let leading = (group.leading_zeros() / 4).min(3) as usize;
    out.extend_from_slice(&digits[leading..]);
}

/// A number in decimal.
#[inline]
pub(super) fn put_number(out: &mut Vec<u8>, number: u64) {
    // Those that lines are full of: octets, statuses, lengths of small answers.
    match number {
        0..10 => out.push(digit(number)),
        10..100 => out.extend_from_slice(&[digit(number / 10), digit(number)]),
        100..1000 => out.extend_from_slice(&three_digits(number)),
        _ => put_large_number(out, number),
    }
}

fn put_large_number(out: &mut Vec<u8>, number: u64) {
    put_number(out, number / 1000);
    out.extend_from_slice(&three_digits(number));
}

#[inline]
fn three_digits(number: u64) -> [u8; 3] {
    [digit(number / 100), digit(number / 10), digit(number)]
}

/// The last `N` digits of a number, with leading zeros.
pub(super) fn put_digits<const N: usize>(out: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0; N];
    for place in digits.iter_mut().rev() {
        *place = digit((number % 10).into());
        number /= 10;
    }
    out.extend_from_slice(&digits);
}

/// The last one.
#[inline]
fn digit(number: u64) -> u8 {
    b"0123456789"[(number % 10) as usize]
}

/// Puts bytes that can stand between quotes as they are; tells whether they all can, and puts none if not. Those that
/// can are ASCII that can be seen, and spaces, but neither quotes nor backslashes: nearly all that is sent.
#[inline]
pub(super) fn put_plain(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    // All are looked at, also behind one that is not plain: that is what the compiler makes wide steps of.
    let is_plain = bytes.iter().fold(true, |all, byte| all & is_plain_byte(*byte));
    if is_plain {
        out.extend_from_slice(bytes);
    }
    is_plain
}

#[inline]
pub(super) fn is_plain_byte(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(put: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        put(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn addresses_are_spelled_as_the_standard_library_does() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let [first, second, third, fourth, ..] = state.to_be_bytes();
            [first, second, third, fourth]
        };
        for _ in 0..20_000 {
            // Few values, so that runs of zeros of all lengths come up everywhere.
            let group = |byte: u8| [0, 0, 0, 1, 0x20, 0x300, 0xffff, 0xffff][usize::from(byte % 8)];
            let ([a, b, c, d], [e, f, g, h]) = (random().map(group), random().map(group));
            let groups = [a, b, c, d, e, f, g, h];
            let peer = SocketAddr::new(Ipv6Addr::from(groups).into(), 80);
            assert_eq!(spelled(|out| put_peer(out, Some(peer))), peer.ip().to_canonical().to_string());
            let peer = SocketAddr::new(Ipv4Addr::from(random()).into(), 80);
            assert_eq!(spelled(|out| put_peer(out, Some(peer))), peer.ip().to_string());
        }
        assert_eq!(spelled(|out| put_peer(out, None)), "-");
        let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), 80);
        assert_eq!(spelled(|out| put_peer(out, Some(mapped))), "127.0.0.1");
    }

    #[test]
    fn numbers_are_spelled_to_the_last() {
        for number in [0, 9, 10, 404, 65_536, u64::MAX] {
            assert_eq!(spelled(|out| put_number(out, number)), number.to_string());
        }
    }

    #[test]
    fn what_is_plain_is_put_as_it_is_and_all_else_not_at_all() {
        for length in 0..50 {
            for byte in 0..=255 {
                for place in 0..length {
                    let mut bytes: Vec<u8> = (b'a'..=b'z').cycle().take(length).collect();
                    bytes[place] = byte;
                    let mut out = b"before".to_vec();
                    let is_plain = put_plain(&mut out, &bytes);
                    assert_eq!(is_plain, is_plain_byte(byte), "{byte} at {place} of {length}");
                    let put: &[u8] = if is_plain { &bytes } else { b"" };
                    assert_eq!(out, [b"before", put].concat(), "{byte} at {place} of {length}");
                }
            }
        }
        let others = (0..=255).filter(|byte| !is_plain_byte(*byte));
        assert_eq!(others.count(), 32 + 1 + 128 + 2);
    }
}
