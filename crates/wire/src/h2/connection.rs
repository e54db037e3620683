//! State machine of one HTTP/2 connection, driven by the peer's frames (RFC 9113 §5, §6).
//!
//! Header blocks, request content, requests that are answered later and stream IDs have modules of their own below. Frames
//! about the connection or about streams as such are in `control.rs`, responses in `respond.rs`. A stream exists only while
//! it waits for something.

mod header_blocks;
mod postponed;
mod request_content;
mod stream_ids;

use std::time::Instant;

use self::header_blocks::HeaderBlock;
use super::body::Body;
use super::error::{ErrorCode, Fault};
use super::flow::{INITIAL_WINDOW_BYTES, Window};
use super::frame::{self, FrameHead, HEAD_BYTES, PAYLOAD_BYTES_MAX, PREFACE, flag, kind};
use super::settings;
use super::stream::{Content, Stream, Streams};
use crate::abuse::Budget;
use crate::head_store::{HeadStore, RequestInfo};
use crate::hpack::{Decoder, EncoderTable};
use crate::output::Output;
use crate::priority::Priority;
use crate::refusal::Refusal;

/// One HTTP/2 connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) stage: Stage,
    pub(super) goaway: Goaway,
    decoder: Decoder,
    pub(super) encoder: EncoderTable,
    pub(super) streams: Streams,
    /// The highest stream that the peer has opened; 0 if there is none.
    pub(super) last_stream: u32,
    /// Which of the 64 streams up to `last_stream` were opened, one bit each: the others were skipped (RFC
    /// 9113 §5.1.1).
    opened_streams: u64,
    /// Streams that we reset before the peer ended them, oldest first. Frames on them may still be in flight,
    /// and are ignored (RFC 9113 §5.1).
    reset_streams: Vec<u32>,
    /// The last request, until it is answered.
    pub(super) pending_request: Option<PendingRequest>,
    /// An incomplete header block.
    block: Option<Box<HeaderBlock>>,
    /// Flow-control window for content that we send on all streams together.
    pub(super) window: Window,
    /// Initial size of the same window for each stream, in bytes.
    pub(super) initial_window: u32,
    /// Bytes of content received since our last WINDOW_UPDATE.
    unacknowledged: u32,
    pub(super) budget: Budget,
    /// Priorities of streams that are still idle (RFC 9218 §7.1), oldest first.
    pub(super) early_priorities: Vec<(u32, Priority)>,
    /// Whether the beginning of a frame, or of the preface, has arrived.
    has_partial_frame: bool,
    /// When the bytes that are read were received.
    time: Option<Instant>,
    /// Since when a frame or a header block is incomplete.
    partial_since: Option<Instant>,
}

/// Progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the client's connection preface.
    Preface,
    /// Before the SETTINGS frame that must follow it (RFC 9113 §3.4).
    Settings,
    Open,
    /// After the last frame that is read.
    Closed,
}

/// Progress of a graceful shutdown (RFC 9113 §6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goaway {
    NotSent,
    /// The peer was notified. Requests that it sent before the notice arrived are still answered.
    Announced,
    /// Streams above this one are not answered.
    Final(u32),
}

/// ID of a stream within its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamId(u32);

impl StreamId {
    /// Returns the ID as sent on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A request that was not answered yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingRequest {
    pub(super) id: u32,
    pub(super) info: RequestInfo,
    pub(super) content: Content,
    /// Flow-control window for the content of the response.
    pub(super) window: Window,
}

/// Outcome of [`Connection::next_request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A request, with its head in the [`HeadStore`]. It must be answered before the next call.
    Request(StreamId),
    /// A request that must be answered with the status of its refusal, and without a body if it is for `HEAD`.
    Refused(StreamId, Refusal),
    /// A request with complete content, or with too much of it. It must be taken and answered before the next call.
    Received(StreamId, ReceivedContent),
    /// An incomplete frame.
    More,
    /// The output is full: call again with the rest of the input once it was sent.
    Full,
    /// The connection closes once the output was sent.
    End,
}

/// Whether the content of a request was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceivedContent {
    /// To its end.
    Whole,
    /// It is longer than its handler accepts.
    TooLong,
}

/// The bytes that the peer has to send next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// Its next request, or none.
    Request,
    /// None: a handler makes the response.
    Response,
    /// None: a handler makes the next bytes of a body.
    Body,
    /// The rest of a frame or of a header block. No stream waits for anything.
    Head,
    /// The rest of a request's content.
    Content,
    /// A WINDOW_UPDATE that lets the rest of a response leave (RFC 9113 §5.2).
    Window,
}

/// Outcome of a frame, apart from its effects on the connection.
enum FrameOutcome {
    /// No request, or a part of one.
    Continue,
    Request,
    Refused(Refusal),
    Received(u32, ReceivedContent),
}

impl Connection {
    /// Creates a new connection.
    #[must_use]
    pub fn new() -> Connection {
        Connection {
            stage: Stage::Preface,
            goaway: Goaway::NotSent,
            decoder: Decoder::new(),
            encoder: EncoderTable::new(),
            streams: Streams::default(),
            last_stream: 0,
            opened_streams: 0,
            reset_streams: Vec::new(),
            pending_request: None,
            block: None,
            window: Window::new(INITIAL_WINDOW_BYTES),
            initial_window: INITIAL_WINDOW_BYTES,
            unacknowledged: 0,
            budget: Budget::new(),
            early_priorities: Vec::new(),
            has_partial_frame: false,
            time: None,
            partial_since: None,
        }
    }

    /// Writes the server's connection preface (RFC 9113 §3.4): our settings.
    pub fn begin(&mut self, output: &mut Output) {
        frame::put(output, kind::SETTINGS, 0, 0, &settings::OURS);
    }

    /// Reads frames from `input`, up to the next request, and writes the frames that they require to
    /// `output`.
    ///
    /// `input` starts with the first byte that the last call didn't consume. Returns the number of bytes
    /// consumed.
    #[inline]
    pub fn next_request(
        &mut self,
        input: &[u8],
        store: &mut HeadStore,
        output: &mut Output,
    ) -> (usize, Step) {
        self.budget.set_time(store.seconds());
        self.time = store.time();
        let mut used = 0;

        if self.stage == Stage::Preface {
            let Some(preface) = input.first_chunk() else {
                self.end_input(input, 0);
                let may_match = PREFACE.starts_with(input);
                return if may_match {
                    (0, Step::More)
                } else {
                    self.fail(ErrorCode::Protocol, input, output)
                };
            };
            if preface != PREFACE {
                return self.fail(ErrorCode::Protocol, input, output);
            }
            self.stage = Stage::Settings;
            used = PREFACE.len();
        }

        loop {
            if self.stage == Stage::Closed {
                return (input.len(), Step::End);
            }
            if !output.has_room() {
                return (used, Step::Full);
            }

            let rest = &input[used..];
            let head = FrameHead::read(rest);
            // RFC 9113 §4.2: a frame that is too large is an error as soon as its head has arrived.
            if head.is_some_and(|head| head.length > PAYLOAD_BYTES_MAX as usize) {
                return self.fail(ErrorCode::FrameSize, input, output);
            }
            let whole = head.and_then(|head| Some((head, rest.get(HEAD_BYTES..HEAD_BYTES + head.length)?)));
            let Some((head, payload)) = whole else {
                self.end_input(rest, used);
                return (used, Step::More);
            };
            used += HEAD_BYTES + head.length;

            let fault = match self.handle_frame(head, payload, store, output) {
                Ok(FrameOutcome::Continue) => continue,
                Ok(FrameOutcome::Request) => return (used, Step::Request(StreamId(self.last_stream))),
                Ok(FrameOutcome::Refused(refusal)) => {
                    return (used, Step::Refused(StreamId(self.last_stream), refusal));
                }
                Ok(FrameOutcome::Received(id, content)) => {
                    return (used, Step::Received(StreamId(id), content));
                }
                Err(fault) => fault,
            };
            let handled = match fault {
                Fault::Stream(id, code) => self.reset(id, code, output),
                Fault::Connection(code) => Err(code),
            };
            if let Err(code) = handled {
                return self.fail(code, input, output);
            }
        }
    }

    /// Handles that `rest` holds no complete frame, after `used` bytes of frames.
    fn end_input(&mut self, rest: &[u8], used: usize) {
        self.has_partial_frame = !rest.is_empty();
        let begins = used > 0 && self.block.is_none();
        if !self.has_partial_frame && self.block.is_none() {
            self.partial_since = None;
        } else if begins || self.partial_since.is_none() {
            self.partial_since = self.time;
        }
    }

    /// Returns since when the oldest incomplete request arrives: its head, a frame, or its content. Returns `None` if there is none.
    /// Each block of content for a handler makes a request younger.
    #[must_use]
    pub fn incomplete_since(&self) -> Option<Instant> {
        self.streams.incomplete_since().into_iter().chain(self.partial_since).min()
    }

    /// Returns `true` if bodies wait to be sent, so that their archives must be kept.
    #[must_use]
    #[inline]
    pub fn has_bodies(&self) -> bool {
        self.streams.has_archive_bodies()
    }

    /// Returns `true` if [`Connection::fill`] may have bytes to write.
    #[must_use]
    #[inline]
    pub fn has_pending_bytes(&self) -> bool {
        self.streams.has_pending_bytes()
    }

    /// Returns the memory of the client's HPACK table, which lasts as long as the connection, in bytes.
    #[must_use]
    #[inline]
    pub fn table_memory(&self) -> usize {
        self.decoder.allocated_bytes()
    }

    /// Returns the memory that waiting streams, header blocks and priorities take, in bytes. The tables of
    /// HPACK are not included.
    #[must_use]
    pub fn memory(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |block| block.memory());
        let lists = self.reset_streams.capacity() * size_of::<u32>()
            + self.early_priorities.capacity() * size_of::<(u32, Priority)>();
        block + lists + self.streams.memory()
    }

    /// Returns what the peer has to send next, provided that the output of [`Connection::fill`] was sent.
    #[must_use]
    pub fn awaits(&self) -> Awaits {
        // Streams come first: otherwise each frame that arrives in two pieces would restart their timeouts.
        if self.streams.has_pending_bytes() {
            Awaits::Window
        } else if self.streams.has_content() {
            Awaits::Content
        } else if self.streams.has_requests() {
            Awaits::Response
        } else if self.streams.has_open_bodies() {
            Awaits::Body
        } else if self.block.is_some() || self.has_partial_frame {
            Awaits::Head
        } else {
            Awaits::Request
        }
    }

    /// Closes the connection at once. Pending requests and bodies are dropped.
    pub fn end(&mut self, output: &mut Output) {
        if self.stage != Stage::Closed {
            self.close(ErrorCode::None, output);
        }
    }

    fn close(&mut self, code: ErrorCode, output: &mut Output) {
        self.stage = Stage::Closed;
        self.streams = Streams::default();
        self.reset_streams = Vec::new();
        self.block = None;
        self.has_partial_frame = false;
        self.partial_since = None;

        // RFC 9113 §6.8: the last stream must not increase from one GOAWAY to the next.
        let last = if let Goaway::Final(last) = self.goaway { last } else { self.last_stream };
        frame::put_goaway(output, last, code);
    }

    /// Returns `true` if all requests are answered and no more are read: the connection closes once the
    /// output was sent.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.stage == Stage::Closed || (matches!(self.goaway, Goaway::Final(_)) && self.streams.is_empty())
    }

    /// Closes the connection for a connection error of the peer's (RFC 9113 §5.4.1).
    #[cold]
    fn fail(&mut self, code: ErrorCode, input: &[u8], output: &mut Output) -> (usize, Step) {
        if self.stage != Stage::Closed {
            self.close(code, output);
        }
        (input.len(), Step::End)
    }

    /// Resets a stream for a stream error of the peer's (RFC 9113 §5.4.2).
    ///
    /// # Errors
    ///
    /// Returns the code of a connection error if there were too many of them.
    #[cold]
    fn reset(&mut self, id: u32, code: ErrorCode, output: &mut Output) -> Result<(), ErrorCode> {
        // RFC 9113 §6.4: an idle stream must not be reset.
        if self.is_idle(id) {
            return Err(code);
        }
        frame::put_reset(output, id, code);
        let has_ended = self.streams.remove(id).is_none_or(|stream| stream.content == Content::Ended);
        if !has_ended {
            self.remember_reset(id);
        }
        Ok(self.budget.charge_reset()?)
    }

    /// Handles a frame. HEADERS on an open connection take the fast path.
    #[inline]
    fn handle_frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        store: &mut HeadStore,
        output: &mut Output,
    ) -> Result<FrameOutcome, Fault> {
        if head.kind == kind::HEADERS && self.block.is_none() && self.stage == Stage::Open {
            return self.handle_headers(head, payload, store);
        }
        self.handle_other_frame(head, payload, store, output)
    }

    #[inline(never)]
    fn handle_other_frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        store: &mut HeadStore,
        output: &mut Output,
    ) -> Result<FrameOutcome, Fault> {
        // RFC 9113 §6.10: CONTINUATION must follow an incomplete header block, and only that.
        if self.block.is_some() != (head.kind == kind::CONTINUATION) {
            return Err(ErrorCode::Protocol.into());
        }
        // RFC 9113 §3.4: SETTINGS is the first frame.
        if self.stage == Stage::Settings {
            if head.kind != kind::SETTINGS || head.has(flag::ACK) {
                return Err(ErrorCode::Protocol.into());
            }
            self.stage = Stage::Open;
        }

        match head.kind {
            kind::CONTINUATION => return self.handle_continuation(head, payload, store),
            kind::DATA => return self.handle_data(head, payload, output),
            kind::PRIORITY => self.handle_priority(head, payload)?,
            kind::RST_STREAM => self.handle_reset(head, payload)?,
            kind::SETTINGS => self.handle_settings(head, payload, output)?,
            kind::PUSH_PROMISE => return Err(ErrorCode::Protocol.into()),
            kind::PING => self.handle_ping(head, payload, output)?,
            kind::GOAWAY => self.handle_goaway(head, payload)?,
            kind::WINDOW_UPDATE => self.handle_window_update(head, payload)?,
            kind::PRIORITY_UPDATE => self.handle_priority_update(head, payload)?,
            // RFC 9113 §5.5: unknown frame types are ignored.
            _ => self.budget.charge_frame()?,
        }
        Ok(FrameOutcome::Continue)
    }

    /// Adds the stream of an answered request that waits: for its window, or for its content.
    ///
    /// `sent_bytes` of the response's content were already written.
    pub(super) fn add_stream(&mut self, request: PendingRequest, body: Option<Body>, sent_bytes: u32) {
        let PendingRequest { id, info, content, mut window } = request;
        window.consume(sent_bytes);
        let since = self.time;
        self.streams.add(Stream { id, priority: info.priority, window, content, body, request: None, since });
    }
}

impl Default for Connection {
    fn default() -> Self {
        Connection::new()
    }
}
