//! Version 2: a block of bytes (section 2.2).
//!
//! Of what stands behind the addresses only the checksum is looked at; the rest has to be well-formed.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Parsed, Source};
use crate::limits::PROXY_HEADER_BYTES_MAX;

/// What every block begins with.
pub(super) const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and transport, and the length of the rest.
const FIXED_BYTES: usize = SIGNATURE.len() + 4;

/// The type of the extension that holds the checksum (section 2.2.3).
const CRC32C: u8 = 0x03;

/// Reads the block at the beginning of `input`, which agrees with [`SIGNATURE`].
pub(super) fn parse(input: &[u8]) -> Parsed {
    let Some(fixed) = input.first_chunk::<FIXED_BYTES>() else { return Parsed::More };
    let [.., version_and_command, kind, length_high, length_low] = *fixed;
    let length = FIXED_BYTES + usize::from(u16::from_be_bytes([length_high, length_low]));
    if length > PROXY_HEADER_BYTES_MAX {
        return Parsed::Malformed;
    }
    let Some(block) = input.get(..length) else { return Parsed::More };
    let source = match version_and_command {
        // LOCAL: whatever else stands there is to be ignored.
        0x20 => Some(Source::Connection),
        0x21 => source(kind, block),
        _ => None,
    };
    source.map_or(Parsed::Malformed, |source| Parsed::Header(source, length))
}

/// Whom a block of this family and transport names.
fn source(kind: u8, block: &[u8]) -> Option<Source> {
    let behind = &block[FIXED_BYTES..];
    let (source, extensions) = match (kind >> 4, kind & 0xf) {
        // Nobody that could be named: what stands there is to be ignored.
        (0, 0..=2) | (1..=3, 0) => return Some(Source::Connection),
        (1, 1 | 2) => {
            let (addresses, extensions) = behind.split_first_chunk::<12>()?;
            let [a, b, c, d, _, _, _, _, high, low, _, _] = *addresses;
            let port = u16::from_be_bytes([high, low]);
            (Source::Internet(SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), port)), extensions)
        }
        (2, 1 | 2) => {
            let (addresses, extensions) = behind.split_first_chunk::<36>()?;
            let address = Ipv6Addr::from(*addresses.first_chunk::<16>()?);
            let port = u16::from_be_bytes([addresses[32], addresses[33]]);
            (Source::Internet(SocketAddr::new(address.into(), port)), extensions)
        }
        (3, 1 | 2) => (Source::Local, behind.split_first_chunk::<216>()?.1),
        _ => return None,
    };
    is_intact(block, extensions).then_some(source)
}

/// Whether the extensions at the end of a block are well-formed, and its checksum right if it has one.
fn is_intact(block: &[u8], extensions: &[u8]) -> bool {
    let (mut rest, mut checksum) = (extensions, None);
    while let Some((head, behind)) = rest.split_first_chunk::<3>() {
        let [kind, length_high, length_low] = *head;
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        let Some((value, others)) = behind.split_at_checked(length) else { return false };
        if kind == CRC32C {
            let place = block.len() - behind.len();
            let Ok(stated) = <[u8; 4]>::try_from(value) else { return false };
            // With more than one it would not be clear which of them counts as zero for which.
            if checksum.replace((place, u32::from_be_bytes(stated))).is_some() {
                return false;
            }
        }
        rest = others;
    }
    let is_right = checksum.is_none_or(|(place, stated)| {
        let bytes = block[..place].iter().chain(&[0; 4]).chain(&block[place + 4..]);
        crc32c(bytes) == stated
    });
    rest.is_empty() && is_right
}

/// The checksum of RFC 4960, appendix B; bit by bit, since few senders use it, and once for a connection.
fn crc32c<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    const POLYNOMIAL_REVERSED: u32 = 0x82f6_3b78;
    !bytes.fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL_REVERSED } else { sum >> 1 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPV4: &[u8] = b"\x0a\x01\x02\x03\x0a\0\0\x01\x30\x39\0\x50";

    fn block(version_and_command: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
        let mut block = SIGNATURE.to_vec();
        block.extend_from_slice(&[version_and_command, kind]);
        block.extend_from_slice(&u16::try_from(rest.len()).unwrap().to_be_bytes());
        block.extend_from_slice(rest);
        block
    }

    fn source_of(block: &[u8]) -> Option<Source> {
        match crate::proxy::parse(block) {
            Parsed::Header(source, length) => {
                assert_eq!(length, block.len());
                Some(source)
            }
            Parsed::More => panic!("{block:?} is whole"),
            Parsed::Malformed => None,
        }
    }

    fn internet(address: &str) -> Option<Source> {
        Some(Source::Internet(address.parse().unwrap()))
    }

    #[test]
    fn a_block_names_the_client() {
        let mut ipv6 = [0; 36];
        ipv6[15] = 1;
        ipv6[33] = 80;
        for transport in [1, 2] {
            assert_eq!(source_of(&block(0x21, 0x10 | transport, IPV4)), internet("10.1.2.3:12345"));
            assert_eq!(source_of(&block(0x21, 0x20 | transport, &ipv6)), internet("[::1]:80"));
            assert_eq!(source_of(&block(0x21, 0x30 | transport, &[7; 216])), Some(Source::Local));
        }
    }

    #[test]
    fn who_is_not_named_stays_the_connection() {
        for kind in [0x00, 0x01, 0x02, 0x10, 0x20, 0x30] {
            assert_eq!(source_of(&block(0x21, kind, b"anything")), Some(Source::Connection), "{kind:x}");
        }
        for kind in [0x00, 0x11, 0xff] {
            assert_eq!(source_of(&block(0x20, kind, b"")), Some(Source::Connection), "{kind:x}");
            assert_eq!(source_of(&block(0x20, kind, b"anything")), Some(Source::Connection), "{kind:x}");
        }
    }

    #[test]
    fn other_versions_commands_families_and_transports_are_refused() {
        for version_and_command in [0x11, 0x31, 0x01, 0x22, 0x2f] {
            assert_eq!(source_of(&block(version_and_command, 0x11, IPV4)), None, "{version_and_command:x}");
        }
        for kind in [0x13, 0x1f, 0x41, 0xf1, 0x40, 0x03] {
            assert_eq!(source_of(&block(0x21, kind, &[0; 300])), None, "{kind:x}");
        }
        for (kind, length) in [(0x11, 11), (0x21, 35), (0x31, 215), (0x11, 0)] {
            assert_eq!(source_of(&block(0x21, kind, &vec![0; length])), None, "{kind:x} {length}");
        }
    }

    #[test]
    fn extensions_are_passed_over_if_they_are_whole() {
        let with = |extensions: &[u8]| source_of(&block(0x21, 0x11, &[IPV4, extensions].concat()));
        assert_eq!(with(b"\x04\0\0\x02\0\x03a.b\xe0\0\x01!"), internet("10.1.2.3:12345"));
        for extensions in ["\x04", "\x04\0", "\x04\0\x01", "\x02\0\x03ab", "\x04\0\0\x01"] {
            assert_eq!(with(extensions.as_bytes()), None, "{extensions:?}");
        }
    }

    #[test]
    fn a_checksum_is_held_against_the_block() {
        assert_eq!(crc32c(b"123456789".iter()), 0xe306_9283);
        let mut good = block(0x21, 0x11, &[IPV4, b"\x04\0\x01x\x03\0\x04\0\0\0\0\x04\0\0"].concat());
        let sum = crc32c(good.iter()).to_be_bytes();
        let place = good.len() - 7;
        good[place..place + 4].copy_from_slice(&sum);
        assert_eq!(source_of(&good), internet("10.1.2.3:12345"));
        for place in 16..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x10;
            // A byte of a type or a length makes another list of extensions, which may be none or well-formed.
            let is_content = place < 28 || place == 31 || (35..39).contains(&place);
            assert!(!is_content || source_of(&bad).is_none(), "byte {place}");
        }
        let twice = [IPV4, b"\x03\0\x04\0\0\0\0\x03\0\x04\0\0\0\0"].concat();
        assert_eq!(source_of(&block(0x21, 0x11, &twice)), None);
        assert_eq!(source_of(&block(0x21, 0x11, &[IPV4, b"\x03\0\x03\0\0\0"].concat())), None);
    }
}
