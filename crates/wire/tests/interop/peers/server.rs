//! The `h2` crate's server gets the same bytes as ours. Both of them should find the same requests and the same errors.
//!
//! After each frame, we compare the verdicts of both servers. If they differ, [`DIFFERENCES`] must have a reason that allows both
//! of them. The run ends then, since the servers will be in different states. We do not compare priorities and the order of
//! content.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use cannery_testkit::Choices;
use cannery_testkit::http2::{
    ACK, COMPRESSION_ERROR as COMPRESSION, CONTINUATION, DATA, ENABLE_PUSH, END_HEADERS, END_STREAM,
    FLOW_CONTROL_ERROR as FLOW_CONTROL, FRAME_SIZE_ERROR as FRAME_SIZE, Frame, GOAWAY, HEADER_TABLE_SIZE,
    HEADERS, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE, NO_ERROR,
    PADDED, PING, PREFACE, PRIORITY, PRIORITY_FLAG, PROTOCOL_ERROR as PROTOCOL, PUSH_PROMISE, RST_STREAM,
    SETTINGS, STREAM_CLOSED, WINDOW_UPDATE, field_block, frame, settings, window_update,
};
use h2::RecvStream;
use h2::server::{Builder, Connection};
use http::Response;

use super::ours::{CONTENT, Ours};
use super::pipe::{End, Queues, pipe};

/// Verdict of a server about a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// No error.
    Fine,
    /// A request was refused with this status.
    Refused(u16),
    /// A stream error with this code.
    Reset(u32),
    /// A connection error with this code.
    Away(u32),
}
use Verdict::{Away, Fine, Refused, Reset};

/// The state of a stream before a frame arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Idle, skipped, or not a stream clients can have.
    Idle,
    /// Open, so there may be more content.
    Open,
    /// Ended by the peer.
    Ended,
    /// Reset by either side.
    Reset,
}
use Before::{Ended, Idle, Open};

/// An allowed difference: frame types, states of the stream, our verdict, the other server's verdict, and the reason. Unless
/// mentioned otherwise, sections are from RFC 9113.
type Difference = (&'static [u8], &'static [Before], Verdict, Verdict, &'static str);

/// Any state.
const ANY: &[Before] = &[Idle, Open, Ended, Before::Reset];
/// The peer is not allowed to send more frames.
const CLOSED: &[Before] = &[Ended, Before::Reset];
/// Frame types of header blocks.
const BLOCKS: &[u8] = &[HEADERS, CONTINUATION];
/// Frame types that have a fixed or minimum size.
const SIZED: &[u8] =
    &[DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, PRIORITY];

const DIFFERENCES: &[Difference] = &[
    (SIZED, ANY, Away(FRAME_SIZE), Away(PROTOCOL), "§4.2: the other has one code for all errors of a frame"),
    (&[PRIORITY], ANY, Reset(FRAME_SIZE), Away(PROTOCOL), "§6.3: such a size ends the stream"),
    (
        &[SETTINGS],
        ANY,
        Away(FLOW_CONTROL),
        Away(PROTOCOL),
        "§6.5.2: a window that is too large has its own code",
    ),
    (
        &[SETTINGS],
        ANY,
        Away(FLOW_CONTROL),
        Fine,
        "§6.5.3: values are applied one by one, and the other takes the last",
    ),
    (
        BLOCKS,
        ANY,
        Away(COMPRESSION),
        Away(PROTOCOL),
        "§4.3: the other has one code for all errors of a block",
    ),
    (BLOCKS, ANY, Reset(PROTOCOL), Away(PROTOCOL), "§8.1.1: a malformed request ends its stream"),
    (
        BLOCKS,
        ANY,
        Refused(400),
        Fine,
        "RFC 9110 §7.2: a request without a host is refused; the other leaves that to the application",
    ),
    (&[PUSH_PROMISE], ANY, Away(PROTOCOL), Fine, "§8.4: a client cannot push"),
    (&[WINDOW_UPDATE], ANY, Reset(PROTOCOL), Away(PROTOCOL), "§6.9: an increment of zero is a stream error"),
    (
        &[WINDOW_UPDATE],
        &[Open],
        Reset(FLOW_CONTROL),
        Fine,
        "§6.9.1: a window that is too large, even without content to send",
    ),
    (&[GOAWAY], ANY, Fine, Away(NO_ERROR), "§6.8: no streams are open, and the other closes, too"),
    (&[GOAWAY], ANY, Fine, Away(PROTOCOL), "§6.8: a last stream that increases, which we ignore"),
    (
        &[DATA],
        &[Open],
        Reset(NO_ERROR),
        Fine,
        "§8.1: content that fills its window after a complete response is reset",
    ),
    (&[DATA], &[Before::Reset], Reset(STREAM_CLOSED), Fine, "§5.1: frames after a reset may be ignored"),
    (&[HEADERS], &[Before::Reset], Away(STREAM_CLOSED), Fine, "§5.1: frames after a reset may be ignored"),
    (&[DATA], &[Before::Reset], Fine, Reset(STREAM_CLOSED), "§5.1: the other forgets resets sooner"),
    (&[HEADERS], &[Before::Reset], Fine, Away(PROTOCOL), "§5.1: the other forgets resets sooner"),
    (&[PRIORITY], &[Before::Reset], Reset(PROTOCOL), Fine, "§5.1: frames after a reset may be ignored"),
    (&[PRIORITY], &[Idle], Away(PROTOCOL), Reset(PROTOCOL), "§6.4: an idle stream must not be reset"),
    (&[DATA], &[Ended], Reset(STREAM_CLOSED), Away(PROTOCOL), "§5.1: half-closed (remote)"),
    (&[HEADERS], &[Ended], Reset(STREAM_CLOSED), Away(PROTOCOL), "§5.1: half-closed (remote)"),
    (&[HEADERS], CLOSED, Away(STREAM_CLOSED), Away(PROTOCOL), "§5.1: closed"),
    (
        &[HEADERS],
        &[Idle],
        Away(STREAM_CLOSED),
        Away(PROTOCOL),
        "§5.1.1: skipped streams are remembered among the last 64",
    ),
    (
        &[CONTINUATION],
        &[Open, Ended],
        Reset(PROTOCOL),
        Fine,
        "§8.1.1: the other checks each frame of a block separately",
    ),
    (&[HEADERS], &[Before::Reset], Away(PROTOCOL), Fine, "§5.1.1: its ID was skipped"),
    (
        BLOCKS,
        &[Open],
        Reset(PROTOCOL),
        Fine,
        "§8.1.1: trailers end less content than announced; the other checks this at DATA",
    ),
];

/// Runs both servers. For each operation, there is a byte, and then come its arguments.
pub fn server(data: &[u8]) {
    let mut choices = Choices::new(data);
    let mut both = Both::begin();
    while let Some(operation) = choices.operation() {
        let bytes = both.next(operation, &mut choices);
        if both.compare(&bytes).is_break() {
            return;
        }
    }
}

/// Both servers, and the state of the peer they share.
struct Both {
    ours: Ours,
    theirs: Theirs,
    next_stream: u32,
    /// The stream of an incomplete header block, and the bytes that are left of it.
    unfinished: Option<(u32, Vec<u8>)>,
    /// For each stream that was opened, its state.
    before: BTreeMap<u32, Before>,
}

impl Both {
    fn begin() -> Both {
        let (mut ours, mut theirs) = (Ours::new(), Theirs::new());
        // The connection's window should never close, because each server can choose freely which stream uses it first.
        let begin = [PREFACE, &settings(&[]), &window_update(0, 1_000_000_000)].concat();
        ours.receive(&begin);
        ours.take_written();
        theirs.receive(&begin);
        Both { ours, theirs, next_stream: 1, unfinished: None, before: BTreeMap::new() }
    }

    /// Returns the next frames.
    fn next(&mut self, operation: u8, choices: &mut Choices<'_>) -> Vec<u8> {
        if let Some((stream, rest)) = self.unfinished.take() {
            if !operation.is_multiple_of(16) {
                return self.continuation(stream, &rest, choices);
            }
            self.unfinished = Some((stream, rest));
        }

        let stream = self.stream(choices);
        // Before the first request, nearly all frames are connection errors.
        if self.next_stream == 1 && operation < 240 {
            return self.request(operation & END_STREAM, choices);
        }

        match operation % 32 {
            0..=5 => self.request(END_STREAM, choices),
            6..=9 => self.request(0, choices),
            10..=13 => {
                let length = choices.one_of(&[0, 1, 100, 5_000, 16_383, 16_384]);
                let flags = if choices.once_in(3) { END_STREAM } else { 0 };
                frame(DATA, flags, stream, &CONTENT[..length])
            }
            14 => {
                let padding = choices.byte();
                let payload = [&[padding], &CONTENT[..choices.one_of(&[0, 1, 10, 300])]].concat();
                frame(DATA, PADDED | choices.byte() & END_STREAM, stream, &payload)
            }
            15 => frame(HEADERS, END_STREAM | END_HEADERS, stream, &field_block(&[("x-end", "1")])),
            16 | 17 => frame(RST_STREAM, 0, stream, &choices.number().to_be_bytes()),
            18..=20 => {
                let increment = if choices.once_in(12) {
                    choices.one_of(&[0, 0x7fff_ffff, 0x8000_0001])
                } else {
                    choices.one_of(&[1, 1_000, 100_000])
                };
                window_update(if choices.once_in(4) { 0 } else { stream }, increment)
            }
            21 | 22 => {
                let common: [(u16, u32); 9] = [
                    (INITIAL_WINDOW_SIZE, 0),
                    (INITIAL_WINDOW_SIZE, 100),
                    (INITIAL_WINDOW_SIZE, 65_535),
                    (INITIAL_WINDOW_SIZE, 1_000_000),
                    (HEADER_TABLE_SIZE, choices.number() & 0xffff),
                    (ENABLE_PUSH, (choices.byte() & 1).into()),
                    (MAX_CONCURRENT_STREAMS, choices.number()),
                    (MAX_FRAME_SIZE, 16_384 + (choices.number() & 0xffff)),
                    (MAX_HEADER_LIST_SIZE, choices.number()),
                ];
                let others: [(u16, u32); 5] = [
                    (INITIAL_WINDOW_SIZE, 0x7fff_ffff),
                    (INITIAL_WINDOW_SIZE, 0x8000_0000),
                    (ENABLE_PUSH, choices.byte().into()),
                    (MAX_FRAME_SIZE, choices.number() & 0x1ff_ffff),
                    (u16::from(choices.byte()) + 10, choices.number()),
                ];
                let mut one =
                    || if choices.once_in(12) { choices.one_of(&others) } else { choices.one_of(&common) };
                settings(&[one(), one()])
            }
            23 => frame(PING, choices.byte() & ACK, 0, &[choices.byte(); 8]),
            24 => frame(PRIORITY, 0, stream, &[0, 0, 0, choices.byte() & 7, 1]),
            25 if choices.once_in(16) => {
                frame(GOAWAY, 0, 0, &[&choices.number().to_be_bytes()[..], &[0; 4], choices.bytes()].concat())
            }
            25 | 26 => frame(choices.byte() | 32, choices.byte(), stream, choices.bytes()),
            27 | 28 => self.malformed_request(choices),
            29 if choices.once_in(3) => {
                // A frame that has any type and size.
                let (kind, flags) = (choices.byte() % 11, choices.byte());
                let stream = if choices.once_in(3) { 0 } else { stream };
                frame(kind, flags, stream, choices.bytes())
            }
            30 if choices.once_in(8) => frame(DATA, 0, stream, &CONTENT[..16_385]),
            _ => self.request(END_STREAM, choices),
        }
    }

    /// Returns a stream, which can be an old one, a new one, or an invalid one.
    fn stream(&self, choices: &mut Choices<'_>) -> u32 {
        let (place, kind) = (u32::from(choices.byte()), choices.byte());
        match kind {
            0..=3 => place,
            4..=140 => self.next_stream.saturating_sub(2 + 2 * (place % 4)).max(1),
            _ => place % (self.next_stream / 2 + 1) * 2 + 1,
        }
    }

    /// Returns a request for a body. It may have several frames.
    fn request(&mut self, flags: u8, choices: &mut Choices<'_>) -> Vec<u8> {
        let length = choices.one_of(&[0, 0, 1, 13, 8_192, 8_193, 65_535, 65_536, 100_000]);
        let path = format!("/{length}");
        let content_length = choices.one_of(&["0", "1", "100", "5000", "no", "no", "no"]);
        let mut fields =
            vec![(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", &path)];
        if content_length != "no" {
            fields.push(("content-length", content_length));
        }
        self.open(flags, &field_block(&fields), choices)
    }

    /// Returns a request that is probably malformed (RFC 9113 §8.2, §8.3).
    fn malformed_request(&mut self, choices: &mut Choices<'_>) -> Vec<u8> {
        let mut fields =
            vec![(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/13")];

        let invalid = [
            ("connection", "close"),
            ("te", "gzip"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            (":path", "/"),
            (":status", "200"),
            (":unknown", "1"),
            ("content-length", "x"),
            ("cookie", "a=b"),
            ("upgrade", "h2c"),
        ];

        match choices.byte() % 4 {
            0 => _ = fields.remove(usize::from(choices.byte() % 4)),
            1 => fields.insert(usize::from(choices.byte() % 5), choices.one_of(&invalid)),
            2 => fields.push(choices.one_of(&invalid)),
            _ => fields[3].1 = choices.one_of(&["", "*", "no/slash", "/a b", "/?q"]),
        }

        self.open(choices.byte() & END_STREAM, &field_block(&fields), choices)
    }

    fn open(&mut self, flags: u8, block: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
        let stream = self.next_stream;
        self.next_stream += choices.one_of(&[2, 2, 2, 2, 2, 4, 8]);
        match choices.byte() % 8 {
            0 => {
                let (begun, rest) = block.split_at(usize::from(choices.byte()).min(block.len()));
                self.unfinished = Some((stream, rest.to_vec()));
                frame(HEADERS, flags, stream, begun)
            }
            1 => {
                // Add padding, and a priority as in RFC 7540.
                let [p0, p1, p2, p3] = u32::from(choices.byte() & 7).to_be_bytes();
                let payload = [&[2, p0, p1, p2, p3, 9], block, &[0, 0]].concat();
                frame(HEADERS, flags | END_HEADERS | PADDED | PRIORITY_FLAG, stream, &payload)
            }
            _ => frame(HEADERS, flags | END_HEADERS, stream, block),
        }
    }

    /// Returns the next frame of an incomplete header block.
    fn continuation(&mut self, stream: u32, rest: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
        let length = usize::from(choices.byte());
        if choices.once_in(2) && length < rest.len() {
            let (fragment, after) = rest.split_at(length);
            self.unfinished = Some((stream, after.to_vec()));
            return frame(CONTINUATION, 0, stream, fragment);
        }
        frame(CONTINUATION, END_HEADERS, stream, rest)
    }

    /// Sends bytes to both servers and compares their verdicts. Breaks if this should be the end of the run.
    fn compare(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let (kind, flags) = (bytes[3], bytes[4]);
        let stream = u32::from_be_bytes(*bytes[5..].first_chunk().expect("it has a head")) & 0x7fff_ffff;
        let before = self.before.get(&stream).copied().unwrap_or(Idle);
        let (ours, theirs) = (self.ours_of(bytes), self.theirs.receive(bytes));
        let theirs = verdict_in(&theirs);
        let is_whole = !matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION) || flags & END_HEADERS != 0;

        if ours != theirs && is_whole {
            let is_permitted = DIFFERENCES.iter().any(|(kinds, befores, our, their, _)| {
                kinds.contains(&kind) && befores.contains(&before) && (*our, *their) == (ours, theirs)
            });
            assert!(
                is_permitted,
                "{ours:?}, and the other {theirs:?}, of {before:?} {:x?}",
                &bytes[..bytes.len().min(64)]
            );
        }

        self.remember(kind, flags, stream, ours);
        // The other server also checks incomplete blocks. We only check complete ones.
        let agree = ours == theirs || matches!((ours, theirs), (Refused(_), Fine));
        let ends = matches!(ours, Away(_)) || self.theirs.is_over;
        if agree && !ends {
            let (ours, theirs) = (self.ours.answered.keys(), self.theirs.requests.keys());
            assert!(ours.eq(theirs), "different streams were answered: {:x?}", &bytes[..bytes.len().min(64)]);
        }

        // After a GOAWAY, the other server closes as soon as possible, whereas ours stays open until the peer closes.
        if agree && !ends && kind != GOAWAY { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn ours_of(&mut self, bytes: &[u8]) -> Verdict {
        self.ours.wait();
        let answered = self.ours.answered.len();
        self.ours.receive(bytes);
        self.ours.fill_all();
        let verdict = verdict_in(&self.ours.take_written());
        match self.ours.answered.last_key_value() {
            Some((_, status)) if self.ours.answered.len() > answered && !matches!(status, 200 | 404) => {
                Refused(*status)
            }
            _ => verdict,
        }
    }

    fn remember(&mut self, kind: u8, flags: u8, stream: u32, verdict: Verdict) {
        let is_new = kind == HEADERS && stream % 2 == 1 && !self.before.keys().any(|old| *old >= stream);
        if is_new {
            self.before.insert(stream, Open);
            self.next_stream = self.next_stream.max(stream.saturating_add(2));
        }
        if matches!(verdict, Reset(_)) {
            self.before.insert(stream, Before::Reset);
        }
        let Some(before) = self.before.get_mut(&stream) else { return };
        if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 && *before == Open {
            *before = Ended;
        }
        if kind == RST_STREAM {
            *before = Before::Reset;
        }
    }
}

/// Returns a server's verdict: the first error in the frames that the server writes.
fn verdict_in(written: &[u8]) -> Verdict {
    let mut rest = written;
    while let Some(frame) = Frame::parse(&mut rest) {
        match frame.kind {
            RST_STREAM => return Reset(frame.number(0)),
            GOAWAY => return Away(frame.number(4)),
            _ => {}
        }
    }
    Fine
}

/// The `h2` crate's server. It has the same responses as ours.
struct Theirs {
    connection: Connection<End, &'static [u8]>,
    queues: Rc<RefCell<Queues>>,
    /// Accepted requests. Some of their content can still be missing.
    requests: BTreeMap<u32, Option<RecvStream>>,
    is_over: bool,
}

impl Theirs {
    fn new() -> Theirs {
        let (end, queues) = pipe();
        queues.borrow_mut().to_peer.extend_from_slice(PREFACE);
        let mut builder = Builder::new();
        builder
            .max_concurrent_streams(128)
            .max_header_list_size(16_384)
            .initial_connection_window_size(0x7fff_ffff)
            // We do not test its limits against abuse.
            .max_local_error_reset_streams(None)
            .max_pending_accept_reset_streams(1_000_000)
            .data_frame_budget(usize::MAX / 2);
        let mut handshake = Box::pin(builder.handshake(end));
        let Poll::Ready(hands) = handshake.as_mut().poll(&mut context()) else {
            panic!("the preface has arrived")
        };
        let connection = hands.expect("the preface is valid");
        Theirs { connection, queues, requests: BTreeMap::new(), is_over: false }
    }

    /// Receives bytes and answers all requests. Returns the bytes the server writes.
    fn receive(&mut self, bytes: &[u8]) -> Vec<u8> {
        let bytes =
            if self.requests.is_empty() { bytes.strip_prefix(PREFACE).unwrap_or(bytes) } else { bytes };

        self.queues.borrow_mut().to_peer.extend_from_slice(bytes);
        while !self.is_over {
            match self.connection.poll_accept(&mut context()) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok((request, mut respond)))) => {
                    let stream = respond.stream_id().as_u32();
                    let length: usize = request.uri().path()[1..].parse().unwrap_or(0);
                    let response = Response::builder().status(200).body(()).expect("it is a response");
                    if let Ok(mut body) = respond.send_response(response, length == 0)
                        && length > 0
                    {
                        _ = body.send_data(&CONTENT[..length], true);
                    }
                    let content = request.into_body();
                    self.requests.insert(stream, Some(content).filter(|content| !content.is_end_stream()));
                }
                Poll::Ready(_) => self.is_over = true,
            }
        }

        for content in self.requests.values_mut() {
            // Discarded, so there will be no window update.
            while let Some(body) = content
                && let Poll::Ready(piece) = body.poll_data(&mut context())
            {
                if !matches!(piece, Some(Ok(_))) {
                    *content = None;
                }
            }
        }

        if !self.is_over {
            self.is_over = self.connection.poll_closed(&mut context()).is_ready();
        }
        std::mem::take(&mut self.queues.borrow_mut().from_peer)
    }
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}
