//! Frames that we send (RFC 9114 §7.2), except SETTINGS.

use super::frame::{kind, put_head};
use super::stream_id::StreamId;
use super::varint;
use crate::response::output::Output;

/// A HEADERS frame under construction. We leave room for the frame head and fill it in later, because we do
/// not know the length before the field section is encoded.
pub(super) struct HeadersFrame {
    start: usize,
}

/// Length of the room we leave: one byte for the frame type, two for the length.
const HEADERS_HEAD_BYTES: usize = 3;

/// From this section length on, the length field takes four bytes.
const LONG_SECTION_BYTES: usize = 0x4000;

impl HeadersFrame {
    #[inline]
    pub(super) fn begin(output: &mut Output) -> HeadersFrame {
        let start = output.inline_bytes();
        output.put(&[0; HEADERS_HEAD_BYTES]);
        HeadersFrame { start }
    }

    #[inline]
    pub(super) fn end(self, output: &mut Output) {
        let length = output.inline_bytes() - self.start - HEADERS_HEAD_BYTES;
        if length >= LONG_SECTION_BYTES {
            return self.end_long(output);
        }
        let [.., high, low] = length.to_be_bytes();
        #[allow(clippy::cast_possible_truncation, reason = "a frame type below 64 takes one byte")]
        output.overwrite(self.start, &[kind::HEADERS as u8, high | 0x40, low]);
    }

    #[cold]
    fn end_long(self, output: &mut Output) {
        let section = output.split_off(self.start + HEADERS_HEAD_BYTES);
        output.split_off(self.start);
        put_head(output.inline_mut(), kind::HEADERS, section.len() as u64);
        output.put(&section);
    }
}

/// Appends the head of a DATA frame.
#[inline]
pub(super) fn put_data_head(output: &mut Output, content_bytes: u64) {
    put_head(output.inline_mut(), kind::DATA, content_bytes);
}

/// Appends GOAWAY, promising not to answer requests on `stream` and above (RFC 9114 §5.2).
pub(super) fn put_goaway(out: &mut Vec<u8>, stream: StreamId) {
    let mut id = Vec::with_capacity(8);
    varint::put(&mut id, stream.number());
    put_head(out, kind::GOAWAY, id.len() as u64);
    out.extend_from_slice(&id);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_encoded() {
        let mut output = Output::new();
        put_data_head(&mut output, 64);
        put_goaway(output.inline_mut(), StreamId::new(16_384));
        assert_eq!(output.parts().0, [0, 0x40, 64, 7, 4, 0x80, 0, 0x40, 0]);
    }

    #[test]
    fn field_sections_of_any_length_fit_their_frame() {
        for length in [0, 63, 64, LONG_SECTION_BYTES - 1, LONG_SECTION_BYTES, 100_000] {
            let mut output = Output::new();
            output.put(b"before");
            let frame = HeadersFrame::begin(&mut output);
            output.put(&vec![7; length]);
            frame.end(&mut output);

            let (kind, rest) = varint::read(&output.parts().0[b"before".len()..]).unwrap();
            let (bytes, section) = varint::read(rest).unwrap();
            assert_eq!((kind, bytes), (kind::HEADERS, length as u64));
            assert_eq!(section, vec![7; length]);
        }
    }
}
