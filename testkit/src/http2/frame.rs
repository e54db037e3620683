//! Frames of HTTP/2 (RFC 9113, sections 4 and 6) and field blocks without compression (RFC 7541).

/// The client's connection preface (RFC 9113, section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of a frame header, in bytes.
const HEADER_BYTES: usize = 9;

// Frame types (RFC 9113, section 6; RFC 9218, section 7.1).

/// DATA frame type.
pub const DATA: u8 = 0;
/// HEADERS frame type.
pub const HEADERS: u8 = 1;
/// PRIORITY frame type.
pub const PRIORITY: u8 = 2;
/// `RST_STREAM` frame type.
pub const RST_STREAM: u8 = 3;
/// SETTINGS frame type.
pub const SETTINGS: u8 = 4;
/// `PUSH_PROMISE` frame type.
pub const PUSH_PROMISE: u8 = 5;
/// PING frame type.
pub const PING: u8 = 6;
/// GOAWAY frame type.
pub const GOAWAY: u8 = 7;
/// `WINDOW_UPDATE` frame type.
pub const WINDOW_UPDATE: u8 = 8;
/// CONTINUATION frame type.
pub const CONTINUATION: u8 = 9;
/// `PRIORITY_UPDATE` frame type.
pub const PRIORITY_UPDATE: u8 = 16;

// Flags (RFC 9113, section 6).

/// Flag of DATA and HEADERS: the frame is the last of its stream.
pub const END_STREAM: u8 = 1;
/// Flag of SETTINGS and PING: the frame acknowledges one of the peer's.
pub const ACK: u8 = 1;
/// Flag of HEADERS and CONTINUATION: the frame ends a field section.
pub const END_HEADERS: u8 = 4;
/// Flag of DATA and HEADERS: the payload begins with the length of the padding at its end.
pub const PADDED: u8 = 8;
/// Flag of HEADERS: the payload contains a priority.
pub const PRIORITY_FLAG: u8 = 32;

// Settings (RFC 9113, section 6.5.2).

/// `SETTINGS_HEADER_TABLE_SIZE`.
pub const HEADER_TABLE_SIZE: u16 = 1;
/// `SETTINGS_ENABLE_PUSH`.
pub const ENABLE_PUSH: u16 = 2;
/// `SETTINGS_MAX_CONCURRENT_STREAMS`.
pub const MAX_CONCURRENT_STREAMS: u16 = 3;
/// `SETTINGS_INITIAL_WINDOW_SIZE`.
pub const INITIAL_WINDOW_SIZE: u16 = 4;
/// `SETTINGS_MAX_FRAME_SIZE`.
pub const MAX_FRAME_SIZE: u16 = 5;
/// `SETTINGS_MAX_HEADER_LIST_SIZE`.
pub const MAX_HEADER_LIST_SIZE: u16 = 6;

// Error codes (RFC 9113, section 7).

/// `NO_ERROR`.
pub const NO_ERROR: u32 = 0;
/// `PROTOCOL_ERROR`.
pub const PROTOCOL_ERROR: u32 = 1;
/// `FLOW_CONTROL_ERROR`.
pub const FLOW_CONTROL_ERROR: u32 = 3;
/// `STREAM_CLOSED`.
pub const STREAM_CLOSED: u32 = 5;
/// `FRAME_SIZE_ERROR`.
pub const FRAME_SIZE_ERROR: u32 = 6;
/// `REFUSED_STREAM`.
pub const REFUSED_STREAM: u32 = 7;
/// CANCEL.
pub const CANCEL: u32 = 8;
/// `COMPRESSION_ERROR`.
pub const COMPRESSION_ERROR: u32 = 9;
/// `ENHANCE_YOUR_CALM`.
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The type.
    pub kind: u8,
    /// The flags.
    pub flags: u8,
    /// The stream identifier, or 0 for the connection.
    pub stream: u32,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Removes the first frame from the start of `bytes`. Returns `None` when it is incomplete.
    ///
    /// # Panics
    ///
    /// Panics if the reserved bit is set.
    pub fn parse(bytes: &mut &[u8]) -> Option<Frame> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let (payload, rest) = rest.split_at_checked(payload_length(header))?;
        *bytes = rest;
        Some(Frame::from_parts(header, payload.to_vec()))
    }

    pub(super) fn from_parts(header: &[u8; HEADER_BYTES], payload: Vec<u8>) -> Frame {
        let stream = u32_at(header, 5);
        assert!(stream >> 31 == 0, "the reserved bit is set");
        Frame { kind: header[3], flags: header[4], stream, payload }
    }

    /// Returns `true` if the frame has this flag.
    #[must_use]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the 32-bit number at a position of the payload, such as an error code.
    #[must_use]
    pub fn number(&self, position: usize) -> u32 {
        u32_at(&self.payload, position)
    }
}

/// Returns the length of the payload that a frame header states, in bytes.
pub(super) fn payload_length(header: &[u8; HEADER_BYTES]) -> usize {
    u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize
}

/// Returns `true` if `bytes` can be the start of a frame of this type. Note that they may be cut anywhere.
#[must_use]
pub fn may_begin_frame(bytes: &[u8], kind: u8) -> bool {
    bytes.len() < 4 || bytes[3] == kind
}

/// Encodes a frame.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes SETTINGS with these parameters.
#[must_use]
pub fn settings(parameters: &[(u16, u32)]) -> Vec<u8> {
    let encode = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &parameters.iter().flat_map(encode).collect::<Vec<_>>())
}

/// Encodes HEADERS that contain a whole field block. `flags` is 0 or [`END_STREAM`].
#[must_use]
pub fn headers(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, block)
}

/// Encodes a field block as HEADERS, an empty CONTINUATION, and another CONTINUATION, split at `position` of
/// the block. `flags` is 0 or [`END_STREAM`].
#[must_use]
pub fn split_headers(stream: u32, flags: u8, block: &[u8], position: usize) -> Vec<u8> {
    let (first, rest) = block.split_at(position);
    [
        frame(HEADERS, flags, stream, first),
        frame(CONTINUATION, 0, stream, &[]),
        frame(CONTINUATION, END_HEADERS, stream, rest),
    ]
    .concat()
}

/// Encodes DATA. `flags` is 0 or [`END_STREAM`].
#[must_use]
pub fn data(stream: u32, flags: u8, content: &[u8]) -> Vec<u8> {
    frame(DATA, flags, stream, content)
}

/// Encodes `RST_STREAM` with the error code CANCEL.
#[must_use]
pub fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

/// Encodes `WINDOW_UPDATE`; stream 0 is the connection.
#[must_use]
pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

/// Encodes `PRIORITY_UPDATE` with a priority field value such as `u=1, i`.
#[must_use]
pub fn priority_update(stream: u32, priority: &str) -> Vec<u8> {
    frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], priority.as_bytes()].concat())
}

/// Encodes a field block of literals without indexing and without Huffman code (RFC 7541, section 6.2.2).
#[must_use]
pub fn field_block<N: AsRef<str>>(fields: &[(N, N)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for string in [name.as_ref(), value.as_ref()] {
            push_length(&mut block, string.len());
            block.extend_from_slice(string.as_bytes());
        }
    }
    block
}

/// Appends an integer with a prefix of seven bits (RFC 7541, section 5.1).
fn push_length(block: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(127) else { return block.push(length.to_le_bytes()[0]) };
    block.push(127);
    while rest >= 128 {
        block.push(rest.to_le_bytes()[0] | 128);
        rest >>= 7;
    }
    block.push(rest.to_le_bytes()[0]);
}

/// Returns the big-endian number at a position of `bytes`.
fn u32_at(bytes: &[u8], position: usize) -> u32 {
    u32::from_be_bytes(*bytes[position..].first_chunk().unwrap())
}
