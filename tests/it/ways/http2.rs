//! A small HTTP/2 client (RFC 9113), frame by frame: strict about what it receives, free in what it sends.
//!
//! It spells its fields without Huffman or tables, and reads those of the server by a decoder of other people. Its windows
//! are as large as they can be unless told otherwise, so that the server never waits for it.

use std::fmt;
use std::io::{self, Read, Write};

use loona_hpack::Decoder;

use crate::site::Response;

/// A connection over some stream.
pub(crate) struct Http2<S> {
    stream: S,
    decoder: Decoder<'static>,
    /// The next stream that a request opens.
    next: u32,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The server gave up the stream, with this error code.
    Reset(u32),
    /// It gave up the connection, with this error code, before it looked at the request.
    GoneAway(u32),
    /// It closed the connection.
    Closed(io::Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Reset(code) => write!(f, "the stream was reset with error {code}"),
            Ended::GoneAway(code) => write!(f, "the connection goes away with error {code}"),
            Ended::Closed(error) => write!(f, "the connection is closed: {error}"),
        }
    }
}

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// Types of frames (RFC 9113 §6).
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
/// RFC 9218 §7.1.
pub(crate) const PRIORITY_UPDATE: u8 = 16;

/// The flag of a frame that is the last of its stream; of SETTINGS and PING, that it is an answer to ours.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
/// The flag of a frame with which a field section ends.
pub(crate) const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Settings that a client begins with: no push, and the largest window for each stream.
pub(crate) const OPEN_WINDOWS: [(u16, u32); 2] = [(2, 0), (4, WINDOW_MAX)];
const WINDOW_MAX: u32 = (1 << 31) - 1;
/// What the window of a connection begins with.
const WINDOW_AT_FIRST: u32 = 65_535;

impl<S: Read + Write> Http2<S> {
    /// Begins a connection with windows that are never in the way.
    pub(crate) fn begin(stream: S) -> Http2<S> {
        let mut connection = Http2::begin_with(stream, &OPEN_WINDOWS);
        connection.send_window(0, WINDOW_MAX - WINDOW_AT_FIRST);
        connection
    }

    /// Begins a connection with these settings.
    pub(crate) fn begin_with(mut stream: S, settings: &[(u16, u32)]) -> Http2<S> {
        // Whether the preface arrived is seen by what the server sends.
        let _ = stream.write_all(PREFACE);
        let mut connection = Http2 { stream, decoder: Decoder::new(), next: 1 };
        connection.send_settings(settings);
        connection
    }

    /// Sends a request without content, and reads its answer, and nothing of other streams.
    pub(crate) fn ask<N: AsRef<str>>(&mut self, fields: &[(N, N)]) -> Result<Response, Ended> {
        let id = self.request(fields).map_err(Ended::Closed)?;
        let head_only = fields.iter().any(|(_, value)| value.as_ref() == "HEAD");
        let answer = self.answer(id, head_only)?;
        // What was taken out of the connection's window is put back.
        if !answer.body.is_empty() {
            self.send_window(0, u32::try_from(answer.body.len()).unwrap());
        }
        Ok(answer)
    }

    /// Sends a request without content, and gives its stream.
    pub(crate) fn request<N: AsRef<str>>(&mut self, fields: &[(N, N)]) -> io::Result<u32> {
        let id = self.next;
        self.next += 2;
        self.write(HEADERS, END_STREAM | END_HEADERS, id, &field_block(fields)).map(|()| id)
    }

    /// Reads the answer on a stream. Frames of other streams must not come meanwhile.
    pub(crate) fn answer(&mut self, id: u32, head_only: bool) -> Result<Response, Ended> {
        self.answers(&[id], head_only).map(|mut answers| answers.remove(0))
    }

    /// Reads the responses on these streams, in whichever order they arrive, and no frame of another.
    pub(crate) fn answers(&mut self, ids: &[u32], head_only: bool) -> Result<Vec<Response>, Ended> {
        let streams: Vec<_> = ids.iter().map(|id| (*id, head_only)).collect();
        let mut responses = vec![None; ids.len()];
        self.receive_all(&streams, &mut responses)?;
        Ok(responses.into_iter().flatten().map(|(response, _)| response).collect())
    }

    /// Reads the responses on these streams, each with whether it answers a `HEAD` request. Fills in each response that
    /// has begun, with whether it is complete, so that the caller sees how far they came if the connection ends.
    pub(crate) fn receive_all(
        &mut self,
        streams: &[(u32, bool)],
        responses: &mut [Option<(Response, bool)>],
    ) -> Result<(), Ended> {
        let mut missing = streams.len();
        while missing > 0 {
            let frame = self.receive()?;
            let place = streams.iter().position(|(id, _)| *id == frame.stream);
            match frame.kind {
                RST_STREAM if place.is_some() => return Err(Ended::Reset(number_at(&frame.payload, 0))),
                // A connection that is going away still gives the responses that it has begun.
                GOAWAY if streams.iter().any(|(id, _)| *id > number_at(&frame.payload, 0)) => {
                    return Err(Ended::GoneAway(number_at(&frame.payload, 4)));
                }
                SETTINGS | PING | WINDOW_UPDATE | GOAWAY => continue,
                _ => {}
            }

            let place = place.unwrap_or_else(|| panic!("a frame of another stream: {frame:?}"));
            let is_last = frame.flags & END_STREAM != 0;
            match (frame.kind, &mut responses[place]) {
                (HEADERS, response @ None) => {
                    let head = self.head(frame);
                    // A final response follows an interim one.
                    *response = (head.status >= 200).then_some((head, false));
                }
                (DATA, Some((response, false))) => response.body.extend_from_slice(&frame.payload),
                _ => panic!("not a frame of a response: {frame:?}"),
            }
            if is_last {
                let (response, is_complete) =
                    responses[place].as_mut().expect("a stream ends with a response");
                check_length(response, streams[place].1);
                *is_complete = true;
                missing -= 1;
            }
        }
        Ok(())
    }

    /// The status and fields that a HEADERS frame begins, with the CONTINUATION frames behind it.
    pub(crate) fn head(&mut self, first: Frame) -> Response {
        let mut block = first.payload;
        let mut is_whole = first.flags & END_HEADERS != 0;
        while !is_whole {
            let frame = self.receive().expect("a field section goes on");
            assert_eq!((frame.kind, frame.stream), (CONTINUATION, first.stream), "it is one piece");
            block.extend_from_slice(&frame.payload);
            is_whole = frame.flags & END_HEADERS != 0;
        }
        let decoded = self.decoder.decode(&block).unwrap_or_else(|error| panic!("{error:?}: {block:02x?}"));
        let mut fields = decoded
            .into_iter()
            .map(|(name, value)| (String::from_utf8(name).unwrap(), String::from_utf8(value).unwrap()));
        let (name, status) = fields.next().expect("there is a status");
        assert_eq!(name, ":status", "it comes first");
        let fields: Vec<_> = fields.collect();
        for (name, value) in &fields {
            assert!(is_sendable(name, value), "{name}: {value}");
        }
        Response { status: status.parse().unwrap(), fields, body: Vec::new() }
    }

    /// The next frame. SETTINGS and PING are answered at once.
    pub(crate) fn receive(&mut self) -> Result<Frame, Ended> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).map_err(Ended::Closed)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        assert!(length <= 16_384, "nobody allowed a frame of {length} bytes");
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).map_err(Ended::Closed)?;
        let stream = number_at(&head, 5);
        assert!(stream >> 31 == 0, "the reserved bit is not set");
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        assert!(frame.kind != PUSH_PROMISE && frame.kind <= CONTINUATION, "nobody asked for {frame:?}");
        if matches!(frame.kind, SETTINGS | PING) && frame.flags & ACK == 0 {
            let echoed = if frame.kind == PING { frame.payload.as_slice() } else { &[] };
            // Who has gone meanwhile needs no answer.
            let _ = self.write(frame.kind, ACK, 0, echoed);
        }
        Ok(frame)
    }

    /// The decoder of what the server sends, whose table is as large as our settings let it be.
    pub(crate) fn decoder(&mut self) -> &mut Decoder<'static> {
        &mut self.decoder
    }

    /// Sends settings of ours.
    pub(crate) fn send_settings(&mut self, settings: &[(u16, u32)]) {
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| name.to_be_bytes().into_iter().chain(value.to_be_bytes()))
            .collect();
        self.send(SETTINGS, 0, 0, &payload);
    }

    /// Opens a window further; stream 0 is the connection.
    pub(crate) fn send_window(&mut self, stream: u32, by: u32) {
        self.send(WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
    }

    /// Sends any frame at all.
    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        // Whether it arrived is seen by what comes back.
        let _ = self.write(kind, flags, stream, payload);
    }

    fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).and_then(|()| self.stream.flush())
    }
}

/// Fields as literals that go into no table (RFC 7541 §6.2.2).
pub(crate) fn field_block<N: AsRef<str>>(fields: &[(N, N)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for string in [name, value] {
            put_length(&mut block, string.as_ref().len());
            block.extend_from_slice(string.as_ref().as_bytes());
        }
    }
    block
}

/// A length in the low seven bits, and further octets where it is longer (RFC 7541 §5.1).
fn put_length(block: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(127) else { return block.push(length.to_le_bytes()[0]) };
    block.push(127);
    while rest >= 128 {
        block.push(rest.to_le_bytes()[0] | 128);
        rest >>= 7;
    }
    block.push(rest.to_le_bytes()[0]);
}

/// Whether a field may stand in an answer of HTTP/2 (RFC 9113 §8.2).
fn is_sendable(name: &str, value: &str) -> bool {
    const OF_HTTP1: [&str; 5] =
        ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    let is_name = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'z') || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_name) && !OF_HTTP1.contains(&name) && value == value.trim()
}

fn check_length(answer: &Response, head_only: bool) {
    if head_only || matches!(answer.status, 204 | 304) {
        assert!(answer.body.is_empty(), "content where there must be none: {answer:?}");
        return;
    }
    let length = answer.field("content-length").expect("a length is always stated");
    assert_eq!(length, answer.body.len().to_string(), "the length is not that of the content");
}

/// The number in the four octets at a place.
pub(crate) fn number_at(bytes: &[u8], place: usize) -> u32 {
    u32::from_be_bytes(*bytes[place..].first_chunk().unwrap())
}
