//! The state of one HTTP/2 connection, and what each frame of the peer's does to it (RFC 9113 §5, §6).
//!
//! Header blocks and content have files of their own below, as has which streams there were; frames that are about the
//! connection or about streams as such are in `control.rs`, answers in `answer.rs`. Never holds content, nor a stream that has
//! nothing to wait for.

mod header_blocks;
mod request_content;
mod stream_ids;

use self::header_blocks::Block;
use super::abuse::Budget;
use super::body::Body;
use super::error::{ErrorCode, Fault};
use super::flow::{WINDOW_BYTES, Window};
use super::frame::{self, FrameHead, HEAD_BYTES, PAYLOAD_BYTES, PREFACE, flag, kind};
use super::priority::Priority;
use super::request::{About, HeadStore};
use super::settings;
use super::stream::{Content, Stream, Streams};
use crate::hpack::{Decoder, EncoderTable};
use crate::output::Output;
use crate::refusal::Refusal;

/// One HTTP/2 connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) stage: Stage,
    pub(super) going: Going,
    decoder: Decoder,
    /// What the peer's table holds of our fields.
    pub(super) encoder: EncoderTable,
    pub(super) streams: Streams,
    /// The highest stream that the peer has opened.
    pub(super) last: u32,
    /// Of the 64 streams up to that one, which were opened: the others were passed over (RFC 9113 §5.1.1).
    opened: u64,
    /// Streams that we have reset before the peer had ended them, the last of them behind: what still comes on them was
    /// under way, and is let pass (RFC 9113 §5.1).
    cut_off: Vec<u32>,
    /// The request that came last, until it is answered.
    pub(super) asked: Option<Asked>,
    /// A header block that is not whole.
    block: Option<Box<Block>>,
    /// What the peer has room for on all streams together.
    pub(super) window: Window,
    /// What it has room for on a stream that is new.
    pub(super) stream_window: u32,
    /// Content that came since the peer was last told that there is room.
    received: u32,
    pub(super) budget: Budget,
    /// What the client wants of streams that are still idle (RFC 9218 §7.1).
    pub(super) priorities: Vec<(u32, Priority)>,
    /// Whether the beginning of a frame is there.
    is_partial: bool,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client's preface is to come.
    Preface,
    /// Its SETTINGS are, which must follow (RFC 9113 §3.4).
    Settings,
    Open,
    /// Nothing more is read.
    Ended,
}

/// How far we have said that we go (RFC 9113 §6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Going {
    No,
    /// The peer knows, or will; requests that it sent before that are still answered.
    Announced,
    /// Streams above this one are not answered.
    Gone(u32),
}

/// A stream of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamId(u32);

impl StreamId {
    /// Its number on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A request that is to be answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) id: u32,
    pub(super) about: About,
    pub(super) content: Content,
}

/// What the bytes at hand are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A request, whose head is in the [`HeadStore`]; to be answered before anything else is read.
    Request(StreamId),
    /// A request that has an answer of its own: see [`Connection::refuse`].
    Refused(StreamId, Refusal),
    /// Not a whole frame yet.
    More,
    /// What waits to be sent must leave first; the bytes that are left are to be handed in again.
    Full,
    /// Nothing more is read: what is spelled is the last that is said.
    End,
}

/// What a peer owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// Nothing: its next request, if it likes.
    Request,
    /// The rest of a frame, or of a header block, and nothing on any stream.
    Head,
    /// The rest of a request's content.
    Content,
    /// Room for the rest of an answer, in a window of its own.
    Room,
}

/// What a frame was, beside its effects.
enum Taken {
    Nothing,
    Request,
    Refused(Refusal),
}

impl Connection {
    /// A connection of which nothing is read yet.
    #[must_use]
    pub fn new() -> Connection {
        Connection {
            stage: Stage::Preface,
            going: Going::No,
            decoder: Decoder::new(),
            encoder: EncoderTable::new(),
            streams: Streams::default(),
            last: 0,
            opened: 0,
            cut_off: Vec::new(),
            asked: None,
            block: None,
            window: Window::new(WINDOW_BYTES),
            stream_window: WINDOW_BYTES,
            received: 0,
            budget: Budget::new(),
            priorities: Vec::new(),
            is_partial: false,
        }
    }

    /// Says what a server says first (RFC 9113 §3.4): our settings.
    pub fn begin(&mut self, output: &mut Output) {
        frame::put(output, kind::SETTINGS, 0, 0, &settings::OURS);
    }

    /// Reads the frames in `input`, which begins where the last call left off, up to the next request. Tells how many
    /// bytes are done with. What frames have to be answered with goes into `output`.
    #[inline]
    pub fn next_request(
        &mut self,
        input: &[u8],
        store: &mut HeadStore,
        output: &mut Output,
    ) -> (usize, Step) {
        self.budget.set_time(store.seconds());
        let mut used = 0;
        if self.stage == Stage::Preface {
            let Some(preface) = input.first_chunk() else {
                self.is_partial = !input.is_empty();
                let may_be = PREFACE.starts_with(input);
                return if may_be { (0, Step::More) } else { self.fail(ErrorCode::Protocol, input, output) };
            };
            if preface != PREFACE {
                return self.fail(ErrorCode::Protocol, input, output);
            }
            self.stage = Stage::Settings;
            used = PREFACE.len();
        }
        loop {
            if self.stage == Stage::Ended {
                return (input.len(), Step::End);
            }
            if !output.has_room() {
                return (used, Step::Full);
            }
            let rest = &input[used..];
            let head = FrameHead::read(rest);
            // RFC 9113 §4.2. Known before the frame has come.
            if head.is_some_and(|head| head.length > PAYLOAD_BYTES) {
                return self.fail(ErrorCode::FrameSize, input, output);
            }
            let whole = head.and_then(|head| Some((head, rest.get(HEAD_BYTES..HEAD_BYTES + head.length)?)));
            let Some((head, payload)) = whole else {
                self.is_partial = !rest.is_empty();
                return (used, Step::More);
            };
            used += HEAD_BYTES + head.length;
            let fault = match self.take(head, payload, store, output) {
                Ok(Taken::Nothing) => continue,
                Ok(Taken::Request) => return (used, Step::Request(StreamId(self.last))),
                Ok(Taken::Refused(refusal)) => {
                    return (used, Step::Refused(StreamId(self.last), refusal));
                }
                Err(fault) => fault,
            };
            let fault = match fault {
                Fault::Stream(id, code) => self.reset(id, code, output),
                Fault::Connection(code) => Err(code),
            };
            if let Err(code) = fault {
                return self.fail(code, input, output);
            }
        }
    }

    /// Whether bodies wait, so that the archives must be kept that they come from.
    #[must_use]
    #[inline]
    pub fn has_bodies(&self) -> bool {
        self.streams.has_bodies()
    }

    /// The memory of what waits beside the tables of fields, in bytes: a header block, streams, priorities.
    #[must_use]
    pub fn memory(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |block| block.memory());
        let lists = self.cut_off.capacity() * size_of::<u32>()
            + self.priorities.capacity() * size_of::<(u32, Priority)>();
        block + lists + self.streams.memory()
    }

    /// What the peer owes, if anything, once all is sent that [`Connection::fill`] had.
    #[must_use]
    pub fn awaits(&self) -> Awaits {
        // What is owed on a stream comes first: else each frame that comes in two pieces would begin the wait for it anew.
        if self.streams.has_bodies() {
            Awaits::Room
        } else if self.streams.has_content() {
            Awaits::Content
        } else if self.block.is_some() || self.is_partial {
            Awaits::Head
        } else {
            Awaits::Request
        }
    }

    /// Ends the connection at once: nothing more is answered, and what waits is not sent.
    pub fn end(&mut self, output: &mut Output) {
        if self.stage != Stage::Ended {
            self.end_with(ErrorCode::None, output);
        }
    }

    fn end_with(&mut self, code: ErrorCode, output: &mut Output) {
        self.stage = Stage::Ended;
        self.streams = Streams::default();
        self.cut_off = Vec::new();
        self.block = None;
        self.is_partial = false;
        // RFC 9113 §6.8: what was said of the last stream before cannot be taken back.
        let last = if let Going::Gone(last) = self.going { last } else { self.last };
        frame::put_go_away(output, last, code);
    }

    /// Whether nothing is left to be read or answered: what is spelled is the last that is said.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.stage == Stage::Ended || (matches!(self.going, Going::Gone(_)) && self.streams.is_empty())
    }

    /// Ends the connection for a fault of the peer's (RFC 9113 §5.4.1).
    #[cold]
    fn fail(&mut self, code: ErrorCode, input: &[u8], output: &mut Output) -> (usize, Step) {
        if self.stage != Stage::Ended {
            self.end_with(code, output);
        }
        (input.len(), Step::End)
    }

    /// Ends a stream for a fault of the peer's (RFC 9113 §5.4.2); fails if there were too many.
    #[cold]
    fn reset(&mut self, id: u32, code: ErrorCode, output: &mut Output) -> Result<(), ErrorCode> {
        // RFC 9113 §6.4: a stream that is idle cannot be reset.
        if self.is_idle(id) {
            return Err(code);
        }
        frame::put_reset(output, id, code);
        let is_ended = self.streams.remove(id).is_none_or(|stream| stream.content == Content::Ended);
        if !is_ended {
            self.cut_off(id);
        }
        self.budget.reset()
    }

    /// Does what a frame wants.
    #[inline]
    fn take(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        store: &mut HeadStore,
        output: &mut Output,
    ) -> Result<Taken, Fault> {
        if head.kind == kind::HEADERS && self.block.is_none() && self.stage == Stage::Open {
            return self.take_headers(head, payload, store);
        }
        self.take_other(head, payload, store, output)
    }

    #[inline(never)]
    fn take_other(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        store: &mut HeadStore,
        output: &mut Output,
    ) -> Result<Taken, Fault> {
        // RFC 9113 §6.10: nothing may stand between the frames of a block; §3.4: nothing before the first SETTINGS.
        if self.block.is_some() != (head.kind == kind::CONTINUATION) {
            return Err(ErrorCode::Protocol.into());
        }
        if self.stage == Stage::Settings {
            if head.kind != kind::SETTINGS || head.has(flag::ACK) {
                return Err(ErrorCode::Protocol.into());
            }
            self.stage = Stage::Open;
        }
        match head.kind {
            kind::CONTINUATION => return self.take_continuation(head, payload, store),
            kind::DATA => self.take_data(head, payload, output)?,
            kind::PRIORITY => self.take_priority(head, payload)?,
            kind::RST_STREAM => self.take_reset(head, payload)?,
            kind::SETTINGS => self.take_settings(head, payload, output)?,
            kind::PUSH_PROMISE => return Err(ErrorCode::Protocol.into()),
            kind::PING => self.take_ping(head, payload, output)?,
            kind::GOAWAY => self.take_go_away(head, payload)?,
            kind::WINDOW_UPDATE => self.take_window_update(head, payload)?,
            kind::PRIORITY_UPDATE => self.take_priority_update(head, payload)?,
            // RFC 9113 §5.5: what is unknown is ignored.
            _ => self.budget.frame()?,
        }
        Ok(Taken::Nothing)
    }

    /// Adds the stream of a request that is answered and waits: for room, or for its content. Of its window so many
    /// bytes are taken.
    pub(super) fn add_stream(&mut self, asked: Asked, body: Option<Body>, taken: u32) {
        let Asked { id, about, content } = asked;
        let mut window = Window::new(self.stream_window);
        window.take(taken);
        self.streams.add(Stream { id, priority: about.priority, window, content, body });
    }
}

impl Default for Connection {
    fn default() -> Self {
        Connection::new()
    }
}
