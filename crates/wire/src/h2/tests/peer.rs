//! A peer in memory that sends frames, answers requests and parses the responses.
//!
//! The response is `N` bytes of an archive for `/N`, `N` bytes of text for `/text/N`, and a 404 for any other path. Note that the
//! peer only checks the syntax of frames.

use cannery_archive::Extent;
use cannery_site::{Answer, Body, Fields, Method, Reason};
use cannery_testkit::http2::{
    self, ACK, CONTINUATION, DATA, Decoder, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, decode_response, field_block, frame, settings,
};

use crate::ground::archive_ref::ArchiveRef;
use crate::h2::{Connection, ReceivedContent, Step, StreamId};
use crate::request::head_store::HeadStore;
use crate::request::refusal::Refusal;
use crate::request::stored::StoredRequest;
use crate::response::Response;
use crate::response::multiplexed::{Multiplexed, OwnHead};
use crate::response::output::{Output, Segment};
use crate::response::server_fields::ServerFields;

/// Maximum payload that the connection may send. Our peers never allow more (RFC 9113 §4.2).
const PAYLOAD_BYTES_MAX: usize = 16_384;

/// A frame from the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// The stream, `:status`, and whether this is the end of the stream.
    Headers(u32, u16, bool),
    Data(u32, Content, bool),
    Reset(u32, u32),
    Settings,
    SettingsAck,
    Ping(Vec<u8>),
    PingAck(Vec<u8>),
    GoAway(u32, u32),
    WindowUpdate(u32, u32),
}

/// The content of a DATA frame.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Content(pub(super) Vec<u8>);

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Maximum length of the content of a request for `/received`, in bytes.
pub(super) const RECEIVED_BYTES_MAX: usize = 200_000;

pub(super) struct Peer {
    pub(super) connection: Connection,
    pub(super) store: HeadStore,
    pub(super) output: Output,
    fields: ServerFields,
    archive: Vec<u8>,
    decoder: Decoder<'static>,
    /// Input that the connection has not read yet.
    held: Vec<u8>,
    /// Requests that were refused, in order.
    pub(super) refused: Vec<(u32, Refusal)>,
    /// Requests for `/later`. They have not been answered yet.
    pub(super) postponed: Vec<StreamId>,
    /// The targets of all requests, in order.
    pub(super) targets: Vec<String>,
    /// Whether we write bodies.
    pub(super) fills: bool,
}

impl Peer {
    /// Creates a new connection.
    pub(super) fn silent() -> Peer {
        let archive = (0..4_000_000_u32)
            .map(|position| position.to_be_bytes()[3] ^ position.to_be_bytes()[2])
            .collect();
        Peer {
            connection: Connection::new(),
            store: HeadStore::new(),
            output: Output::new(),
            fields: ServerFields::new(&[], 0),
            archive,
            decoder: Decoder::new(),
            held: Vec::new(),
            refused: Vec::new(),
            postponed: Vec::new(),
            targets: Vec::new(),
            fills: true,
        }
    }

    /// Creates a connection that has already exchanged prefaces and settings.
    pub(super) fn open() -> Peer {
        let mut peer = Peer::silent();
        peer.connection.begin(&mut peer.output);
        let frames = peer.send(&[PREFACE, &settings(&[])].concat());
        assert_eq!(frames, [Frame::Settings, Frame::SettingsAck]);
        peer
    }

    /// Sends bytes. Returns the frames that the connection writes.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Vec<Frame> {
        let mut input = std::mem::take(&mut self.held);
        input.extend_from_slice(bytes);
        let mut used = 0;
        let mut frames = Vec::new();

        loop {
            let (more, step) =
                self.connection.next_request(&input[used..], &mut self.store, &mut self.output);
            used += more;
            match step {
                Step::Request(stream) => self.answer(stream),
                Step::Refused(stream, refusal) => {
                    self.refused.push((stream.number(), refusal));
                    let mut answer = Answer::built_in(refusal.status(), Reason::BadRequest);
                    if self.store.head().request.method == Method::Head {
                        answer = answer.without_body();
                    }
                    let Peer { connection, fields, output, .. } = self;
                    let response = Response { answer: &answer, archive: ArchiveRef::NONE, fields };
                    connection.respond(stream, &response, output);
                }
                Step::Received(stream, received) => {
                    let request = self.connection.take_received(stream).expect("it was received");
                    let status: &[u8] = if received == ReceivedContent::Whole { b"200" } else { b"413" };
                    let (fields, content) = ([(":status", status)], request.content());
                    self.connection.respond_with_head(
                        stream,
                        &OwnHead::new(&fields),
                        content,
                        &mut self.output,
                    );
                    self.connection.settle(stream, &mut self.output);
                }
                Step::Full => frames.extend(self.take_output()),
                Step::More | Step::End => break,
            }
        }

        self.held = input.split_off(used);
        frames.extend(self.drain());
        frames
    }

    /// Answers each request in `input` with 13 bytes and discards the response. Returns the number of requests. This must not
    /// allocate.
    pub(super) fn answer_all(&mut self, input: &[u8]) -> usize {
        let mut used = 0;
        let mut count = 0;
        loop {
            let (more, step) =
                self.connection.next_request(&input[used..], &mut self.store, &mut self.output);
            used += more;
            let Step::Request(stream) = step else { break };
            assert_eq!(self.store.head().request.target, b"/13");
            let answer = found(13);
            let archive = ArchiveRef { number: 7, bytes: &self.archive, identity: 1 };
            let response = Response { answer: &answer, archive, fields: &self.fields };
            self.connection.respond(stream, &response, &mut self.output);
            count += 1;
        }
        assert!(!self.connection.has_bodies());
        self.output.clear();
        count
    }

    /// Returns all frames of the output, and of all bodies that the windows allow.
    pub(super) fn drain(&mut self) -> Vec<Frame> {
        let mut frames = self.take_output();
        while self.fills {
            self.connection.fill(&mut self.output);
            if self.output.is_empty() {
                break;
            }
            frames.extend(self.take_output());
        }
        frames
    }

    fn answer(&mut self, stream: StreamId) {
        let Peer { connection, store, fields, archive, output, .. } = self;
        let head = store.head();
        let target = String::from_utf8_lossy(head.request.target).into_owned();
        let is_head = head.method_name == b"HEAD";

        if target == "/received" {
            connection.receive_content(stream, StoredRequest::new(&head), RECEIVED_BYTES_MAX);
        } else if target == "/later" {
            connection.postpone(stream);
            self.postponed.push(stream);
        } else if let Some(length) = target.strip_prefix("/text/").and_then(|length| length.parse().ok()) {
            let body: Vec<u8> = archive[..length].to_vec();
            connection.respond_with_head(stream, &OwnHead::new(&[(":status", b"200")]), &body, output);
        } else if let Some(length) = target.strip_prefix('/').and_then(|length| length.parse().ok()) {
            let mut answer = found(length);
            if is_head {
                answer = answer.without_body();
            }
            let archive = ArchiveRef { number: 7, bytes: archive, identity: 1 };
            connection.respond(stream, &Response { answer: &answer, archive, fields }, output);
        } else {
            let mut answer = Answer::built_in(404, Reason::NotFound);
            if is_head {
                answer = answer.without_body();
            }
            let response = Response { answer: &answer, archive: ArchiveRef::NONE, fields };
            connection.respond(stream, &response, output);
        }

        self.targets.push(target);
    }

    /// Parses the output and clears it. Returns its frames.
    fn take_output(&mut self) -> Vec<Frame> {
        let mut bytes = Vec::new();
        let (mut own, segments) = self.output.parts();
        for segment in segments {
            match segment {
                Segment::Inline(length) => {
                    bytes.extend_from_slice(&own[..*length]);
                    own = &own[*length..];
                }
                Segment::Archive(7, Extent { position, length }) => {
                    let [start, length] = [*position, *length].map(|number| usize::try_from(number).unwrap());
                    bytes.extend_from_slice(&self.archive[start..][..length]);
                }
                Segment::Archive(..) => panic!("{segment:?}: no archive has this number"),
            }
        }
        self.output.clear();

        let mut frames = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some(frame) = http2::Frame::parse(&mut rest) {
            frames.push(self.read(&frame));
        }
        assert!(rest.is_empty(), "incomplete frame");
        frames
    }

    fn read(&mut self, frame: &http2::Frame) -> Frame {
        assert!(frame.payload.len() <= PAYLOAD_BYTES_MAX);
        match frame.kind {
            HEADERS => {
                assert!(frame.has(END_HEADERS));
                let response = decode_response(&mut self.decoder, &frame.payload);
                Frame::Headers(frame.stream, response.status, frame.has(END_STREAM))
            }
            DATA => Frame::Data(frame.stream, Content(frame.payload.clone()), frame.has(END_STREAM)),
            RST_STREAM => Frame::Reset(frame.stream, frame.number(0)),
            SETTINGS if frame.has(ACK) => Frame::SettingsAck,
            SETTINGS => Frame::Settings,
            PING if frame.has(ACK) => Frame::PingAck(frame.payload.clone()),
            PING => Frame::Ping(frame.payload.clone()),
            GOAWAY => Frame::GoAway(frame.number(0), frame.number(4)),
            WINDOW_UPDATE => Frame::WindowUpdate(frame.stream, frame.number(0)),
            other => panic!("a frame of type {other}"),
        }
    }

    /// Returns the start of the archive. Each body has the same bytes.
    pub(super) fn body(&self, bytes: usize) -> &[u8] {
        &self.archive[..bytes]
    }
}

/// Returns an answer. Its body is this many bytes of the archive.
fn found(length: u64) -> Answer<'static> {
    let mut answer = Answer::built_in(200, Reason::NotFound);
    answer.fields = Fields::BuiltIn { page: None, complete_length: None };
    answer.body = Body::Archive(Extent { position: 0, length });
    answer.content_length = Some(length);
    answer
}

/// Returns the fields of a request for `path`.
pub(super) fn request<'a>(path: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let pseudo = [(":method", "GET"), (":scheme", "https"), (":path", path), (":authority", "a.example")];
    [&pseudo, more].concat()
}

/// Encodes the HEADERS of a request that does not have content.
pub(super) fn get(stream: u32, path: &str) -> Vec<u8> {
    last_headers(stream, &request(path, &[]))
}

/// Encodes the HEADERS of a request that has content.
pub(super) fn post(stream: u32, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = request(path, more);
    fields[0].1 = "POST";
    http2::headers(stream, 0, &field_block(&fields))
}

/// Encodes HEADERS that end the stream.
pub(super) fn last_headers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    http2::headers(stream, END_STREAM, &field_block(fields))
}

/// Encodes a field block that ends the stream, in frames with up to `bytes` bytes of payload.
pub(super) fn in_frames(stream: u32, block: &[u8], bytes: usize) -> Vec<u8> {
    let count = block.len().div_ceil(bytes);
    let frames = block.chunks(bytes).enumerate().flat_map(|(number, part)| {
        let (kind, first) = if number == 0 { (HEADERS, END_STREAM) } else { (CONTINUATION, 0) };
        let last = if number + 1 == count { END_HEADERS } else { 0 };
        frame(kind, first | last, stream, part)
    });
    frames.collect()
}
