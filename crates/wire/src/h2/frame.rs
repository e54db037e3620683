//! Frame layout (RFC 9113 §4, §6): heads, padding, and the small frames that we send.
//!
//! This module does not know streams: callers need to decide which error an invalid frame causes.

use super::error::ErrorCode;
use crate::response::output::Output;

/// Connection preface of a client (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of a frame head, in bytes (RFC 9113 §4.1).
pub(super) const HEAD_BYTES: usize = 9;

/// Largest payload that every peer MUST accept (RFC 9113 §4.2). Larger ones are neither sent nor accepted.
pub(super) const PAYLOAD_BYTES_MAX: u32 = 16_384;

/// Frame types (RFC 9113 §6, RFC 9218 §7.1).
pub(super) mod kind {
    pub(in crate::h2) const DATA: u8 = 0;
    pub(in crate::h2) const HEADERS: u8 = 1;
    pub(in crate::h2) const PRIORITY: u8 = 2;
    pub(in crate::h2) const RST_STREAM: u8 = 3;
    pub(in crate::h2) const SETTINGS: u8 = 4;
    pub(in crate::h2) const PUSH_PROMISE: u8 = 5;
    pub(in crate::h2) const PING: u8 = 6;
    pub(in crate::h2) const GOAWAY: u8 = 7;
    pub(in crate::h2) const WINDOW_UPDATE: u8 = 8;
    pub(in crate::h2) const CONTINUATION: u8 = 9;
    pub(in crate::h2) const PRIORITY_UPDATE: u8 = 16;
}

/// Frame flags. The meaning of a bit depends on the frame type.
pub(super) mod flag {
    pub(in crate::h2) const ACK: u8 = 0x1;
    pub(in crate::h2) const END_STREAM: u8 = 0x1;
    pub(in crate::h2) const END_HEADERS: u8 = 0x4;
    pub(in crate::h2) const PADDED: u8 = 0x8;
    pub(in crate::h2) const PRIORITY: u8 = 0x20;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// Length of the payload, in bytes.
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// Stream ID without the reserved bit. 0 is the connection.
    pub(super) stream: u32,
}

impl FrameHead {
    /// Parses the head at the front of `bytes`, or returns `None` while it is incomplete.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<FrameHead> {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes.first_chunk::<HEAD_BYTES>()?;
        let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        let stream = parse_u31([s0, s1, s2, s3]);
        Some(FrameHead { length, kind, flags, stream })
    }

    /// Encodes the head. `length` must be below 2^24.
    #[inline]
    pub(super) fn bytes(self) -> [u8; HEAD_BYTES] {
        let [_, .., l0, l1, l2] = (self.length as u64).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]
    }

    #[inline]
    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Parses a stream ID or window increment: 31 bits, after a reserved bit we ignore (RFC 9113 §4.1, §6.9).
#[inline]
pub(super) fn parse_u31(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

/// Returns the stream that a priority depends on (RFC 7540 §6.3).
pub(super) fn depends_on(dependency: &[u8; 5]) -> u32 {
    let [s0, s1, s2, s3, _] = *dependency;
    parse_u31([s0, s1, s2, s3])
}

/// Removes padding from a payload (RFC 9113 §6.1, §6.2).
#[inline]
pub(super) fn unpadded(head: FrameHead, payload: &[u8]) -> Result<&[u8], ErrorCode> {
    if !head.has(flag::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(ErrorCode::FrameSize)?;
    let length = rest.len().checked_sub(usize::from(*padding)).ok_or(ErrorCode::Protocol)?;
    Ok(&rest[..length])
}

pub(super) fn payload_bytes(payload: &[u8]) -> u32 {
    u32::try_from(payload.len()).expect("longer frames were refused by their head")
}

/// Appends a whole frame. `payload` must not exceed [`PAYLOAD_BYTES_MAX`].
pub(super) fn put(output: &mut Output, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    output.put(&FrameHead { length: payload.len(), kind, flags, stream }.bytes());
    output.put(payload);
}

/// Appends RST_STREAM (RFC 9113 §6.4).
pub(super) fn put_reset(output: &mut Output, stream: u32, code: ErrorCode) {
    put(output, kind::RST_STREAM, 0, stream, &code.number().to_be_bytes());
}

/// Appends GOAWAY (RFC 9113 §6.8), promising not to answer streams above `last`.
pub(super) fn put_goaway(output: &mut Output, last: u32, code: ErrorCode) {
    let mut payload = [0; 8];
    payload[..4].copy_from_slice(&last.to_be_bytes());
    payload[4..].copy_from_slice(&code.number().to_be_bytes());
    put(output, kind::GOAWAY, 0, 0, &payload);
}

/// Appends WINDOW_UPDATE for the connection (RFC 9113 §6.9).
pub(super) fn put_window_update(output: &mut Output, increment: u32) {
    put_stream_window_update(output, 0, increment);
}

/// Appends WINDOW_UPDATE for a stream.
pub(super) fn put_stream_window_update(output: &mut Output, stream: u32, increment: u32) {
    put(output, kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsing_reverses_encoding() {
        let head = FrameHead { length: 0x12_3456, kind: 7, flags: 9, stream: 0x7fff_fffe };
        assert_eq!(head.bytes(), [0x12, 0x34, 0x56, 7, 9, 0x7f, 0xff, 0xff, 0xfe]);
        assert_eq!(FrameHead::read(&head.bytes()), Some(head));
        assert_eq!(FrameHead::read(&head.bytes()[..8]), None);
        // RFC 9113 §4.1: the reserved bit is ignored.
        assert_eq!(FrameHead::read(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).map(|head| head.stream), Some(1));
    }

    #[test]
    fn padding_is_removed_and_checked() {
        let padded = FrameHead { length: 0, kind: kind::DATA, flags: flag::PADDED, stream: 1 };
        assert_eq!(unpadded(padded, &[2, b'a', 0, 0]), Ok(b"a".as_slice()));
        assert_eq!(unpadded(padded, &[0]), Ok(b"".as_slice()));
        assert_eq!(unpadded(padded, &[3, b'a', 0]), Err(ErrorCode::Protocol));
        assert_eq!(unpadded(padded, &[]), Err(ErrorCode::FrameSize));
        assert_eq!(unpadded(FrameHead { flags: 0, ..padded }, &[3, b'a']), Ok([3, b'a'].as_slice()));
    }
}
