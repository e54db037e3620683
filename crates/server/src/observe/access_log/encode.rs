//! Encodes addresses, numbers, and bytes that do not need to be escaped, for all log formats.
//!
//! Note that `std::fmt` would take longer to write an address than we need for the rest of the line.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Appends an address without the port, or `-` for Unix sockets, which have none. IPv4-mapped IPv6
/// addresses are written as IPv4 addresses.
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

/// Appends an address in the format of RFC 5952 §4: in hexadecimal without leading zeros, with the first of
/// the longest runs of zeros replaced by `::`.
fn put_ipv6(out: &mut Vec<u8>, address: Ipv6Addr) {
    let groups = address.segments();

    // Find the first of the longest runs that contain at least two zeros.
    let zeros_from = |start: usize| groups[start..].iter().take_while(|group| **group == 0).count();
    let mut run_start = groups.len();
    let mut run_length = 1;
    for start in 0..groups.len() {
        let length = zeros_from(start);
        if length > run_length {
            run_start = start;
            run_length = length;
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

/// Appends a number in decimal.
#[inline]
pub(super) fn put_number(out: &mut Vec<u8>, number: u64) {
    // Most numbers are octets, statuses, or lengths of small responses.
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

/// Appends the last `N` decimal digits of a number, including leading zeros.
pub(super) fn put_digits<const N: usize>(out: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0; N];
    for place in digits.iter_mut().rev() {
        *place = digit((number % 10).into());
        number /= 10;
    }
    out.extend_from_slice(&digits);
}

/// Returns the last decimal digit of a number.
#[inline]
fn digit(number: u64) -> u8 {
    b"0123456789"[(number % 10) as usize]
}

/// Returns `true` if none of the bytes need to be escaped (nearly all data from peers).
#[inline]
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    // Stopping at the first byte that is not plain would prevent the compiler from vectorizing the
    // loop.
    bytes.iter().fold(true, |all, byte| all & is_plain_byte(*byte))
}

/// Whether the byte does not need to be escaped within quotes, i.e. is printable ASCII or a space, but
/// neither a quote nor a backslash.
#[inline]
pub(super) fn is_plain_byte(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests;
