//! PROXY protocol version 2. The header is a binary block (section 2.2).
//!
//! The addresses may be followed by extensions (TLVs). All of them must be well-formed, but we only use the checksum.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Parsed, Source};
use crate::limits::PROXY_HEADER_BYTES_MAX;

/// Start of each block.
pub(super) const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Length of the fixed part: signature, version and command, family and transport, and length of the rest.
const FIXED_BYTES: usize = SIGNATURE.len() + 4;

/// The type of the extension that has the checksum (section 2.2.3).
const CRC32C: u8 = 0x03;

/// Parses the block at the start of `input`, which must match [`SIGNATURE`] as far as there are bytes.
pub(super) fn parse(input: &[u8]) -> Parsed {
    let Some(fixed) = input.first_chunk::<FIXED_BYTES>() else { return Parsed::More };
    let [.., version_and_command, kind, length_high, length_low] = *fixed;
    let length = FIXED_BYTES + usize::from(u16::from_be_bytes([length_high, length_low]));
    if length > PROXY_HEADER_BYTES_MAX {
        return Parsed::Malformed;
    }

    let Some(block) = input.get(..length) else { return Parsed::More };
    let source = match version_and_command {
        // LOCAL. We must ignore the rest.
        0x20 => Some(Source::Connection),
        0x21 => source(kind, block),
        _ => None,
    };

    source.map_or(Parsed::Malformed, |source| Parsed::Header(source, length))
}

/// Parses the addresses in a block, using the format for the given family and transport.
fn source(kind: u8, block: &[u8]) -> Option<Source> {
    let rest = &block[FIXED_BYTES..];

    let (source, extensions) = match (kind >> 4, kind & 0xf) {
        // UNSPEC. We must ignore the rest.
        (0, 0..=2) | (1..=3, 0) => return Some(Source::Connection),
        (1, 1 | 2) => {
            let (addresses, extensions) = rest.split_first_chunk::<12>()?;
            let [a, b, c, d, _, _, _, _, high, low, _, _] = *addresses;
            let port = u16::from_be_bytes([high, low]);
            (Source::Internet(SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), port)), extensions)
        }
        (2, 1 | 2) => {
            let (addresses, extensions) = rest.split_first_chunk::<36>()?;
            let address = Ipv6Addr::from(*addresses.first_chunk::<16>()?);
            let port = u16::from_be_bytes([addresses[32], addresses[33]]);
            (Source::Internet(SocketAddr::new(address.into(), port)), extensions)
        }
        (3, 1 | 2) => (Source::Local, rest.split_first_chunk::<216>()?.1),
        _ => return None,
    };

    is_intact(block, extensions).then_some(source)
}

/// Returns `true` if the extensions at the end of a block are well-formed and the checksum (if any) is correct.
fn is_intact(block: &[u8], extensions: &[u8]) -> bool {
    let mut rest = extensions;
    let mut checksum = None;
    while let Some((head, after)) = rest.split_first_chunk::<3>() {
        let [kind, length_high, length_low] = *head;
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        let Some((value, others)) = after.split_at_checked(length) else { return false };
        if kind == CRC32C {
            let position = block.len() - after.len();
            let Ok(stated) = <[u8; 4]>::try_from(value) else { return false };
            // If there is another one, it's ambiguous which of them was set to zero.
            if checksum.replace((position, u32::from_be_bytes(stated))).is_some() {
                return false;
            }
        }
        rest = others;
    }

    // The checksum is computed over the whole block, using zeros for its own bytes.
    let is_correct = checksum.is_none_or(|(position, stated)| {
        let bytes = block[..position].iter().chain(&[0; 4]).chain(&block[position + 4..]);
        crc32c(bytes) == stated
    });
    rest.is_empty() && is_correct
}

/// Computes CRC-32C (RFC 4960, appendix B), bit by bit. This is fast enough: few proxies use it, and only once per connection.
fn crc32c<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    const POLYNOMIAL_REVERSED: u32 = 0x82f6_3b78;
    !bytes.fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL_REVERSED } else { sum >> 1 }
        })
    })
}

#[cfg(test)]
mod tests;
