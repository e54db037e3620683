//! An HTTP/3 client driven by bytes: streams in any order, whole, split, ended or reset.
//!
//! It checks four promises: the outcome of a request doesn't depend on how its stream is split; each request has one response
//! of complete frames, with fields that a decoder of QPACK gets; after the server's last GOAWAY no request is answered; and the
//! memory of a connection is bounded.

use std::time::Instant;

use cannery_testkit::Choices;
use cannery_wire::h3::{Connection, ErrorCode, RequestEnd, Step, StreamId};
use cannery_wire::hpack::Field;
use cannery_wire::limits::{CONTROL_FRAME_BYTES_MAX, FIELD_SECTION_BYTES_MAX};
use cannery_wire::qpack::{Decoder, put_field};
use cannery_wire::{HeadStore, Multiplexed, Output, OwnHead, Refusal, StoredRequest};

use crate::interop::peers::end::take_bytes;

// Types of frames (RFC 9114 §7.2).
const DATA: u64 = 0;
const HEADERS: u64 = 1;

/// The distance between the IDs of request streams.
const STEP: u64 = 4;

/// Streams that QUIC allows at once.
const STREAMS_MAX: u64 = 100;

/// Runs a client. Each operation is a byte, followed by its arguments.
pub fn streams(bytes: &[u8]) {
    let mut sides = [Side::new(usize::MAX), Side::new(1)];
    let mut choices = Choices::new(bytes);
    let mut next_stream = 0;
    let mut next_unidirectional = 2;
    while let Some(operation) = choices.operation() {
        let stream = u64::from(choices.byte()) * STEP;
        let action = match operation % 8 {
            0 | 1 if next_stream / STEP < STREAMS_MAX => {
                next_stream += STEP;
                Action::Open(next_stream - STEP, request(&mut choices))
            }
            2 if next_unidirectional / STEP < STREAMS_MAX => {
                next_unidirectional += STEP;
                Action::SendUnidirectional(next_unidirectional - STEP, choices.bytes())
            }
            3 if stream < next_unidirectional => Action::SendUnidirectional(stream + 2, choices.bytes()),
            4 if stream < next_stream => Action::Send(stream, choices.bytes()),
            5 if stream < next_stream => Action::End(stream),
            6 if stream < next_stream => Action::Reset(stream),
            7 => Action::StopRequests,
            _ => continue,
        };

        let [whole, pieced] = sides.each_mut().map(|side| side.act(&action));
        assert_eq!(whole, pieced, "{action:?}");
        if whole.is_err() {
            return;
        }
    }
}

/// An action of a client, or of the server that shuts down.
#[derive(Debug)]
enum Action<'a> {
    Open(u64, Vec<u8>),
    Send(u64, &'a [u8]),
    SendUnidirectional(u64, &'a [u8]),
    End(u64),
    Reset(u64),
    StopRequests,
}

/// Returns the bytes of a request, which may be malformed.
fn request(choices: &mut Choices<'_>) -> Vec<u8> {
    let method = choices.one_of(&["GET", "HEAD", "POST", ""]);
    let mut section = vec![0, 0];
    for (name, value) in [(":method", method), (":scheme", "https"), (":path", "/"), (":authority", "h")] {
        put_field(&mut section, name, value.as_bytes());
    }
    section.extend_from_slice(choices.bytes());
    let mut bytes = frame(HEADERS, &section);
    if choices.once_in(3) {
        bytes.extend(frame(DATA, choices.bytes()));
    }
    bytes
}

/// Returns a frame with a payload of less than 16,384 bytes.
fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("a short payload") | 0x4000;
    [&[kind.to_le_bytes()[0]], &length.to_be_bytes()[..], payload].concat()
}

/// A server, and the decoder of its client.
struct Side {
    connection: Connection,
    store: HeadStore,
    output: Output,
    decoder: Decoder,
    /// The length of the pieces in which streams arrive.
    piece: usize,
    has_stopped_requests: bool,
    first_unanswered: u64,
}

/// The limit of content that is received, in bytes.
const CONTENT_BYTES_MAX: usize = 1000;

impl Side {
    fn new(piece: usize) -> Side {
        Side {
            connection: Connection::new(),
            store: HeadStore::new(),
            output: Output::new(),
            decoder: Decoder::new(),
            piece,
            has_stopped_requests: false,
            first_unanswered: 0,
        }
    }

    /// Performs an action, and returns the steps that it causes.
    fn act(&mut self, action: &Action<'_>) -> Result<Vec<Step>, ErrorCode> {
        let steps = match action {
            Action::Open(stream, bytes) => {
                self.connection.open(StreamId::new(*stream), Instant::now());
                self.first_unanswered =
                    if self.has_stopped_requests { self.first_unanswered } else { stream + STEP };
                self.read(*stream, bytes)?
            }
            Action::Send(stream, bytes) => self.read(*stream, bytes)?,
            Action::SendUnidirectional(stream, bytes) => {
                // Budgets count the pieces.
                let stream = StreamId::new(*stream);
                self.connection.read_unidirectional(stream, bytes, &mut self.store)?;
                Vec::new()
            }
            Action::End(stream) => match self.connection.end_request(StreamId::new(*stream))? {
                RequestEnd::Complete => Vec::new(),
                RequestEnd::Received => {
                    let received = self.connection.take_received(StreamId::new(*stream));
                    assert!(received.expect("it was received").content().len() <= CONTENT_BYTES_MAX);
                    self.answer(*stream, b"200");
                    Vec::new()
                }
                RequestEnd::Reset(code) => vec![Step::Reset(code)],
            },
            Action::Reset(stream) => {
                self.connection.cancel_request(StreamId::new(*stream))?;
                Vec::new()
            }
            Action::StopRequests => {
                self.has_stopped_requests = true;
                self.connection.stop_requests(&mut Vec::new());
                Vec::new()
            }
        };

        let _ = self.connection.take_priorities().count();
        let _ = self.connection.take_decoder_stream();
        let bound = (FIELD_SECTION_BYTES_MAX + CONTROL_FRAME_BYTES_MAX + 1024) * 101;
        let memory = self.connection.memory();
        assert!((memory as u64) < bound, "{memory} bytes");
        Ok(steps)
    }

    /// Reads bytes of a request stream, and answers the request.
    fn read(&mut self, stream: u64, bytes: &[u8]) -> Result<Vec<Step>, ErrorCode> {
        let mut steps = Vec::new();
        for mut piece in bytes.chunks(self.piece) {
            loop {
                let step =
                    self.connection.next_request(StreamId::new(stream), &mut piece, &mut self.store)?;
                match step {
                    Step::More => break,
                    Step::Request(_) if stream % (2 * STEP) == STEP => {
                        let request = StoredRequest::new(&self.store.head());
                        let stream = StreamId::new(stream);
                        self.connection.receive_content(stream, request, CONTENT_BYTES_MAX);
                    }
                    Step::Request(_) => self.answer(stream, b"200"),
                    Step::TooLong => {
                        assert!(self.connection.take_received(StreamId::new(stream)).is_some());
                        self.answer(stream, b"413");
                    }
                    Step::Refused(_, Refusal::HeadTooLarge) => self.answer(stream, b"431"),
                    Step::Refused(..) => self.answer(stream, b"400"),
                    Step::Stop | Step::Reset(_) => {}
                }
                steps.push(step);
            }
        }
        Ok(steps)
    }

    fn answer(&mut self, stream: u64, status: &[u8]) {
        assert!(stream < self.first_unanswered, "a response after GOAWAY");
        let fields: [(&str, &[u8]); 2] = [(":status", status), ("content-type", b"text/plain")];
        self.connection.respond_with_head(
            StreamId::new(stream),
            &OwnHead::new(&fields),
            b"body",
            &mut self.output,
        );
        let instructions = self.connection.take_encoder_stream();
        self.decoder.read_encoder_stream(&instructions, &mut Vec::new()).expect("our instructions are valid");

        let bytes = take_bytes(&mut self.output, &[]);
        let (section, content) = split_frame(&bytes, HEADERS);
        let mut first = None;
        let decoded = self.decoder.decode(section, &mut Vec::new(), |field: Field<'_>| {
            first.get_or_insert_with(|| field.value.to_vec());
        });
        assert!(decoded.is_ok() && first.as_deref() == Some(status), "{section:x?}");
        if !content.is_empty() {
            assert_eq!(split_frame(content, DATA), (b"body".as_slice(), b"".as_slice()));
        }
    }
}

/// Splits a frame of this type from what follows it.
fn split_frame(bytes: &[u8], kind: u64) -> (&[u8], &[u8]) {
    assert_eq!(u64::from(bytes[0]), kind);
    let (length, start) = match bytes[1] >> 6 {
        0 => (usize::from(bytes[1]), 2),
        1 => (usize::from(u16::from_be_bytes([bytes[1] & 0x3f, bytes[2]])), 3),
        _ => panic!("a short frame: {bytes:x?}"),
    };
    bytes[start..].split_at(length)
}
