//! HTTP/2 client that shows each frame to the test.
//!
//! We encode fields without Huffman code and tables, and use a library to decode those of the server. Unless a test sets other
//! windows, they are as large as the protocol allows, so that the server never needs to wait.

use std::io::{self, Read, Write};
use std::mem;

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

/// Maximum payload the server may send because the client never allows more (RFC 9113, section 4.2).
const PAYLOAD_BYTES_MAX: usize = 16_384;

/// A request and the progress of its response.
#[derive(Debug)]
pub struct Exchange {
    stream: u32,
    /// Whether the method is HEAD, so that the response has no content.
    is_head: bool,
    progress: Progress,
}

/// The part of a response that has arrived.
#[derive(Debug, Default)]
enum Progress {
    /// No final response.
    #[default]
    Awaited,
    /// The head, and the beginning of the content.
    Partial(Response),
    Complete(Response),
}

impl Exchange {
    /// Creates the exchange of a request with this method that was sent on this stream.
    #[must_use]
    pub fn new(stream: u32, method: &str) -> Exchange {
        Exchange { stream, is_head: method == "HEAD", progress: Progress::Awaited }
    }

    /// Returns `true` if a part of the response has arrived.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        matches!(self.progress, Progress::Partial(_))
    }

    /// Returns the response, or `None` if it is not complete.
    #[must_use]
    pub fn into_response(self) -> Option<Response> {
        match self.progress {
            Progress::Complete(response) => Some(response),
            Progress::Awaited | Progress::Partial(_) => None,
        }
    }

    /// Ends the response and checks the length of its content.
    fn complete(&mut self) {
        let Progress::Partial(response) = mem::take(&mut self.progress) else {
            panic!("the stream ends without a response");
        };
        response.check_length(self.is_head);
        self.progress = Progress::Complete(response);
    }
}

/// The longest payload of a frame, in bytes (RFC 9113, section 4.2).
const PAYLOAD_MAX: usize = 16_384;

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
        // If the preface does not arrive, the next read fails.
        let _ = stream.write_all(PREFACE);
        let mut client = Client { stream, decoder: Decoder::new(), next_stream: 1 };
        client.send_settings(settings);
        client
    }

    /// Sends a request without content and reads its response. Frames of other streams are not expected here.
    ///
    /// # Errors
    ///
    /// Fails if the server ends the stream or the connection first.
    pub fn request<N: AsRef<str>>(&mut self, fields: &[(N, N)]) -> Result<Response, Ended> {
        let id = self.send_request(fields)?;
        let method = fields.iter().find(|(name, _)| name.as_ref() == ":method");
        let response = self.receive(id, method.map_or("GET", |(_, method)| method.as_ref()))?;

        // Restores the connection's window.
        if !response.body.is_empty() {
            self.send_window_update(0, u32::try_from(response.body.len()).unwrap());
        }
        Ok(response)
    }

    /// Sends a request with content as fast as the server's windows allow. Returns its stream, along with the frames on it that
    /// have arrived in the meantime.
    ///
    /// # Errors
    ///
    /// Fails if the server closes the connection.
    pub fn send_request_with_content<N: AsRef<str>>(
        &mut self,
        fields: &[(N, N)],
        content: &[u8],
    ) -> Result<(u32, Vec<Frame>), Ended> {
        let id = self.next_stream;
        self.next_stream += 2;
        self.write(HEADERS, END_HEADERS, id, &field_block(fields))?;

        let mut early = Vec::new();
        let mut windows = [i64::from(INITIAL_WINDOW); 2];
        let mut rest = content;
        while early.is_empty() {
            let room = usize::try_from(windows[0].min(windows[1])).unwrap_or(0).min(PAYLOAD_MAX);
            let (part, after) = rest.split_at(room.min(rest.len()));
            rest = after;
            for window in &mut windows {
                *window -= i64::try_from(part.len()).unwrap();
            }

            let is_last = rest.is_empty();
            if is_last || !part.is_empty() {
                self.write(DATA, if is_last { END_STREAM } else { 0 }, id, part)?;
            }
            if is_last {
                break;
            }

            if part.is_empty() {
                match self.receive_frame()? {
                    frame if frame.kind == WINDOW_UPDATE => {
                        windows[usize::from(frame.stream != 0)] += i64::from(frame.number(0));
                    }
                    frame if frame.stream == id => early.push(frame),
                    _ => {}
                }
            }
        }
        Ok((id, early))
    }

    /// Sends a request without content and returns its stream.
    ///
    /// # Errors
    ///
    /// Fails if the server has closed the connection.
    pub fn send_request<N: AsRef<str>>(&mut self, fields: &[(N, N)]) -> io::Result<u32> {
        let id = self.next_stream;
        self.next_stream += 2;
        self.write(HEADERS, END_STREAM | END_HEADERS, id, &field_block(fields)).map(|()| id)
    }

    /// Sends the head of a request and returns its stream. Content may follow.
    ///
    /// # Errors
    ///
    /// Fails if the server has closed the connection.
    pub fn begin_request<N: AsRef<str>>(&mut self, fields: &[(N, N)]) -> io::Result<u32> {
        let id = self.next_stream;
        self.next_stream += 2;
        self.write(HEADERS, END_HEADERS, id, &field_block(fields)).map(|()| id)
    }

    /// Reads the response on a stream, given the method of the request. Frames of other streams are not expected here.
    ///
    /// # Errors
    ///
    /// Fails if the server ends the stream or the connection first.
    pub fn receive(&mut self, id: u32, method: &str) -> Result<Response, Ended> {
        self.receive_all(&[id], method).map(|mut responses| responses.remove(0))
    }

    /// Reads the responses on these streams in any order, given the method of the requests. Frames of other streams are not
    /// expected here.
    ///
    /// # Errors
    ///
    /// Fails if the server ends one of the streams or the connection first.
    pub fn receive_all(&mut self, ids: &[u32], method: &str) -> Result<Vec<Response>, Ended> {
        let mut exchanges: Vec<_> = ids.iter().map(|id| Exchange::new(*id, method)).collect();
        self.receive_into(&mut exchanges)?;
        Ok(exchanges.into_iter().filter_map(Exchange::into_response).collect())
    }

    /// Reads the responses of these exchanges. If the connection ends early, the exchanges will show what has arrived.
    ///
    /// # Errors
    ///
    /// Fails if the server ends one of the streams or the connection first.
    pub fn receive_into(&mut self, exchanges: &mut [Exchange]) -> Result<(), Ended> {
        let mut missing = exchanges.len();
        while missing > 0 {
            let frame = self.receive_frame()?;
            let place = exchanges.iter().position(|exchange| exchange.stream == frame.stream);
            match frame.kind {
                RST_STREAM if place.is_some() => return Err(Ended::Reset(frame.number(0))),
                // After GOAWAY, the server should still complete streams up to the one given in the frame.
                GOAWAY if exchanges.iter().any(|exchange| exchange.stream > frame.number(0)) => {
                    return Err(Ended::GoneAway(frame.number(4)));
                }
                SETTINGS | PING | WINDOW_UPDATE | GOAWAY => continue,
                _ => {}
            }

            let place = place.unwrap_or_else(|| panic!("a frame of another stream: {frame:?}"));
            let exchange = &mut exchanges[place];
            let is_last = frame.has(END_STREAM);
            exchange.progress = match (frame.kind, mem::take(&mut exchange.progress)) {
                (HEADERS, Progress::Awaited) => {
                    let head = self.decode_head(frame);
                    // Skips interim responses.
                    if head.status >= 200 { Progress::Partial(head) } else { Progress::Awaited }
                }
                (DATA, Progress::Partial(mut response)) => {
                    response.body.extend_from_slice(&frame.payload);
                    Progress::Partial(response)
                }
                (_, progress) => panic!("not a frame of a response: {frame:?} after {progress:?}"),
            };

            if is_last {
                exchange.complete();
                missing -= 1;
            }
        }
        Ok(())
    }

    /// Decodes the field section at the start of a HEADERS frame, reading CONTINUATION frames if necessary.
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

/// Decodes the field block of a response and returns the response without its content.
///
/// # Panics
///
/// Panics if the block is malformed, or if a response must not have these fields.
pub fn decode_response(decoder: &mut Decoder<'_>, block: &[u8]) -> Response {
    let decoded = decoder.decode(block).unwrap_or_else(|error| panic!("{error:?}: {block:02x?}"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Response::from_fields(decoded.into_iter().map(|(name, value)| (text(name), text(value))))
}
