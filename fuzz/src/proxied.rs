//! PROXY protocol headers.
//!
//! It checks three promises: the parser agrees with a simple one; the result doesn't depend on how the bytes
//! are split; and the bytes kept of an incomplete header are bounded.

use std::net::{IpAddr, SocketAddr};

use cannery_wire::limits::PROXY_HEADER_BYTES_MAX;
use cannery_wire::proxy::{Parsed, Source, parse};

/// Parses a header.
pub fn proxy_header(data: &[u8]) {
    let whole = parse(data);
    match whole {
        Parsed::Header(source, length) => {
            assert_eq!(
                Some(source),
                plain(&data[..length]),
                "{:?}",
                data[..length].escape_ascii().to_string()
            );
        }
        Parsed::More => assert!(data.len() < PROXY_HEADER_BYTES_MAX, "{} bytes are kept", data.len()),
        // No prefix of the bytes may be a valid header.
        Parsed::Malformed => {
            let ends =
                (0..=data.len().min(PROXY_HEADER_BYTES_MAX)).find(|end| plain(&data[..*end]).is_some());
            assert_eq!(ends, None, "{}", data.escape_ascii());
        }
    }

    // A result for a prefix stays true, and no result comes too early.
    for end in 0..data.len() {
        match (parse(&data[..end]), whole) {
            (Parsed::More, Parsed::Header(_, length)) => assert!(end < length, "{end} bytes are enough"),
            (Parsed::More, _) => {}
            (known, _) => assert_eq!(known, whole, "after {end} bytes"),
        }
    }
}

/// Reference parser: returns the source in a header of exactly these bytes, or `None` if it is invalid.
fn plain(header: &[u8]) -> Option<Source> {
    match header {
        [b'P', ..] => plain_line(header),
        [b'\r', ..] => plain_block(header),
        _ => None,
    }
}

/// Parses version 1 (section 2.1).
fn plain_line(header: &[u8]) -> Option<Source> {
    let text: String = header.iter().map(|byte| char::from(*byte)).collect();
    let line = text.strip_suffix("\r\n").filter(|line| text.len() <= 107 && !line.contains('\n'))?;

    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["PROXY", "UNKNOWN", ..] => Some(Source::Connection),
        ["PROXY", kind @ ("TCP4" | "TCP6"), source, destination, source_port, destination_port] => {
            let addresses = [source, destination].map(|word| plain_address(kind, word));
            let ports = [source_port, destination_port].map(|word| {
                // A port has no sign and no leading zero.
                word.parse::<u16>().ok().filter(|port| port.to_string() == **word)
            });
            match (addresses, ports) {
                ([Some(address), Some(_)], [Some(port), Some(_)]) => {
                    Some(Source::Internet(SocketAddr::new(address, port)))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn plain_address(kind: &str, word: &str) -> Option<IpAddr> {
    if kind == "TCP4" {
        let numbers: Option<Vec<u8>> = word
            .split('.')
            .map(|part| part.parse::<u8>().ok().filter(|number| number.to_string() == part))
            .collect();
        return <[u8; 4]>::try_from(numbers?).ok().map(IpAddr::from);
    }
    let (before, after) = word.split_once("::").map_or((word, None), |(before, after)| (before, Some(after)));
    let mut groups = plain_groups(before, after.is_none())?;
    if let Some(after) = after {
        let after = plain_groups(after, true)?;
        // The two colons replace at least one group of zeros.
        let zeros = 8usize.checked_sub(groups.len() + after.len()).filter(|zeros| *zeros > 0)?;
        groups.resize(groups.len() + zeros, 0);
        groups.extend(after);
    }
    <[u16; 8]>::try_from(groups).ok().map(IpAddr::from)
}

/// Parses groups separated by colons. The last two of an address may have the form of an IPv4 address.
fn plain_groups(text: &str, is_end: bool) -> Option<Vec<u16>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut groups = Vec::new();
    let parts: Vec<&str> = text.split(':').collect();
    for (number, part) in parts.iter().enumerate() {
        if is_end && number + 1 == parts.len() && part.contains('.') {
            let IpAddr::V4(address) = plain_address("TCP4", part)? else { return None };
            let [a, b, c, d] = address.octets();
            groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
        } else {
            let is_group = (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            groups.push(is_group.then(|| u16::from_str_radix(part, 16).ok())??);
        }
    }
    Some(groups)
}

/// Parses version 2 (section 2.2).
fn plain_block(header: &[u8]) -> Option<Source> {
    let signature = [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a];
    let is_block = header.len() >= 16 && header.len() <= PROXY_HEADER_BYTES_MAX && header[..12] == signature;
    if !is_block || usize::from(header[14]) * 256 + usize::from(header[15]) != header.len() - 16 {
        return None;
    }

    let (family, transport) = (header[13] / 16, header[13] % 16);
    match header[12] {
        0x20 => return Some(Source::Connection),
        0x21 if family > 3 || transport > 2 => return None,
        0x21 if family == 0 || transport == 0 => return Some(Source::Connection),
        0x21 => {}
        _ => return None,
    }

    let address_bytes = [0, 12, 36, 216][usize::from(family)];
    if header.len() < 16 + address_bytes || !has_valid_extensions(header, 16 + address_bytes) {
        return None;
    }

    let port = |position: usize| u16::from(header[position]) * 256 + u16::from(header[position + 1]);
    Some(match family {
        1 => {
            let address = <[u8; 4]>::try_from(&header[16..20]).ok()?;
            Source::Internet(SocketAddr::new(IpAddr::from(address), port(24)))
        }
        2 => {
            let address = <[u8; 16]>::try_from(&header[16..32]).ok()?;
            Source::Internet(SocketAddr::new(IpAddr::from(address), port(48)))
        }
        _ => Source::Local,
    })
}

/// Returns `true` if a list of type, length and value fills the rest of a header, with at most one checksum,
/// which is correct.
fn has_valid_extensions(header: &[u8], mut position: usize) -> bool {
    let mut sums = Vec::new();
    while position < header.len() {
        if position + 3 > header.len() {
            return false;
        }
        let length = usize::from(header[position + 1]) * 256 + usize::from(header[position + 2]);
        if header[position] == 3 {
            sums.push((position + 3, length));
        }
        position += 3 + length;
    }

    if position > header.len() {
        return false;
    }
    match sums[..] {
        [] => true,
        [(position, 4)] => {
            let mut zeroed = header.to_vec();
            zeroed[position..position + 4].fill(0);
            plain_crc32c(&zeroed).to_be_bytes() == header[position..position + 4]
        }
        _ => false,
    }
}

/// Computes the remainder of a division of polynomials (RFC 4960, appendix B), with each byte from its lowest
/// bit.
fn plain_crc32c(bytes: &[u8]) -> u32 {
    let bits = bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
    let mut remainder = u32::MAX;
    for bit in bits {
        let carries = (remainder >> 31 == 1) != bit;
        remainder <<= 1;
        if carries {
            remainder ^= 0x1edc_6f41;
        }
    }
    (!remainder).reverse_bits()
}
