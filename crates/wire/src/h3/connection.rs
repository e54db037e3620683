//! State of one HTTP/3 connection: QPACK, the peer's critical streams, and requests that are incomplete.
//!
//! Responses are in `respond.rs`, unidirectional streams in `unidirectional.rs`.

use std::time::Instant;

use super::encode;
use super::error::ErrorCode;
use super::peer_streams::{PeerStreams, kind};
use super::request::{EndError, Event, RequestStream, Section};
use super::sections::SectionReader;
use super::settings;
use super::stream_id::StreamId;
use super::varint;
use crate::abuse::Budget;
use crate::head_store::{HeadStore, RequestInfo, Trailers, Verdict};
use crate::limits::{CONTENT_BLOCK_BYTES, CONTENT_SKIPPED_BYTES_MAX, PRIORITIES_REMEMBERED_MAX};
use crate::output::Output;
use crate::priority::Priority;
use crate::qpack::EncoderTable;
use crate::refusal::Refusal;
use crate::request_head::Version;
use crate::stored_request::StoredRequest;

/// One HTTP/3 connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) sections: SectionReader,
    pub(super) encoder: EncoderTable,
    pub(super) peer_streams: PeerStreams,
    /// Streams of which more is to be read, in no order.
    requests: Vec<Request>,
    /// The last request, until it is answered.
    pub(super) pending_request: Option<PendingRequest>,
    /// Requests that are answered later.
    pub(super) postponed: Vec<PendingRequest>,
    /// The first request stream that the peer may not open yet.
    pub(super) stream_limit: StreamId,
    /// The request stream after the highest one that the peer has opened.
    pub(super) next_stream: StreamId,
    /// The stream from which on requests are not answered, if the peer was notified of it.
    goaway: Option<StreamId>,
    pub(super) budget: Budget,
    /// Priorities of streams that are not open yet (RFC 9218 §7), oldest first.
    pub(super) early_priorities: Vec<(StreamId, Priority)>,
    /// Changed priorities of open streams, oldest first.
    pub(super) changed_priorities: Vec<(StreamId, Priority)>,
}

/// A request stream of which more is to be read.
#[derive(Debug)]
struct Request {
    stream: StreamId,
    frames: RequestStream,
    content: Content,
    /// When it was opened, or its last block of content for a handler was complete.
    since: Instant,
}

/// The content of a request that arrives.
#[derive(Debug, Default)]
struct Content {
    /// The announced length that is left, in bytes.
    left: Option<u64>,
    /// The length that has arrived, in bytes.
    bytes: u64,
    /// The request, if its content is received for a handler. Otherwise it is skipped.
    kept: Option<Box<KeptRequest>>,
}

/// The limit that the content of a request exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excess {
    None,
    /// It is longer than announced.
    Announced,
    /// It is too long for its handler.
    Kept,
    /// It is too long to be skipped.
    Skipped,
}

impl Content {
    /// Returns `true` if a block of content for a handler has ended within the last `bytes` bytes.
    #[inline]
    fn has_begun_block(&self, bytes: usize) -> bool {
        self.kept.as_ref().is_some_and(|kept| {
            let length = kept.request.content().len();
            length / CONTENT_BLOCK_BYTES > (length - bytes) / CONTENT_BLOCK_BYTES
        })
    }

    /// Receives or skips the next bytes.
    #[inline]
    fn receive(&mut self, content: &[u8]) -> Excess {
        let bytes = content.len() as u64;
        if let Some(left) = &mut self.left {
            let Some(rest) = left.checked_sub(bytes) else { return Excess::Announced };
            *left = rest;
        }
        self.bytes += bytes;

        match &mut self.kept {
            Some(kept) if self.bytes > kept.bytes_max as u64 => Excess::Kept,
            Some(kept) => {
                kept.request.content_mut().extend_from_slice(content);
                Excess::None
            }
            None if self.bytes > CONTENT_SKIPPED_BYTES_MAX => Excess::Skipped,
            None => Excess::None,
        }
    }
}

/// A request while its content is received.
#[derive(Debug)]
struct KeptRequest {
    request: StoredRequest,
    info: RequestInfo,
    /// The limit of the content, in bytes.
    bytes_max: usize,
}

/// A request that was not answered yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingRequest {
    pub(super) stream: StreamId,
    pub(super) info: RequestInfo,
}

/// Outcome of [`Connection::next_request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A request, with its head in the [`HeadStore`]. It must be answered before the next call.
    Request(Priority),
    /// A request that must be answered with the status of its refusal, and without a body if it is for `HEAD`.
    Refused(Priority, Refusal),
    /// The content of the request is too long for its handler. It must be taken and answered before the next call.
    TooLong,
    /// The rest of the request is not worth reading: the peer should stop sending, with [`ErrorCode::None`] (RFC 9114 §4.1).
    Stop,
    /// The stream must be reset with this code, in both directions.
    Reset(ErrorCode),
    /// The input is read.
    More,
}

/// Outcome of the end of a request stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd {
    /// The request is complete.
    Complete,
    /// The request is complete, with its content. It must be taken and answered before the next call.
    Received,
    /// The stream must be reset with this code.
    Reset(ErrorCode),
}

impl Connection {
    /// Creates a new connection.
    #[must_use]
    pub fn new() -> Connection {
        Connection {
            sections: SectionReader::default(),
            encoder: EncoderTable::new(),
            peer_streams: PeerStreams::default(),
            requests: Vec::new(),
            pending_request: None,
            postponed: Vec::new(),
            stream_limit: StreamId::LAST_REQUEST,
            next_stream: StreamId::FIRST_REQUEST,
            goaway: None,
            budget: Budget::new(),
            early_priorities: Vec::new(),
            changed_priorities: Vec::new(),
        }
    }

    /// Returns the beginning of our control stream, with our settings.
    #[must_use]
    pub fn control_stream_start() -> Vec<u8> {
        [&stream_type(kind::CONTROL), settings::OURS.as_slice()].concat()
    }

    /// Returns the beginning of our QPACK encoder stream: its type. The rest comes from
    /// [`take_encoder_stream`](Self::take_encoder_stream).
    #[must_use]
    pub fn encoder_stream_start() -> Vec<u8> {
        stream_type(kind::QPACK_ENCODER)
    }

    /// Returns the beginning of our QPACK decoder stream: its type. The rest comes from
    /// [`take_decoder_stream`](Self::take_decoder_stream).
    #[must_use]
    pub fn decoder_stream_start() -> Vec<u8> {
        stream_type(kind::QPACK_DECODER)
    }

    /// Takes the bytes to be sent on our QPACK encoder stream.
    pub fn take_encoder_stream(&mut self) -> Vec<u8> {
        self.encoder.take_encoder_stream()
    }

    /// Takes the bytes to be sent on our QPACK decoder stream.
    pub fn take_decoder_stream(&mut self) -> Vec<u8> {
        self.sections.take_decoder_stream()
    }

    /// Takes the priorities that the peer has changed, each with the ID of its stream. The last one of a stream counts (RFC 9218
    /// §7).
    pub fn take_priorities(&mut self) -> impl Iterator<Item = (StreamId, Priority)> {
        self.changed_priorities.drain(..)
    }

    /// Returns the memory that incomplete requests, the tables of QPACK, incomplete instructions and frames, and priorities take, in
    /// bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let sections = self.requests.iter().map(|request| request.frames.memory()).sum::<usize>();
        let priorities = self.early_priorities.capacity() + self.changed_priorities.capacity();
        let kept = self.requests.iter().filter_map(|request| request.content.kept.as_ref());
        let kept = kept.map(|kept| size_of::<KeptRequest>() + kept.request.memory()).sum::<usize>();
        let streams = self.sections.memory() + self.encoder.memory() + self.peer_streams.memory();
        sections
            + streams
            + kept
            + self.postponed.capacity() * size_of::<PendingRequest>()
            + self.requests.capacity() * size_of::<Request>()
            + priorities * size_of::<(StreamId, Priority)>()
    }

    /// Returns since when the oldest incomplete request arrives, or `None` if there is none. Each block of content for a handler
    /// makes a request younger.
    #[must_use]
    pub fn incomplete_since(&self) -> Option<Instant> {
        self.requests.iter().map(|request| request.since).min()
    }

    /// Sets how many request streams the peer may open in all, those that are closed included.
    pub fn set_stream_limit(&mut self, streams: u64) {
        self.stream_limit = StreamId::request(streams);
    }

    /// Opens a request stream at this time. Streams are opened in order.
    pub fn open(&mut self, stream: StreamId, now: Instant) {
        self.next_stream = self.next_stream.max(stream.next_request());
        if self.requests.capacity() == 0 {
            // A vector makes room for four at first, but many connections have one at a time.
            self.requests.reserve_exact(1);
        }
        let (frames, content) = Default::default();
        self.requests.push(Request { stream, frames, content, since: now });
    }

    /// Reads the next bytes of a request stream, up to the next request, and removes them from `input`.
    ///
    /// # Errors
    ///
    /// Returns the code of a connection error.
    #[inline]
    pub fn next_request(
        &mut self,
        stream: StreamId,
        input: &mut &[u8],
        store: &mut HeadStore,
    ) -> Result<Step, ErrorCode> {
        self.budget.set_time(store.seconds());
        let Some(index) = self.position(stream) else {
            // The stream was reset, and its bytes were in flight.
            *input = &[];
            return Ok(Step::More);
        };
        if self.goaway.is_some_and(|first| stream >= first) {
            self.requests.swap_remove(index);
            return Ok(Step::Reset(ErrorCode::RequestRejected));
        }

        loop {
            let request = &mut self.requests[index];
            match request.frames.next(input)? {
                None => return Ok(Step::More),
                Some(Event::Ignored) => self.budget.charge_frame()?,
                Some(Event::Content(content)) => match request.content.receive(content) {
                    Excess::None if request.content.has_begun_block(content.len()) => {
                        request.since = store.time().unwrap_or(request.since);
                    }
                    Excess::None => {}
                    // RFC 9114 §4.1.2: more content than announced.
                    Excess::Announced => return self.malformed(index),
                    Excess::Kept => return Ok(Step::TooLong),
                    Excess::Skipped => {
                        self.requests.swap_remove(index);
                        return Ok(Step::Stop);
                    }
                },
                Some(Event::Head(Section::Whole(section))) => {
                    let verdict = self.sections.read_head(stream, section, store)?;
                    return self.handle_head(index, verdict);
                }
                Some(Event::Head(Section::TooLarge)) => {
                    self.sections.skip(stream);
                    let info = store.refuse_request(Version::Http3);
                    return self.handle_head(index, Verdict::Refused(info, Refusal::HeadTooLarge));
                }
                Some(Event::Trailers(Section::Whole(section))) => {
                    let trailers = self.sections.read_trailers(stream, section, store)?;
                    if trailers == Trailers::Malformed {
                        return self.malformed(index);
                    }
                }
                Some(Event::Trailers(Section::TooLarge)) => {
                    self.sections.skip(stream);
                    return self.malformed(index);
                }
            }
        }
    }

    /// Returns the index of a request of which more is to be read.
    #[inline]
    fn position(&self, stream: StreamId) -> Option<usize> {
        self.requests.iter().rposition(|request| request.stream == stream)
    }

    /// Handles the head of a request.
    #[inline]
    fn handle_head(&mut self, index: usize, verdict: Verdict) -> Result<Step, ErrorCode> {
        let (mut info, refusal) = match verdict {
            Verdict::Request(info) => (info, None),
            Verdict::Refused(info, refusal) => (info, Some(refusal)),
            Verdict::Malformed => return self.malformed(index),
        };
        let request = &mut self.requests[index];
        request.content.left = info.content_length;
        let stream = request.stream;
        info.priority = self.early_priority(stream).unwrap_or(info.priority);
        self.pending_request = Some(PendingRequest { stream, info });
        Ok(match refusal {
            None => Step::Request(info.priority),
            Some(refusal) => Step::Refused(info.priority, refusal),
        })
    }

    /// Handles the end of a request stream.
    ///
    /// # Errors
    ///
    /// Returns the code of a connection error.
    pub fn end_request(&mut self, stream: StreamId) -> Result<RequestEnd, ErrorCode> {
        let Some(index) = self.position(stream) else { return Ok(RequestEnd::Complete) };
        let request = &self.requests[index];
        let ending = request.frames.end();
        let is_short = request.content.left.is_some_and(|left| left > 0);
        if request.content.kept.is_some() && ending.is_ok() && !is_short {
            return Ok(RequestEnd::Received);
        }

        self.requests.swap_remove(index);
        let code = match ending {
            // RFC 9114 §4.1.2: less content than announced.
            Ok(()) if is_short => ErrorCode::Message,
            Ok(()) => return Ok(RequestEnd::Complete),
            Err(EndError::Stream(code)) => code,
            Err(EndError::Connection(code)) => return Err(code),
        };
        self.budget.charge_reset()?;
        Ok(RequestEnd::Reset(code))
    }

    /// Handles a reset of a request stream by the peer: the request ends early (RFC 9114 §4.1.1).
    ///
    /// # Errors
    ///
    /// Returns the code of a connection error if there were too many of them.
    pub fn cancel_request(&mut self, stream: StreamId) -> Result<(), ErrorCode> {
        self.postponed.retain(|request| request.stream != stream);
        if let Some(index) = self.position(stream) {
            let request = self.requests.swap_remove(index);
            if !request.frames.has_head() {
                self.sections.skip(stream);
            }
        }
        Ok(self.budget.charge_reset()?)
    }

    /// Stops reading a request, because its response is complete. Later bytes of its stream are ignored.
    pub fn stop_reading(&mut self, stream: StreamId) {
        self.postponed.retain(|request| request.stream != stream);
        self.requests.retain(|request| request.stream != stream);
    }

    /// Keeps the request that is to be answered, with its stream, until its content has arrived.
    pub(super) fn keep(&mut self, pending: PendingRequest, request: StoredRequest, bytes_max: usize) {
        if let Some(index) = self.position(pending.stream) {
            let kept = KeptRequest { request, info: pending.info, bytes_max };
            self.requests[index].content.kept = Some(Box::new(kept));
        }
    }

    /// Takes a request after its content has arrived, and stops reading it.
    pub(super) fn take_kept(&mut self, stream: StreamId) -> Option<StoredRequest> {
        let index = self.position(stream)?;
        let KeptRequest { request, info, .. } = *self.requests.swap_remove(index).content.kept?;
        self.pending_request = Some(PendingRequest { stream, info });
        Some(request)
    }

    /// Returns `true` if a handler makes a response.
    #[must_use]
    pub fn has_postponed_requests(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// Appends a DATA frame with the next bytes of a body that follows its head.
    pub fn put_body(bytes: &[u8], output: &mut Output) {
        encode::put_data_head(output, bytes.len() as u64);
        output.put(bytes);
    }

    /// Accounts for a response that was sent to its end.
    pub fn finish_response(&mut self) {
        self.budget.credit_response();
    }

    /// Accounts for a response that the peer does not want any more (RFC 9000 §3.5).
    ///
    /// # Errors
    ///
    /// Returns the code of a connection error if there were too many of them.
    pub fn stop_response(&mut self) -> Result<(), ErrorCode> {
        Ok(self.budget.charge_reset()?)
    }

    /// Appends to our control stream that the connection ends soon: the peer should send no more requests. Those that it has
    /// sent are still answered (RFC 9114 §5.2).
    pub fn announce_end(&self, control_stream: &mut Vec<u8>) {
        encode::put_goaway(control_stream, StreamId::LAST_REQUEST);
    }

    /// Appends to our control stream which requests are not answered any more: all that have not arrived.
    pub fn stop_requests(&mut self, control_stream: &mut Vec<u8>) {
        self.goaway = Some(self.next_stream);
        encode::put_goaway(control_stream, self.next_stream);
    }

    /// Refuses a malformed request, and stops reading it (RFC 9114 §4.1.2).
    #[cold]
    fn malformed(&mut self, index: usize) -> Result<Step, ErrorCode> {
        self.requests.swap_remove(index);
        self.budget.charge_reset()?;
        Ok(Step::Reset(ErrorCode::Message))
    }

    /// Takes the priority that the peer sent before it opened this stream.
    #[inline]
    fn early_priority(&mut self, stream: StreamId) -> Option<Priority> {
        let position = self.early_priorities.iter().position(|(early, _)| *early == stream)?;
        Some(self.early_priorities.remove(position).1)
    }

    /// Applies the peer's priority of a stream, which may not be open yet.
    pub(super) fn set_priority(&mut self, stream: StreamId, priority: Priority) {
        if stream < self.next_stream {
            self.changed_priorities.push((stream, priority));
            return;
        }
        self.early_priorities.retain(|(early, _)| *early != stream);
        if self.early_priorities.len() == PRIORITIES_REMEMBERED_MAX {
            self.early_priorities.remove(0);
        }
        self.early_priorities.push((stream, priority));
    }
}

/// Returns the beginning of a unidirectional stream: its type.
fn stream_type(kind: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint::put(&mut bytes, kind);
    bytes
}

impl Default for Connection {
    fn default() -> Self {
        Connection::new()
    }
}

#[cfg(test)]
mod tests;
