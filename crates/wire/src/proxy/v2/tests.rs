//! Tests for PROXY protocol headers, version 2.

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
fn block_names_the_client() {
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
fn unspecified_source_is_the_connection() {
    for kind in [0x00, 0x01, 0x02, 0x10, 0x20, 0x30] {
        assert_eq!(source_of(&block(0x21, kind, b"anything")), Some(Source::Connection), "{kind:x}");
    }
    for kind in [0x00, 0x11, 0xff] {
        assert_eq!(source_of(&block(0x20, kind, b"")), Some(Source::Connection), "{kind:x}");
        assert_eq!(source_of(&block(0x20, kind, b"anything")), Some(Source::Connection), "{kind:x}");
    }
}

#[test]
fn unknown_headers_are_refused() {
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
fn well_formed_extensions_are_ignored() {
    let with = |extensions: &[u8]| source_of(&block(0x21, 0x11, &[IPV4, extensions].concat()));
    assert_eq!(with(b"\x04\0\0\x02\0\x03a.b\xe0\0\x01!"), internet("10.1.2.3:12345"));
    for extensions in ["\x04", "\x04\0", "\x04\0\x01", "\x02\0\x03ab", "\x04\0\0\x01"] {
        assert_eq!(with(extensions.as_bytes()), None, "{extensions:?}");
    }
}

#[test]
fn checksum_is_verified() {
    assert_eq!(crc32c(b"123456789".iter()), 0xe306_9283);
    let mut good = block(0x21, 0x11, &[IPV4, b"\x04\0\x01x\x03\0\x04\0\0\0\0\x04\0\0"].concat());
    let sum = crc32c(good.iter()).to_be_bytes();
    let place = good.len() - 7;
    good[place..place + 4].copy_from_slice(&sum);
    assert_eq!(source_of(&good), internet("10.1.2.3:12345"));
    for place in 16..good.len() {
        let mut bad = good.clone();
        bad[place] ^= 0x10;
        // With a different type or length, it is a different list of extensions, which may be well-formed.
        let is_content = place < 28 || place == 31 || (35..39).contains(&place);
        assert!(!is_content || source_of(&bad).is_none(), "byte {place}");
    }
    let twice = [IPV4, b"\x03\0\x04\0\0\0\0\x03\0\x04\0\0\0\0"].concat();
    assert_eq!(source_of(&block(0x21, 0x11, &twice)), None);
    assert_eq!(source_of(&block(0x21, 0x11, &[IPV4, b"\x03\0\x03\0\0\0"].concat())), None);
}
