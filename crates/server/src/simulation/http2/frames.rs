//! Encoder and decoder of HTTP/2 frames (RFC 9113 §4, §6) for the simulated peers.
//!
//! Field lines are encoded as literals, without the dynamic table and Huffman coding. The decoder never validates a frame
//! beyond its length.

/// Client connection preface (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of a frame header.
const FRAME_HEADER_BYTES: usize = 9;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
/// RFC 9218 §7.1.
pub(super) const PRIORITY_UPDATE: u8 = 16;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Settings (RFC 9113 §6.5.2).
pub(super) const HEADER_TABLE_SIZE: u16 = 1;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;

/// A received frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Takes the first frame from `rest`. Returns `None` if it is incomplete.
    pub(super) fn take(rest: &mut &'a [u8]) -> Option<Frame<'a>> {
        let (header, after) = rest.split_at_checked(FRAME_HEADER_BYTES)?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let (payload, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
        *rest = after;
        let stream = u32::from_be_bytes([header[5] & 0x7f, header[6], header[7], header[8]]);
        Some(Frame { kind: header[3], flags: header[4], stream, payload })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the 32-bit number at `offset` of the payload, or `None` if the payload is shorter.
    pub(super) fn number(&self, offset: usize) -> Option<u32> {
        Some(u32::from_be_bytes(*self.payload.get(offset..)?.first_chunk()?))
    }
}

/// Returns `true` if `bytes` may be the start of a frame of this type.
pub(super) fn may_begin(bytes: &[u8], kind: u8) -> bool {
    bytes.len() < 4 || bytes[3] == kind
}

/// Encodes a frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, l0, l1, l2] = u32::try_from(payload.len()).expect("a payload").to_be_bytes();
    [&[l0, l1, l2, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// Encodes SETTINGS with these parameters.
pub(super) fn settings(parameters: &[(u16, u32)]) -> Vec<u8> {
    let bytes = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &parameters.iter().flat_map(bytes).collect::<Vec<_>>())
}

pub(super) fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

pub(super) fn reset(stream: u32) -> Vec<u8> {
    const CANCEL: u32 = 8;
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

/// Encodes a header block as literals with new names (RFC 7541 §6.2.2).
pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| {
        let length = u8::try_from(text.len()).ok().filter(|length| *length < 0x7f).expect("a short text");
        [&[length], text.as_bytes()].concat()
    };
    fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// Encodes a header block as HEADERS; if `cut` is an offset in it, the rest follows in CONTINUATION frames.
pub(super) fn headers(stream: u32, ends_stream: bool, block: &[u8], cut: Option<usize>) -> Vec<u8> {
    let end_stream = if ends_stream { END_STREAM } else { 0 };
    match cut.and_then(|cut| block.split_at_checked(cut)) {
        None => frame(HEADERS, end_stream | END_HEADERS, stream, block),
        Some((first, rest)) => [
            frame(HEADERS, end_stream, stream, first),
            frame(CONTINUATION, 0, stream, &[]),
            frame(CONTINUATION, END_HEADERS, stream, rest),
        ]
        .concat(),
    }
}
