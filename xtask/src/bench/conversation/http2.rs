//! HTTP/2 as a client that asks for one thing at a time (RFC 9113), without windows to wait for: it offers all that the
//! protocol can count. Its heads use no table and no Huffman code, so that they say nothing about the server's decoder.

use std::io::{self, BufReader, Read, Write};

use loona_hpack::Decoder;

use super::Line;
use crate::bench::answer::Answer;

/// A connection after its preface.
pub(super) struct Http2 {
    line: BufReader<Line>,
    decoder: Decoder<'static>,
    /// The stream of the last question.
    stream: u32,
}

/// A frame as it came.
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEAD_BYTES: usize = 9;

/// Kinds of frames (RFC 9113 §6).
mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PING: u8 = 6;
    pub(super) const GOAWAY: u8 = 7;
    pub(super) const WINDOW_UPDATE: u8 = 8;
    pub(super) const CONTINUATION: u8 = 9;
}

const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The largest window (RFC 9113 §6.9.1), and what a connection has of it at first.
const WINDOW_MAX: u32 = (1 << 31) - 1;
const WINDOW_AT_FIRST: u32 = 65_535;

impl Http2 {
    pub(super) fn open(line: BufReader<Line>) -> io::Result<Http2> {
        const ENABLE_PUSH: u16 = 2;
        const INITIAL_WINDOW_SIZE: u16 = 4;
        let mut settings = Vec::new();
        for (setting, value) in [(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, WINDOW_MAX)] {
            settings.extend(setting.to_be_bytes());
            settings.extend(u32::to_be_bytes(value));
        }
        let mut opening = PREFACE.to_vec();
        put_frame(&mut opening, kind::SETTINGS, 0, 0, &settings);
        let more = (WINDOW_MAX - WINDOW_AT_FIRST).to_be_bytes();
        put_frame(&mut opening, kind::WINDOW_UPDATE, 0, 0, &more);
        let mut http2 = Http2 { line, decoder: Decoder::new(), stream: 0 };
        http2.line.get_mut().write_all(&opening)?;
        Ok(http2)
    }

    /// Asks, with the fields of a whole head.
    pub(super) fn send(&mut self, fields: &[(String, String)]) -> io::Result<()> {
        // The first stream of a client is 1, and all of them are odd.
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        let mut frame = Vec::new();
        put_frame(&mut frame, kind::HEADERS, END_STREAM | END_HEADERS, self.stream, &block(fields));
        self.line.get_mut().write_all(&frame)
    }

    /// The answer to the last question.
    pub(super) fn receive(&mut self) -> io::Result<Answer> {
        let (mut block, mut content, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        let mut fields = Vec::new();
        let mut ends = false;
        while !ends || fields.is_empty() {
            let frame = self.read_frame()?;
            if frame.stream != self.stream {
                self.keep_house(&frame)?;
                continue;
            }
            match frame.kind {
                kind::HEADERS => {
                    block.extend_from_slice(frame.without_padding()?);
                    ends |= frame.flags & END_STREAM != 0;
                }
                kind::CONTINUATION => block.extend_from_slice(&frame.payload),
                kind::DATA => {
                    content.extend_from_slice(frame.without_padding()?);
                    ends |= frame.flags & END_STREAM != 0;
                }
                kind::RST_STREAM => return Err(wrong(&format!("the stream was reset: {:?}", frame.payload))),
                _ => continue,
            }
            put_frame(&mut raw, frame.kind, frame.flags, frame.stream, &frame.payload);
            if matches!(frame.kind, kind::HEADERS | kind::CONTINUATION) && frame.flags & END_HEADERS != 0 {
                let decoded = self.decoder.decode(&block).map_err(|error| wrong(&format!("{error:?}")))?;
                fields.extend(decoded.into_iter().map(|(name, value)| (text(&name), text(&value))));
            }
        }
        let status =
            fields.iter().find(|(name, _)| name == ":status").and_then(|(_, value)| value.parse().ok());
        let status = status.ok_or_else(|| wrong("no status"))?;
        Ok(Answer::new(status, fields, content, raw, block.len()))
    }

    /// What concerns the connection and not an answer.
    fn keep_house(&mut self, frame: &Frame) -> io::Result<()> {
        let mut reply = Vec::new();
        match frame.kind {
            kind::SETTINGS if frame.flags & ACK == 0 => put_frame(&mut reply, kind::SETTINGS, ACK, 0, &[]),
            kind::PING if frame.flags & ACK == 0 => put_frame(&mut reply, kind::PING, ACK, 0, &frame.payload),
            kind::GOAWAY => return Err(wrong(&format!("the connection was ended: {:?}", frame.payload))),
            _ => return Ok(()),
        }
        self.line.get_mut().write_all(&reply)
    }

    fn read_frame(&mut self) -> io::Result<Frame> {
        let mut head = [0; HEAD_BYTES];
        self.line.read_exact(&mut head)?;
        let [high, middle, low, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)];
        self.line.read_exact(&mut payload)?;
        Ok(Frame { kind, flags, stream: u32::from_be_bytes(stream) & WINDOW_MAX, payload })
    }
}

impl Frame {
    /// The payload without padding, and without the fields that RFC 9113 §5.3.2 does away with.
    fn without_padding(&self) -> io::Result<&[u8]> {
        const PRIORITY_BYTES: usize = 5;
        let mut rest = self.payload.as_slice();
        if self.flags & PADDED != 0 {
            let (padding, after) = rest.split_first().ok_or_else(|| wrong("no length of padding"))?;
            let kept = after.len().checked_sub((*padding).into()).ok_or_else(|| wrong("too much padding"))?;
            rest = &after[..kept];
        }
        if self.kind == kind::HEADERS && self.flags & PRIORITY != 0 {
            rest = rest.get(PRIORITY_BYTES..).ok_or_else(|| wrong("no priority"))?;
        }
        Ok(rest)
    }
}

/// Adds a frame.
fn put_frame(to: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a frame is short").to_be_bytes();
    to.extend_from_slice(&length[1..]);
    to.extend([kind, flags]);
    to.extend(stream.to_be_bytes());
    to.extend_from_slice(payload);
}

/// A block of literals that are not to be put into any table, with new names (RFC 7541 §6.2.2).
fn block(fields: &[(String, String)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            put_length(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// A length with a prefix of seven bits (RFC 7541 §5.1).
fn put_length(block: &mut Vec<u8>, length: usize) {
    const PREFIX_MAX: usize = 0x7f;
    let low = |value: usize| value.to_le_bytes()[0];
    if length < PREFIX_MAX {
        return block.push(low(length));
    }
    block.push(low(PREFIX_MAX));
    let mut rest = length - PREFIX_MAX;
    while rest >= 0x80 {
        block.push(low(rest) | 0x80);
        rest >>= 7;
    }
    block.push(low(rest));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_back_by_a_decoder() {
        let fields = [(":path", "/"), ("cookie", &"c".repeat(300))];
        let owned = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let decoded = Decoder::new().decode(&block(&owned)).unwrap();
        assert_eq!(decoded, fields.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn padding_and_priority_are_no_part_of_a_block() {
        let frame =
            |flags, payload: &[u8]| Frame { kind: kind::HEADERS, flags, stream: 1, payload: payload.into() };
        assert_eq!(frame(0, b"ab").without_padding().unwrap(), b"ab");
        assert_eq!(frame(PADDED, b"\x02ab..").without_padding().unwrap(), b"ab");
        assert_eq!(frame(PADDED | PRIORITY, b"\x01ppppPab.").without_padding().unwrap(), b"ab");
        assert!(frame(PADDED, b"\x09ab").without_padding().is_err());
        assert!(frame(PRIORITY, b"abc").without_padding().is_err());
    }
}
