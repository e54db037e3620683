//! Frames that we send (RFC 9114 §7.2), apart from SETTINGS.

use super::frame::{kind, put_head};
use super::varint;

/// Appends the head of a HEADERS frame, before a field section of this length in bytes.
pub fn put_headers_head(out: &mut Vec<u8>, section_bytes: u64) {
    put_head(out, kind::HEADERS, section_bytes);
}

/// Appends the head of a DATA frame, before content of this length in bytes.
pub fn put_data_head(out: &mut Vec<u8>, content_bytes: u64) {
    put_head(out, kind::DATA, content_bytes);
}

/// Appends GOAWAY: requests on this stream and higher ones are not answered (RFC 9114 §5.2).
pub fn put_goaway(out: &mut Vec<u8>, stream: u64) {
    let mut id = Vec::with_capacity(8);
    varint::put(&mut id, stream);
    put_head(out, kind::GOAWAY, id.len() as u64);
    out.extend_from_slice(&id);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_encoded() {
        let mut out = Vec::new();
        put_headers_head(&mut out, 63);
        put_data_head(&mut out, 64);
        put_goaway(&mut out, 16_384);
        assert_eq!(out, [1, 63, 0, 0x40, 64, 7, 4, 0x80, 0, 0x40, 0]);
    }
}
