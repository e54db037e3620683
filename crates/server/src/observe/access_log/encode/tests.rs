//! Unit tests of the encoding of log lines.

use super::*;

fn encoded(put: impl Fn(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    put(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn addresses_match_the_standard_library() {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [first, second, third, fourth, ..] = state.to_be_bytes();
        [first, second, third, fourth]
    };
    for _ in 0..20_000 {
        // We use few values, so that runs of zeros of all lengths occur at all positions.
        let group = |byte: u8| [0, 0, 0, 1, 0x20, 0x300, 0xffff, 0xffff][usize::from(byte % 8)];
        let ([a, b, c, d], [e, f, g, h]) = (random().map(group), random().map(group));
        let groups = [a, b, c, d, e, f, g, h];
        let peer = SocketAddr::new(Ipv6Addr::from(groups).into(), 80);
        assert_eq!(encoded(|out| put_peer(out, Some(peer))), peer.ip().to_canonical().to_string());
        let peer = SocketAddr::new(Ipv4Addr::from(random()).into(), 80);
        assert_eq!(encoded(|out| put_peer(out, Some(peer))), peer.ip().to_string());
    }
    assert_eq!(encoded(|out| put_peer(out, None)), "-");
    let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), 80);
    assert_eq!(encoded(|out| put_peer(out, Some(mapped))), "127.0.0.1");
}

#[test]
fn numbers_match_the_standard_library() {
    for number in [0, 9, 10, 404, 65_536, u64::MAX] {
        assert_eq!(encoded(|out| put_number(out, number)), number.to_string());
    }
}

#[test]
fn bytes_are_plain_only_if_all_are() {
    for length in 0..50 {
        for byte in 0..=255 {
            for place in 0..length {
                let mut bytes: Vec<u8> = (b'a'..=b'z').cycle().take(length).collect();
                bytes[place] = byte;
                assert_eq!(is_plain(&bytes), is_plain_byte(byte), "{byte} at {place} of {length}");
            }
        }
    }
    let others = (0..=255).filter(|byte| !is_plain_byte(*byte));
    assert_eq!(others.count(), 32 + 1 + 128 + 2);
}
