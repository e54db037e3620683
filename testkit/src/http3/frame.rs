//! Frames and streams of HTTP/3 (RFC 9114, sections 6.2 and 7).

/// DATA frame type.
pub const DATA: u64 = 0;
/// HEADERS frame type.
pub const HEADERS: u64 = 1;
/// `CANCEL_PUSH` frame type.
pub const CANCEL_PUSH: u64 = 3;
/// SETTINGS frame type.
pub const SETTINGS: u64 = 4;
/// `PUSH_PROMISE` frame type.
pub(super) const PUSH_PROMISE: u64 = 5;
/// GOAWAY frame type.
pub const GOAWAY: u64 = 7;
/// `MAX_PUSH_ID` frame type.
pub const MAX_PUSH_ID: u64 = 13;

/// Type of the control stream.
pub const CONTROL_STREAM: u64 = 0;
/// Type of the stream of QPACK's encoder (RFC 9204, section 4.2).
pub(super) const ENCODER_STREAM: u64 = 2;
/// Type of the stream of QPACK's decoder.
pub(super) const DECODER_STREAM: u64 = 3;

/// Returns a frame.
#[must_use]
pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [varint(kind), varint(payload.len() as u64), payload.to_vec()].concat()
}

/// Encodes a variable-length integer (RFC 9000, section 16).
///
/// # Panics
///
/// Panics if the value needs more than 62 bits.
#[must_use]
pub fn varint(value: u64) -> Vec<u8> {
    let (bytes, prefix) = match value {
        0..0x40 => (1, 0),
        0x40..0x4000 => (2, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        _ => (8, 0xc0),
    };
    assert!(value < 1 << 62);
    let mut encoded = value.to_be_bytes()[8 - bytes..].to_vec();
    encoded[0] |= prefix;
    encoded
}

/// Reads a variable-length integer from the start of `bytes`, or returns `None` when it is incomplete.
pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let length = 1 << (bytes.first()? >> 6);
    let (encoded, rest) = bytes.split_at_checked(length)?;
    let first = u64::from(encoded[0] & 0x3f);
    *bytes = rest;
    Some(encoded[1..].iter().fold(first, |value, byte| value << 8 | u64::from(*byte)))
}

/// Reads a frame from the start of `bytes` as type and payload, or returns `None` when it is incomplete.
pub fn take_frame<'a>(bytes: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let mut rest = *bytes;
    let kind = take_varint(&mut rest)?;
    let length = usize::try_from(take_varint(&mut rest)?).unwrap();
    let (payload, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some((kind, payload))
}

#[test]
fn integers_of_each_length_are_read_again() {
    // The examples of RFC 9000, appendix A.1, and the limits of each length.
    assert_eq!(varint(151_288_809_941_952_652), [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]);
    assert_eq!(varint(494_878_333), [0x9d, 0x7f, 0x3e, 0x7d]);
    assert_eq!(varint(15_293), [0x7b, 0xbd]);
    assert_eq!(varint(37), [0x25]);
    for value in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, (1 << 62) - 1] {
        let encoded = varint(value);
        let mut rest = encoded.as_slice();
        assert_eq!((take_varint(&mut rest), rest), (Some(value), &[][..]));
        assert_eq!(take_varint(&mut &encoded[..encoded.len() - 1]), None);
    }
}
