//! HTTP/2 connection state machine, driven by the peer's frames (RFC 9113 §5, §6).
//!
//! The modules below handle header blocks, request content, postponed requests and stream IDs. See `control.rs` for frames that
//! control the connection or its streams, and `respond.rs` for responses. Note that a stream only exists while it waits for
//! something.

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
use crate::compression::hpack::{Decoder, EncoderTable};
use crate::ground::abuse::Budget;
use crate::request::head_store::{HeadStore, RequestInfo};
use crate::request::priority::Priority;
use crate::request::refusal::Refusal;
use crate::request::streamed::StreamedContents;
use crate::response::output::Output;

/// An HTTP/2 connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) stage: Stage,
    pub(super) goaway: Goaway,
    decoder: Decoder,
    pub(super) encoder: EncoderTable,
    pub(super) streams: Streams,
    /// The highest stream the peer has opened, or 0.
    pub(super) last_stream: u32,
    /// Bit set of the last 64 streams up to `last_stream`. Streams the peer opened are set, skipped IDs are clear (RFC 9113
    /// §5.1.1).
    opened_streams: u64,
    /// Streams that we reset before the peer ended them, oldest first. More frames might still be in flight, and we need to ignore
    /// them (RFC 9113 §5.1).
    reset_streams: Vec<u32>,
    /// The last request, until it is answered.
    pub(super) pending_request: Option<PendingRequest>,
    /// Content of requests that are answered while it arrives.
    pub(super) streamed: StreamedContents<u32>,
    /// A header block that needs more CONTINUATION frames.
    block: Option<Box<HeaderBlock>>,
    /// Connection-level window for content we send.
    pub(super) window: Window,
    /// Initial size of each stream's window, in bytes.
    pub(super) initial_window: u32,
    /// Content bytes received since our last WINDOW_UPDATE.
    unacknowledged: u32,
    pub(super) budget: Budget,
    /// Priorities for streams that are not open yet (RFC 9218 §7.1), oldest first.
    pub(super) early_priorities: Vec<(u32, Priority)>,
    /// Whether we have received a part of a frame, or of the preface.
    has_partial_frame: bool,
    /// Time when the current input was received.
    time: Option<Instant>,
    /// Time when we started waiting for the rest of a frame or header block.
    partial_since: Option<Instant>,
}

/// Connection progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the client's connection preface.
    Preface,
    /// Before the SETTINGS frame that must follow it (RFC 9113 §3.4).
    Settings,
    Open,
    /// We do not read any more frames.
    Closed,
}

/// Graceful shutdown progress (RFC 9113 §6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goaway {
    NotSent,
    /// We have told the peer. However, it may have sent requests before it knew, and we will still answer these.
    Announced,
    /// We do not answer requests on streams above this one.
    Final(u32),
}

/// Stream ID, unique within a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamId(u32);

impl StreamId {
    /// Returns the ID as sent on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A request that has not been answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingRequest {
    pub(super) id: u32,
    pub(super) info: RequestInfo,
    pub(super) content: Content,
    /// Flow-control window for the response content.
    pub(super) window: Window,
}

/// Outcome of [`Connection::next_request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A request, with its head in the [`HeadStore`]. The caller must answer it before the next call.
    Request(StreamId),
    /// A request the caller must answer with the refusal's status, without a body in the case of `HEAD`.
    Refused(StreamId, Refusal),
    /// A request whose content has arrived completely, or exceeds what its handler accepts. The caller must take and answer it
    /// before the next call.
    Received(StreamId, ReceivedContent),
    /// The last frame is incomplete: call again with more input.
    More,
    /// The output is full. You should send it and then call again with the rest of the input.
    Full,
    /// The connection should be closed once the output is sent.
    End,
}

/// Result of receiving request content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceivedContent {
    /// All of it was received.
    Whole,
    /// It is longer than its handler accepts.
    TooLong,
}

/// The next thing that the peer should send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// A new request. Idle peers may never send another.
    Request,
    /// Nothing. A handler will provide the response.
    Response,
    /// Nothing. A handler will provide the next bytes of a body.
    Body,
    /// The rest of a frame or of a header block, while no streams are waiting.
    Head,
    /// The rest of some request's content.
    Content,
    /// A WINDOW_UPDATE, before we can send the rest of a response (RFC 9113 §5.2).
    Window,
}

/// Meaning of a frame for the caller.
enum FrameOutcome {
    /// Nothing. Read the next frame.
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
            streamed: StreamedContents::default(),
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

    /// Writes the server's connection preface (RFC 9113 §3.4), which consists of our settings.
    pub fn begin(&mut self, output: &mut Output) {
        frame::put(output, kind::SETTINGS, 0, 0, &settings::OURS);
    }

    /// Reads frames from `input` up to the next request. If a frame needs an acknowledgement, we write it to `output`.
    ///
    /// `input` must start with the first byte that the last call did not consume. Returns the number of bytes
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

        // A client MUST send the preface first. If the bytes so far can't become a preface, there is no need to wait for the rest.
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

            // Go on unless there were too many of them. A stream error only concerns one stream.
            let handled = match fault {
                Fault::Stream(id, code) => self.reset(id, code, output),
                Fault::Connection(code) => Err(code),
            };
            if let Err(code) = handled {
                return self.fail(code, input, output);
            }
        }
    }

    /// Notes that `rest` does not contain a complete frame, after `used` bytes of frames.
    fn end_input(&mut self, rest: &[u8], used: usize) {
        self.has_partial_frame = !rest.is_empty();
        // Each new frame restarts the clock, except for the frames of an incomplete header block.
        let begins = used > 0 && self.block.is_none();
        if !self.has_partial_frame && self.block.is_none() {
            self.partial_since = None;
        } else if begins || self.partial_since.is_none() {
            self.partial_since = self.time;
        }
    }

    /// Sets the time for responses that are written before the next request is read.
    pub fn set_time(&mut self, time: Instant) {
        self.time = Some(time);
    }

    /// Returns the time when the oldest incomplete request started to arrive, if any. It may lack a part of its head, of a frame,
    /// or of its content. For content that goes to a handler, the clock restarts with each block.
    #[must_use]
    pub fn incomplete_since(&self) -> Option<Instant> {
        self.streams.incomplete_since().into_iter().chain(self.partial_since).min()
    }

    /// Returns `true` if we have bodies to send. Their archives must be kept open.
    #[must_use]
    #[inline]
    pub fn has_bodies(&self) -> bool {
        self.streams.has_archive_bodies()
    }

    /// Returns `true` if [`Connection::fill`] might write something.
    #[must_use]
    #[inline]
    pub fn has_pending_bytes(&self) -> bool {
        self.streams.has_pending_bytes()
    }

    /// Returns the size of the client's HPACK table, in bytes. This table exists as long as the connection.
    #[must_use]
    #[inline]
    pub fn table_memory(&self) -> usize {
        self.decoder.allocated_bytes()
    }

    /// Returns the memory used by streams, header blocks and priorities, in bytes, not including HPACK tables.
    #[must_use]
    pub fn memory(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |block| block.memory());
        let lists = self.reset_streams.capacity() * size_of::<u32>()
            + self.early_priorities.capacity() * size_of::<(u32, Priority)>();
        block + lists + self.streams.memory() + self.streamed.memory()
    }

    /// Returns what we are waiting for the peer to send, assuming that the output of [`Connection::fill`] will be sent.
    #[must_use]
    pub fn awaits(&self) -> Awaits {
        // Check streams first. Otherwise, a frame that arrives in two pieces would restart their timeouts.
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
        self.streamed = StreamedContents::default();
        self.reset_streams = Vec::new();
        self.block = None;
        self.has_partial_frame = false;
        self.partial_since = None;

        // RFC 9113 §6.8: a second GOAWAY MUST NOT name a higher stream than the first.
        let last = if let Goaway::Final(last) = self.goaway { last } else { self.last_stream };
        frame::put_goaway(output, last, code);
    }

    /// Returns `true` if all requests are answered and we will not read any more. Callers should close the connection once the
    /// output is sent.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.stage == Stage::Closed || (matches!(self.goaway, Goaway::Final(_)) && self.streams.is_empty())
    }

    /// Closes the connection because of a connection error (RFC 9113 §5.4.1).
    #[cold]
    fn fail(&mut self, code: ErrorCode, input: &[u8], output: &mut Output) -> (usize, Step) {
        if self.stage != Stage::Closed {
            self.close(code, output);
        }
        (input.len(), Step::End)
    }

    /// Resets a stream because of a stream error (RFC 9113 §5.4.2).
    ///
    /// # Errors
    ///
    /// Too many streams were reset, or the stream was idle (both are connection errors).
    #[cold]
    fn reset(&mut self, id: u32, code: ErrorCode, output: &mut Output) -> Result<(), ErrorCode> {
        // RFC 9113 §6.4: an idle stream must not be reset.
        if self.is_idle(id) {
            return Err(code);
        }
        frame::put_reset(output, id, code);

        // The peer might have sent more frames before it learns of the reset.
        let has_ended = self.streams.remove(id).is_none_or(|stream| stream.content == Content::Ended);
        if !has_ended {
            self.remember_reset(id);
        }
        Ok(self.budget.charge_reset()?)
    }

    /// Handles a frame, using the fast path for the common case (HEADERS on an open connection).
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
        // RFC 9113 §6.10: while a header block is incomplete, only CONTINUATION may follow.
        if self.block.is_some() != (head.kind == kind::CONTINUATION) {
            return Err(ErrorCode::Protocol.into());
        }
        // RFC 9113 §3.4: the first frame must be SETTINGS.
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

    /// Adds a stream for a request whose response or content is not complete.
    ///
    /// The first `sent_bytes` of the response content should already have been written.
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
