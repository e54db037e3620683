//! Unit tests of a ClientHello in parts.

use super::*;

/// A ClientHello with this session ID and extensions of these types.
fn hello(session_id: &[u8], extensions: &[u16]) -> Vec<u8> {
    let extensions: Vec<u8> =
        extensions.iter().flat_map(|number| [&number.to_be_bytes()[..], &[0, 1, 9]].concat()).collect();
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
    let mut body = vec![3; 34];
    body.extend([&[length(session_id)], session_id, &[0, 2, 0x13, 1, 1, 0, 0, length(&extensions)]].concat());
    body.extend(extensions);
    [&[1, 0, 0, length(&body)], &body[..]].concat()
}

fn check(hello: &[u8], part_bytes: usize) -> Option<TransportErrorCode> {
    let mut check = HelloCheck::default();
    hello.chunks(part_bytes).find_map(|part| check.check(part).err()).map(|error| error.code)
}

#[test]
fn each_hello_is_judged_in_parts_of_any_length() {
    let missing = Some(TransportErrorCode::crypto(109));
    let violation = Some(TransportErrorCode::PROTOCOL_VIOLATION);
    for part_bytes in [1, 7, 40, 1000] {
        assert_eq!(check(&hello(&[], &[0, 0x39]), part_bytes), None);
        assert_eq!(check(&hello(&[], &[0x39, 0xffa5]), part_bytes), None);
        assert_eq!(check(&hello(&[], &[0, 0xffa5]), part_bytes), missing);
        // `rustls` refuses it.
        assert_eq!(check(&hello(&[], &[0]), part_bytes), None);
        assert_eq!(check(&hello(&[7; 32], &[0x39]), part_bytes), violation);
        assert_eq!(check(&[20, 0, 0, 4, 1, 2, 3, 4], part_bytes), None);
    }
}

#[test]
fn cut_hello_is_harmless() {
    let hello = hello(&[], &[0, 0x39, 0xffa5]);
    for length in 0..hello.len() {
        let mut cut = hello[..length].to_vec();
        if let Some(byte) = cut.get_mut(3) {
            *byte = u8::try_from(length - 4).unwrap();
        }
        check(&cut, 1000);
    }
}
