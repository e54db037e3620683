//! An HTTP/2 peer driven by bytes: frames in any order, whole, split or invalid.
//!
//! It checks four promises: the output consists of frames; content never exceeds the peer's windows or
//! follows a stream's end; each request has at most one response; and the connection is silent after its last
//! GOAWAY.

use std::collections::BTreeMap;

use cannery_archive::Extent;
use cannery_site::{Answer, Body, Reason};
use cannery_testkit::Choices;
use cannery_testkit::http2::{
    ACK, CONTINUATION, DATA, Decoder, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADER_TABLE_SIZE, HEADERS,
    INITIAL_WINDOW_SIZE, PING, PREFACE, PRIORITY_UPDATE, RST_STREAM, SETTINGS, WINDOW_UPDATE, data,
    decode_response, field_block, frame, reset, settings, window_update,
};
use cannery_wire::h2::{Connection, ReceivedContent, Step, StreamId};
use cannery_wire::limits::STREAMS_MAX;
use cannery_wire::{
    ArchiveRef, HeadStore, Multiplexed, Output, OwnHead, RequestHead, Response, Resumption, ServerFields,
    StoredRequest,
};

use crate::interop::peers::end::{End, take_bytes};

/// Lengths of requested bodies, in bytes.
const BODIES: [u64; 8] = [0, 1, 13, 8192, 8193, 16_384, 100_000, 1_000_000];

static ARCHIVE: [u8; 1_000_000] = [b'x'; 1_000_000];

/// Runs a peer. Each operation is a byte, followed by its arguments.
pub fn frames(bytes: &[u8]) {
    let mut peer = Peer::new();
    peer.send(&[PREFACE, &settings(&[])].concat());
    let mut choices = Choices::new(bytes);
    while let Some(operation) = choices.operation() {
        if peer.is_over {
            break;
        }
        peer.act(operation, &mut choices);
    }
    peer.fill();
}

/// A stream's window, and the progress of its response.
struct Ledger {
    window: i64,
    has_head: bool,
    has_ended: bool,
}

struct Peer {
    connection: Connection,
    store: HeadStore,
    output: Output,
    fields: ServerFields,
    decoder: Decoder<'static>,
    held: Vec<u8>,
    next_stream: u32,
    streams: BTreeMap<u32, Ledger>,
    window: i64,
    initial_window: i64,
    /// Whether frames with arbitrary meaning were sent, so that windows are no longer counted.
    is_arbitrary: bool,
    is_over: bool,
}

impl Peer {
    fn new() -> Peer {
        let mut connection = Connection::new();
        let mut output = Output::new();
        connection.begin(&mut output);
        Peer {
            connection,
            store: HeadStore::new(),
            output,
            fields: ServerFields::new(&[("X-Frame-Options", "deny")], 0),
            decoder: Decoder::new(),
            held: Vec::new(),
            next_stream: 1,
            streams: BTreeMap::new(),
            window: 65_535,
            initial_window: 65_535,
            is_arbitrary: false,
            is_over: false,
        }
    }

    fn act(&mut self, operation: u8, choices: &mut Choices<'_>) {
        let stream = |choices: &mut Choices<'_>| u32::from(choices.byte()) * 2 + 1;
        match operation % 14 {
            0 | 1 => self.request(true, choices),
            2 => self.request(false, choices),
            3 => {
                let stream = stream(choices);
                let flags = choices.byte() & END_STREAM;
                self.send(&data(stream, flags, choices.bytes()));
            }
            4 => {
                let stream = stream(choices);
                self.send(&reset(stream));
                if let Some(ledger) = self.streams.get_mut(&stream) {
                    ledger.has_ended = true;
                }
            }
            5 => {
                let (stream, bytes) = (stream(choices), choices.number() & 0x7fff_ffff);
                if let Some(ledger) = self.streams.get_mut(&stream) {
                    ledger.window += i64::from(bytes);
                }
                self.send(&window_update(stream, bytes));
            }
            6 => {
                let bytes = choices.number() & 0x7fff_ffff;
                self.window += i64::from(bytes);
                self.send(&window_update(0, bytes));
            }
            7 => {
                let bytes = choices.number() & 0x7fff_ffff;
                for ledger in self.streams.values_mut() {
                    ledger.window += i64::from(bytes) - self.initial_window;
                }
                self.initial_window = bytes.into();
                self.send(&settings(&[(INITIAL_WINDOW_SIZE, bytes)]));
            }
            8 => {
                let table_bytes = choices.number();
                self.send(&settings(&[(HEADER_TABLE_SIZE, table_bytes)]));
            }
            9 => self.send(&frame(PING, choices.byte() & ACK, 0, &[b'p'; 8])),
            10 => {
                let payload = [&stream(choices).to_be_bytes()[..], choices.bytes()].concat();
                self.send(&frame(PRIORITY_UPDATE, 0, 0, &payload));
            }
            11 => self.fill(),
            12 => {
                self.is_arbitrary = true;
                let (kind, flags, stream) = (choices.byte() % 18, choices.byte(), choices.byte().into());
                self.send(&frame(kind, flags, stream, choices.bytes()));
            }
            _ => {
                self.is_arbitrary = true;
                self.send(choices.bytes());
            }
        }
    }

    /// Requests a body, in one frame or two.
    fn request(&mut self, is_last: bool, choices: &mut Choices<'_>) {
        let (body, priority, cut) = (choices.byte(), choices.byte(), choices.byte());
        let path = format!("/{}", BODIES[usize::from(body) % BODIES.len()]);
        let priority = format!("u={}{}", priority % 9, if priority < 128 { ", i" } else { "" });
        let block = field_block(&[
            (":method", if body < 200 { "GET" } else { "HEAD" }),
            (":scheme", "https"),
            (":path", &path),
            (":authority", "h"),
            ("priority", &priority),
        ]);

        let stream = self.next_stream;
        self.next_stream += 2;
        self.streams
            .insert(stream, Ledger { window: self.initial_window, has_head: false, has_ended: false });

        let cut = usize::from(cut).min(block.len());
        let end_stream = if is_last { END_STREAM } else { 0 };
        if cut % 4 == 0 {
            return self.send(&frame(HEADERS, end_stream | END_HEADERS, stream, &block));
        }

        let (begun, rest) = block.split_at(cut);
        self.send(&frame(HEADERS, end_stream, stream, begun));
        self.send(&frame(CONTINUATION, END_HEADERS, stream, rest));
    }

    /// Sends bytes, answers the requests in them, and checks the output.
    fn send(&mut self, bytes: &[u8]) {
        self.receive(bytes);
        assert!(self.held.len() < 16_384 + 9, "{} bytes are kept", self.held.len());
        self.check_output();
    }

    fn answer(&mut self, stream: StreamId) {
        let Peer { connection, store, fields, output, .. } = self;
        let RequestHead { request, method_name, .. } = store.head();
        let length = str::from_utf8(&request.target[1..]).ok().and_then(|text| text.parse().ok());
        let Some(length) = length.filter(|length| *length <= ARCHIVE.len() as u64) else {
            if connection.awaits_content(stream) {
                let request = StoredRequest::new(&store.head());
                return connection.receive_content(stream, request, CONTENT_BYTES_MAX);
            }
            return connection.respond_with_head(
                stream,
                &OwnHead::new(&[(":status", b"404")]),
                b"nothing",
                output,
            );
        };

        let mut answer = Answer::built_in(200, Reason::NotFound);
        answer.content_length = Some(length);
        answer.body =
            if method_name == b"HEAD" { Body::Empty } else { Body::Archive(Extent { position: 0, length }) };
        let archive = ArchiveRef { number: 0, bytes: &ARCHIVE, identity: 1 };
        connection.respond(stream, &Response { answer: &answer, archive, fields }, output);
    }

    /// Writes all bodies that the windows allow.
    fn fill(&mut self) {
        loop {
            self.connection.fill(&mut self.output);
            if self.output.is_empty() {
                return;
            }
            self.check_output();
        }
    }

    /// Checks the frames of the output.
    fn check_output(&mut self) {
        let bytes = take_bytes(&mut self.output, &ARCHIVE);
        let mut rest = bytes.as_slice();
        while let Some(frame) = Frame::parse(&mut rest) {
            assert!(!self.is_over, "GOAWAY with an error is the last frame");
            self.check_frame(&frame);
        }
        assert!(rest.is_empty(), "incomplete frame");
    }

    fn check_frame(&mut self, frame: &Frame) {
        assert!(frame.payload.len() <= 16_384);
        match frame.kind {
            HEADERS => {
                assert!(frame.has(END_HEADERS));
                decode_response(&mut self.decoder, &frame.payload);
                self.check_response(frame);
            }
            DATA => self.check_response(frame),
            RST_STREAM => {
                assert_eq!(frame.payload.len(), 4);
                if let Some(ledger) = self.streams.get_mut(&frame.stream) {
                    ledger.has_ended = true;
                }
            }
            SETTINGS | PING | WINDOW_UPDATE => {}
            GOAWAY => self.is_over = true,
            other => panic!("a frame of type {other}"),
        }
    }

    /// Checks HEADERS or DATA.
    fn check_response(&mut self, frame: &Frame) {
        if self.is_arbitrary {
            return;
        }
        let Peer { streams, window, .. } = self;
        let ledger = streams.get_mut(&frame.stream).expect("a response without a request");
        assert!(!ledger.has_ended, "stream {} has ended", frame.stream);
        assert_eq!(ledger.has_head, frame.kind == DATA, "one head, then content");
        ledger.has_head = true;
        ledger.has_ended = frame.has(END_STREAM);
        if frame.kind == DATA {
            let bytes = frame.payload.len() as i64;
            ledger.window -= bytes;
            *window -= bytes;
            assert!(bytes == 0 || (ledger.window >= 0 && *window >= 0), "content exceeds the window");
        }
        let open = streams.values().filter(|ledger| ledger.has_head && !ledger.has_ended).count();
        assert!(open <= STREAMS_MAX as usize, "{open} streams are open");
    }
}

/// The limit of content that is received, in bytes.
const CONTENT_BYTES_MAX: usize = 1000;

impl End for Peer {
    fn held(&mut self) -> &mut Vec<u8> {
        &mut self.held
    }

    fn read(&mut self, rest: &[u8]) -> (usize, Step) {
        self.connection.next_request(rest, &mut self.store, &mut self.output)
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Request(stream) => self.answer(stream),
            Step::Refused(stream, refusal) => {
                let Peer { connection, store, fields, output, .. } = self;
                let mut answer = Answer::built_in(refusal.status(), Reason::BadRequest);
                if store.head().method_name == b"HEAD" {
                    answer = answer.without_body();
                }

                let response = Response { answer: &answer, archive: ArchiveRef::NONE, fields };
                connection.respond(stream, &response, output);
            }
            Step::Received(stream, received) => {
                let request = self.connection.take_received(stream).expect("it was received");
                assert!(request.content().len() <= CONTENT_BYTES_MAX);

                let status: &[u8] = match received {
                    ReceivedContent::Whole => b"200",
                    ReceivedContent::TooLong => b"413",
                };
                self.connection.postpone(stream);
                assert_eq!(self.connection.resume(stream), Resumption::Ready);

                let fields = [(":status", status)];
                self.connection.respond_with_head(
                    stream,
                    &OwnHead::new(&fields),
                    request.content(),
                    &mut self.output,
                );
                self.connection.settle(stream, &mut self.output);
            }
            Step::Full => self.check_output(),
            Step::More => {}
            Step::End => assert!(self.connection.has_ended() && !self.connection.has_bodies()),
        }
    }
}
