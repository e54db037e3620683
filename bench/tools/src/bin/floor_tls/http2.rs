//! HTTP/2 without HPACK, streams and flow control: counts requests, and writes prepared frames (RFC 9113).
//!
//! The client must send each request in one HEADERS frame, and open windows that no response exhausts.

use crate::Refusal;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_BYTES: usize = 9;
/// The place of the stream's number in a frame header.
const STREAM: usize = 5;

// Frame types.
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;

const ACK: u8 = 1;

/// The frames of a response, with the places of the stream's number in them.
pub(crate) struct Frames {
    bytes: Vec<u8>,
    streams: Vec<usize>,
}

impl Frames {
    /// Finds the frames in these bytes.
    pub(crate) fn new(bytes: &[u8]) -> Option<Frames> {
        let mut streams = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            streams.push(at + STREAM);
            at += HEADER_BYTES + payload_length(bytes.get(at..at + HEADER_BYTES)?);
        }
        (at == bytes.len()).then(|| Frames { bytes: bytes.to_vec(), streams })
    }
}

/// State of a connection over HTTP/2.
#[derive(Default)]
pub(crate) struct Http2 {
    /// The beginning of a frame, whose end is in another record.
    partial: Vec<u8>,
    has_preface: bool,
    has_answered: bool,
}

impl Http2 {
    /// Reads frames. Appends a response to each request: the first of `responses` to a connection's first request, and the last to
    /// each other, whose field section refers to the table that the first has filled.
    pub(crate) fn receive(
        &mut self,
        content: &[u8],
        responses: &[Frames],
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let joined;
        let mut unread = if self.partial.is_empty() {
            content
        } else {
            joined = [&self.partial, content].concat();
            self.partial.clear();
            &joined
        };

        if !self.has_preface {
            let Some(rest) = unread.strip_prefix(PREFACE) else {
                let is_possible = PREFACE.starts_with(unread);
                self.partial.extend_from_slice(unread);
                return if is_possible { Ok(()) } else { Err("not HTTP/2") };
            };
            self.has_preface = true;
            unread = rest;
            // SETTINGS without a single one.
            output.extend_from_slice(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]);
        }

        while let Some((header, rest)) = unread.split_first_chunk::<HEADER_BYTES>()
            && let Some((payload, rest)) = rest.split_at_checked(payload_length(header))
        {
            unread = rest;
            let [.., kind, flags, _, _, _, _] = *header;
            match kind {
                HEADERS => {
                    let response = if self.has_answered { responses.last() } else { responses.first() };
                    let response = response.ok_or("no responses")?;
                    self.has_answered = true;
                    let start = output.len();
                    output.extend_from_slice(&response.bytes);
                    for place in &response.streams {
                        output[start + place..][..4].copy_from_slice(&header[STREAM..]);
                    }
                }
                SETTINGS if flags & ACK == 0 => {
                    output.extend_from_slice(&[0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0]);
                }
                PING if flags & ACK == 0 => {
                    output.extend_from_slice(&[0, 0, 8, PING, ACK, 0, 0, 0, 0]);
                    output.extend_from_slice(payload);
                }
                _ => {}
            }
        }
        self.partial.extend_from_slice(unread);
        Ok(())
    }
}

/// Returns the length of the payload of a frame.
fn payload_length(header: &[u8]) -> usize {
    header[..3].iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
}
