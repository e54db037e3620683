//! HTTP/2 client that shows each frame to the test.
//!
//! It encodes fields without Huffman code and tables, and decodes those of the server with a library. Its windows are as
//! large as the protocol allows unless a test sets others, so the server never waits for it.

use std::io::{self, Read, Write};

use loona_hpack::Decoder;

use super::frame::{
    ACK, CONTINUATION, DATA, ENABLE_PUSH, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS,
    INITIAL_WINDOW_SIZE, PING, PREFACE, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, field_block,
    frame, payload_length, settings,
};
use crate::{Ended, Response};

/// Settings without push and with the largest window for each stream.
pub const OPEN_WINDOWS: [(u16, u32); 2] = [(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, WINDOW_MAX)];

/// The largest window (RFC 9113, section 6.9.1), in bytes.
const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The window of a new connection (RFC 9113, section 6.9.2), in bytes.
const INITIAL_WINDOW: u32 = 65_535;

/// The largest payload that the server may send: the client never allows more (RFC 9113, section 4.2).
const PAYLOAD_BYTES_MAX: usize = 16_384;

/// A connection over any stream.
pub struct Client<S> {
    stream: S,
    decoder: Decoder<'static>,
    /// The next stream that a request opens.
    next_stream: u32,
}

impl<S: Read + Write> Client<S> {
    /// Begins a connection with windows that the server cannot exhaust.
    pub fn new(stream: S) -> Client<S> {
        let mut client = Client::with_settings(stream, &OPEN_WINDOWS);
        client.send_window_update(0, WINDOW_MAX - INITIAL_WINDOW);
        client
    }

    /// Begins a connection with these settings.
    pub fn with_settings(mut stream: S, settings: &[(u16, u32)]) -> Client<S> {
        // If the preface doesn't arrive, the next read fails.
        let _ = stream.write_all(PREFACE);
        let mut client = Client { stream, decoder: Decoder::new(), next_stream: 1 };
        client.send_settings(settings);
        client
    }

    /// Sends a request without content and reads its response. No frame of another stream may arrive.
    ///
    /// # Errors
    ///
    /// Fails if the server ends the stream or the connection first.
    pub fn request<N: AsRef<str>>(&mut self, fields: &[(N, N)]) -> Result<Response, Ended> {
        let id = self.send_request(fields)?;
        let is_head = fields.iter().any(|(_, value)| value.as_ref() == "HEAD");
        let response = self.receive(id, is_head)?;

        // Restores the connection's window.
        if !response.body.is_empty() {
            self.send_window_update(0, u32::try_from(response.body.len()).unwrap());
        }
        Ok(response)
    }

    /// Sends a request without content. Returns its stream.
    ///
    /// # Errors
    ///
    /// Fails if the server has closed the connection.
    pub fn send_request<N: AsRef<str>>(&mut self, fields: &[(N, N)]) -> io::Result<u32> {
        let id = self.next_stream;
        self.next_stream += 2;
        self.write(HEADERS, END_STREAM | END_HEADERS, id, &field_block(fields)).map(|()| id)
    }

    /// Reads the response on a stream. No frame of another stream may arrive.
    ///
    /// # Errors
    ///
    /// Fails if the server ends the stream or the connection first.
    pub fn receive(&mut self, id: u32, is_head: bool) -> Result<Response, Ended> {
        self.receive_all(&[id], is_head).map(|mut responses| responses.remove(0))
    }

    /// Reads the responses on these streams, in any order. No frame of another stream may arrive.
    ///
    /// # Errors
    ///
    /// Fails if the server ends one of the streams or the connection first.
    pub fn receive_all(&mut self, ids: &[u32], is_head: bool) -> Result<Vec<Response>, Ended> {
        let streams: Vec<_> = ids.iter().map(|id| (*id, is_head)).collect();
        let mut responses = vec![None; ids.len()];
        self.receive_into(&streams, &mut responses)?;
        Ok(responses.into_iter().flatten().map(|(response, _)| response).collect())
    }

    /// Reads the responses on these streams. Each stream has a flag that is `true` if the request was HEAD, and a place in
    /// `responses` for the response with a flag that is `true` once it is complete: if the connection ends early, the
    /// caller sees how much has arrived.
    ///
    /// # Errors
    ///
    /// Fails if the server ends one of the streams or the connection first.
    pub fn receive_into(
        &mut self,
        streams: &[(u32, bool)],
        responses: &mut [Option<(Response, bool)>],
    ) -> Result<(), Ended> {
        let mut missing = streams.len();
        while missing > 0 {
            let frame = self.receive_frame()?;
            let place = streams.iter().position(|(id, _)| *id == frame.stream);
            match frame.kind {
                RST_STREAM if place.is_some() => return Err(Ended::Reset(frame.number(0))),
                // After GOAWAY the server still completes streams up to the one that the frame names.
                GOAWAY if streams.iter().any(|(id, _)| *id > frame.number(0)) => {
                    return Err(Ended::GoneAway(frame.number(4)));
                }
                SETTINGS | PING | WINDOW_UPDATE | GOAWAY => continue,
                _ => {}
            }

            let place = place.unwrap_or_else(|| panic!("a frame of another stream: {frame:?}"));
            let is_last = frame.has(END_STREAM);
            match (frame.kind, &mut responses[place]) {
                (HEADERS, response @ None) => {
                    let head = self.decode_head(frame);
                    // Skips interim responses.
                    *response = (head.status >= 200).then_some((head, false));
                }
                (DATA, Some((response, false))) => response.body.extend_from_slice(&frame.payload),
                _ => panic!("not a frame of a response: {frame:?}"),
            }
            if is_last {
                let (response, is_complete) =
                    responses[place].as_mut().expect("a response precedes the end of its stream");
                check_length(response, streams[place].1);
                *is_complete = true;
                missing -= 1;
            }
        }
        Ok(())
    }

    /// Decodes the field section that a HEADERS frame begins, and reads the CONTINUATION frames that follow it.
    pub fn decode_head(&mut self, first: Frame) -> Response {
        let Frame { mut payload, stream, .. } = first;
        let mut is_complete = first.flags & END_HEADERS != 0;
        while !is_complete {
            let frame = self.receive_frame().expect("CONTINUATION follows");
            assert_eq!((frame.kind, frame.stream), (CONTINUATION, stream), "no other frame may intervene");
            is_complete = frame.has(END_HEADERS);
            payload.extend_from_slice(&frame.payload);
        }

        decode_response(&mut self.decoder, &payload)
    }

    /// Reads the next frame. Acknowledges SETTINGS and PING.
    ///
    /// # Errors
    ///
    /// Fails if the server closes the connection.
    pub fn receive_frame(&mut self) -> Result<Frame, Ended> {
        let mut header = [0; 9];
        self.stream.read_exact(&mut header)?;
        let length = payload_length(&header);
        assert!(length <= PAYLOAD_BYTES_MAX, "a frame of {length} bytes exceeds SETTINGS_MAX_FRAME_SIZE");
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload)?;

        let frame = Frame::from_parts(&header, payload);
        assert!(frame.kind != PUSH_PROMISE && frame.kind <= CONTINUATION, "an unexpected type: {frame:?}");
        if matches!(frame.kind, SETTINGS | PING) && !frame.has(ACK) {
            let payload = if frame.kind == PING { frame.payload.as_slice() } else { &[] };
            // The server may have closed the connection by now.
            let _ = self.write(frame.kind, ACK, 0, payload);
        }
        Ok(frame)
    }

    /// Returns the decoder of the server's field sections. The client's settings limit its table.
    pub fn decoder(&mut self) -> &mut Decoder<'static> {
        &mut self.decoder
    }

    /// Sends SETTINGS.
    pub fn send_settings(&mut self, parameters: &[(u16, u32)]) {
        self.send_bytes(&settings(parameters));
    }

    /// Sends `WINDOW_UPDATE`; stream 0 is the connection.
    pub fn send_window_update(&mut self, stream: u32, increment: u32) {
        self.send_frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
    }

    /// Sends a frame of any kind.
    pub fn send_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        // If it doesn't arrive, the next read fails.
        let _ = self.write(kind, flags, stream, payload);
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }

    fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&frame(kind, flags, stream, payload)).and_then(|()| self.stream.flush())
    }
}

/// Decodes the field block of a response, and returns the response without its content.
///
/// # Panics
///
/// Panics if the block is malformed, or if a response must not have these fields.
pub fn decode_response(decoder: &mut Decoder<'_>, block: &[u8]) -> Response {
    let decoded = decoder.decode(block).unwrap_or_else(|error| panic!("{error:?}: {block:02x?}"));
    let mut fields = decoded
        .into_iter()
        .map(|(name, value)| (String::from_utf8(name).unwrap(), String::from_utf8(value).unwrap()));

    let (name, status) = fields.next().expect("a response has a status");
    assert_eq!(name, ":status", "pseudo-header fields come first");
    let fields: Vec<_> = fields.collect();
    for (name, value) in &fields {
        assert!(is_valid_field(name, value), "{name}: {value}");
    }
    Response { status: status.parse().unwrap(), fields, body: Vec::new() }
}

/// Returns `true` if a response may have this field (RFC 9113, section 8.2).
fn is_valid_field(name: &str, value: &str) -> bool {
    const CONNECTION_SPECIFIC: [&str; 5] =
        ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    let is_token = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'z') || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_token) && !CONNECTION_SPECIFIC.contains(&name);
    is_name && value == value.trim()
}

/// Panics unless the content has the length that the response states, or none where it must have none.
fn check_length(response: &Response, is_head: bool) {
    if is_head || matches!(response.status, 204 | 304) {
        assert!(response.body.is_empty(), "content in a response without content: {response:?}");
        return;
    }
    let length = response.field("content-length").expect("content-length is always sent");
    assert_eq!(length, response.body.len().to_string(), "content-length is not the content's length");
}
