//! HTTP/3 connection state: QPACK, the peer's critical streams, and incomplete requests.
//!
//! See `respond.rs` for responses and `unidirectional.rs` for unidirectional streams.

use std::time::Instant;

use super::encode;
use super::error::ErrorCode;
use super::peer_streams::{PeerStreams, kind};
use super::request::{EndError, Event, RequestStream, Section};
use super::sections::SectionReader;
use super::settings;
use super::stream_id::StreamId;
use super::varint;
use crate::compression::qpack::EncoderTable;
use crate::ground::abuse::Budget;
use crate::limits::{CONTENT_BLOCK_BYTES, CONTENT_SKIPPED_BYTES_MAX, PRIORITIES_REMEMBERED_MAX};
use crate::request::head::Version;
use crate::request::head_store::{HeadStore, RequestInfo, Trailers, Verdict};
use crate::request::priority::Priority;
use crate::request::refusal::Refusal;
use crate::request::stored::StoredRequest;
use crate::request::streamed::StreamedContents;
use crate::response::output::Output;

/// An HTTP/3 connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) sections: SectionReader,
    pub(super) encoder: EncoderTable,
    pub(super) peer_streams: PeerStreams,
    /// Streams that we are still reading, in no particular order.
    requests: Vec<Request>,
    /// Content of requests that are answered while it arrives.
    pub(super) streamed: StreamedContents<StreamId>,
    /// The last request, until it is answered.
    pub(super) pending_request: Option<PendingRequest>,
    /// The first request stream the peer is not allowed to open yet.
    pub(super) stream_limit: StreamId,
    /// The first request stream that the peer has not opened yet.
    pub(super) next_stream: StreamId,
    /// If we have sent a final GOAWAY: the first stream we do not answer.
    goaway: Option<StreamId>,
    pub(super) budget: Budget,
    /// Most connections do not need these.
    pub(super) lists: Option<Box<Lists>>,
}

/// Lists that are empty in most connections.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Requests we will answer later.
    pub(super) postponed: Vec<PendingRequest>,
    /// Priorities for streams that are not open yet (RFC 9218 §7), oldest first.
    early_priorities: Vec<(StreamId, Priority)>,
    /// Priority updates for open streams, oldest first.
    changed_priorities: Vec<(StreamId, Priority)>,
}

impl Lists {
    fn memory(&self) -> usize {
        let priorities = self.early_priorities.capacity() + self.changed_priorities.capacity();
        size_of::<Lists>()
            + self.postponed.capacity() * size_of::<PendingRequest>()
            + priorities * size_of::<(StreamId, Priority)>()
    }
}

/// A request stream we are still reading.
#[derive(Debug)]
struct Request {
    stream: StreamId,
    frames: RequestStream,
    content: Content,
    /// Time when it was opened, or completed the last block of content for a handler. `None` while the client must not send more.
    since: Option<Instant>,
}

/// Request content.
#[derive(Debug, Default)]
struct Content {
    /// Number of missing bytes, if the request announced a length.
    left: Option<u64>,
    /// Number of bytes that have arrived.
    bytes: u64,
    /// The request, if a handler needs the content (otherwise we skip the content, unless it is streamed).
    kept: Option<Box<KeptRequest>>,
    is_streamed: bool,
}

/// A limit that request content exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excess {
    None,
    /// More than announced.
    Announced,
    /// More than its handler accepts.
    Kept,
    /// More than we are willing to skip.
    Skipped,
}

impl Content {
    /// Returns `true` if the last `bytes` bytes completed a block of content for a handler.
    #[inline]
    fn has_begun_block(&self, bytes: usize) -> bool {
        self.kept.as_ref().is_some_and(|kept| {
            let length = kept.request.content().len();
            length / CONTENT_BLOCK_BYTES > (length - bytes) / CONTENT_BLOCK_BYTES
        })
    }

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
            None if self.is_streamed => Excess::None,
            None if self.bytes > CONTENT_SKIPPED_BYTES_MAX => Excess::Skipped,
            None => Excess::None,
        }
    }
}

/// A request whose content we are receiving.
#[derive(Debug)]
struct KeptRequest {
    request: StoredRequest,
    info: RequestInfo,
    /// Content limit, in bytes.
    bytes_max: usize,
}

/// A request that has not been answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingRequest {
    pub(super) stream: StreamId,
    pub(super) info: RequestInfo,
}

/// Outcome of [`Connection::next_request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A request, with its head in the [`HeadStore`]. The caller must answer it before the next call.
    Request(Priority),
    /// A request that the caller must answer with the refusal's status, without a body in the case of `HEAD`.
    Refused(Priority, Refusal),
    /// A request whose content exceeds what its handler accepts. The caller must take and answer it before the next call.
    TooLong,
    /// The rest of the request is not worth reading, so the caller should ask the peer to stop sending, with [`ErrorCode::None`]
    /// (RFC 9114 §4.1).
    Stop,
    /// The caller must reset the stream with this code, in both directions.
    Reset(ErrorCode),
    /// All input was read.
    More,
}

/// Outcome of [`Connection::end_request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd {
    /// The request is complete.
    Complete,
    /// The request and its content are complete. The caller must take and answer it before the next call.
    Received,
    /// The caller must reset the stream with this code.
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
            streamed: StreamedContents::default(),
            pending_request: None,
            stream_limit: StreamId::LAST_REQUEST,
            next_stream: StreamId::FIRST_REQUEST,
            goaway: None,
            budget: Budget::new(),
            lists: None,
        }
    }

    /// Returns the start of our control stream: its type and our settings.
    #[must_use]
    pub fn control_stream_start() -> Vec<u8> {
        [&stream_type(kind::CONTROL), settings::OURS.as_slice()].concat()
    }

    /// Returns the start of our QPACK encoder stream: just its type. Use [`take_encoder_stream`](Self::take_encoder_stream) for the
    /// rest.
    #[must_use]
    pub fn encoder_stream_start() -> Vec<u8> {
        stream_type(kind::QPACK_ENCODER)
    }

    /// Returns the start of our QPACK decoder stream: just its type. Use [`take_decoder_stream`](Self::take_decoder_stream) for the
    /// rest.
    #[must_use]
    pub fn decoder_stream_start() -> Vec<u8> {
        stream_type(kind::QPACK_DECODER)
    }

    /// Takes bytes to send on our QPACK encoder stream.
    pub fn take_encoder_stream(&mut self) -> Vec<u8> {
        self.encoder.take_encoder_stream()
    }

    /// Takes bytes to send on our QPACK decoder stream.
    pub fn take_decoder_stream(&mut self) -> Vec<u8> {
        self.sections.take_decoder_stream()
    }

    /// Takes the priority updates the peer has sent. For each stream, the last update counts (RFC 9218 §7).
    pub fn take_priorities(&mut self) -> impl Iterator<Item = (StreamId, Priority)> {
        self.lists.iter_mut().flat_map(|lists| lists.changed_priorities.drain(..))
    }

    /// Returns the memory used by incomplete requests, QPACK tables, partial instructions and frames, and
    /// priorities, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let mut requests = self.requests.capacity() * size_of::<Request>();
        for Request { frames, content, .. } in &self.requests {
            requests += frames.memory();
            if let Some(kept) = &content.kept {
                requests += size_of::<KeptRequest>() + kept.request.memory();
            }
        }
        let streams = self.sections.memory() + self.encoder.memory() + self.peer_streams.memory();
        requests + streams + self.streamed.memory() + self.lists.as_ref().map_or(0, |lists| lists.memory())
    }

    /// Frees memory that is only needed while requests arrive.
    pub fn free_unused(&mut self) {
        self.requests.shrink_to_fit();
    }

    /// Returns the time when the oldest incomplete request started to arrive, if any. For content that goes to a handler, the clock
    /// restarts with each block.
    #[must_use]
    pub fn incomplete_since(&self) -> Option<Instant> {
        self.requests.iter().filter_map(|request| request.since).min()
    }

    /// Sets the total number of request streams the peer may open, including closed ones.
    pub fn set_stream_limit(&mut self, streams: u64) {
        self.stream_limit = StreamId::request(streams);
    }

    /// Opens a request stream. Callers must open streams in order.
    #[inline]
    pub fn open(&mut self, stream: StreamId, now: Instant) {
        self.next_stream = self.next_stream.max(stream.next_request());
        if self.requests.capacity() == 0 {
            // `Vec` would allocate room for four requests, but most connections have one at a time.
            self.requests.reserve_exact(1);
        }
        let (frames, content) = Default::default();
        self.requests.push(Request { stream, frames, content, since: Some(now) });
    }

    /// Reads a request stream up to the next request, removing consumed bytes from `input`.
    ///
    /// # Errors
    ///
    /// The connection must be closed with the code.
    #[inline]
    pub fn next_request(
        &mut self,
        stream: StreamId,
        input: &mut &[u8],
        store: &mut HeadStore,
    ) -> Result<Step, ErrorCode> {
        self.budget.set_time(store.seconds());
        let Some(index) = self.position(stream) else {
            // We have reset the stream, and more bytes were in flight.
            *input = &[];
            return Ok(Step::More);
        };
        // The client can retry this request on another connection, since our GOAWAY doesn't cover it.
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
                    // The upload makes progress, so give it more time.
                    Excess::None if request.content.is_streamed => {
                        let streamed = self.streamed.find(stream);
                        let has_begun_block = streamed.is_some_and(|streamed| streamed.receive(content));
                        if has_begun_block && request.since.is_some() {
                            request.since = store.time().or(request.since);
                        }
                    }
                    Excess::None if request.content.has_begun_block(content.len()) => {
                        request.since = store.time().or(request.since);
                    }
                    Excess::None => {}
                    // RFC 9114 §4.1.2: the request is malformed if the lengths differ.
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

    /// Returns the index of a request that we are still reading.
    #[inline]
    fn position(&self, stream: StreamId) -> Option<usize> {
        self.requests.iter().rposition(|request| request.stream == stream)
    }

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
    /// The connection must be closed with the code.
    pub fn end_request(&mut self, stream: StreamId) -> Result<RequestEnd, ErrorCode> {
        let Some(index) = self.position(stream) else { return Ok(RequestEnd::Complete) };
        let request = &self.requests[index];
        let ending = request.frames.end();
        let is_short = request.content.left.is_some_and(|left| left > 0);
        // The request stays in the list until its handler takes it.
        if request.content.kept.is_some() && ending.is_ok() && !is_short {
            return Ok(RequestEnd::Received);
        }

        if request.content.is_streamed
            && ending.is_ok()
            && !is_short
            && let Some(streamed) = self.streamed.find(stream)
        {
            streamed.end();
        }
        self.requests.swap_remove(index);
        let code = match ending {
            // RFC 9114 §4.1.2: the request is malformed if the lengths differ.
            Ok(()) if is_short => ErrorCode::Message,
            Ok(()) => return Ok(RequestEnd::Complete),
            Err(EndError::Stream(code)) => code,
            Err(EndError::Connection(code)) => return Err(code),
        };

        self.budget.charge_reset()?;
        Ok(RequestEnd::Reset(code))
    }

    /// Handles a stream reset: the peer cancels the request (RFC 9114 §4.1.1).
    ///
    /// # Errors
    ///
    /// The peer resets too many streams, so the connection must be closed with the code.
    pub fn cancel_request(&mut self, stream: StreamId) -> Result<(), ErrorCode> {
        self.forget_postponed(stream);
        if let Some(index) = self.position(stream) {
            let request = self.requests.swap_remove(index);
            if !request.frames.has_head() {
                self.sections.skip(stream);
            }
        }
        Ok(self.budget.charge_reset()?)
    }

    /// Stops reading a request whose response is complete. From now on, the rest of the stream will be ignored.
    pub fn stop_reading(&mut self, stream: StreamId) {
        self.forget_postponed(stream);
        self.requests.retain(|request| request.stream != stream);
    }

    /// Keeps a request until its content has arrived.
    pub(super) fn keep(&mut self, pending: PendingRequest, request: StoredRequest, bytes_max: usize) {
        if let Some(index) = self.position(pending.stream) {
            let kept = KeptRequest { request, info: pending.info, bytes_max };
            self.requests[index].content.kept = Some(Box::new(kept));
        }
    }

    /// Passes on the content of a request while it arrives.
    pub(super) fn stream(&mut self, stream: StreamId, bytes_max: u64) {
        self.streamed.add(stream, bytes_max);
        if let Some(index) = self.position(stream) {
            self.requests[index].content.is_streamed = true;
        }
    }

    /// Ignores the rest of a request, which still waits for its response.
    pub(super) fn stop_content(&mut self, stream: StreamId) {
        self.requests.retain(|request| request.stream != stream);
    }

    /// Returns `true` if more of a request may arrive.
    pub(super) fn is_reading(&self, stream: StreamId) -> bool {
        self.position(stream).is_some()
    }

    /// Sets since when the client owes more of a request. `None` means that it must not send more.
    pub(super) fn set_since(&mut self, stream: StreamId, change: impl FnOnce(&mut Option<Instant>)) {
        if let Some(index) = self.position(stream) {
            change(&mut self.requests[index].since);
        }
    }

    /// Takes a request with complete content and stops reading its stream.
    pub(super) fn take_kept(&mut self, stream: StreamId) -> Option<StoredRequest> {
        let index = self.position(stream)?;
        let KeptRequest { request, info, .. } = *self.requests.swap_remove(index).content.kept?;
        self.pending_request = Some(PendingRequest { stream, info });
        Some(request)
    }

    /// Returns `true` if a handler is working on a response.
    #[must_use]
    pub fn has_postponed_requests(&self) -> bool {
        !self.postponed().is_empty()
    }

    /// Returns the requests we will answer later.
    pub(super) fn postponed(&self) -> &[PendingRequest] {
        self.lists.as_ref().map_or(&[], |lists| &lists.postponed)
    }

    fn forget_postponed(&mut self, stream: StreamId) {
        if let Some(lists) = &mut self.lists {
            lists.postponed.retain(|request| request.stream != stream);
        }
    }

    /// Appends a DATA frame with the next bytes of an open body.
    pub fn put_body(bytes: &[u8], output: &mut Output) {
        encode::put_data_head(output, bytes.len() as u64);
        output.put(bytes);
    }

    /// Accounts for a response that was sent completely.
    pub fn finish_response(&mut self) {
        self.budget.credit_response();
    }

    /// Accounts for a response the peer has cancelled (RFC 9000 §3.5).
    ///
    /// # Errors
    ///
    /// The peer cancels too many responses, so the connection must be closed with the code.
    pub fn stop_response(&mut self) -> Result<(), ErrorCode> {
        Ok(self.budget.charge_reset()?)
    }

    /// Appends a GOAWAY to our control stream to ask the peer not to send more requests. Those that still arrive will be answered
    /// (RFC 9114 §5.2).
    pub fn announce_end(&self, control_stream: &mut Vec<u8>) {
        encode::put_goaway(control_stream, StreamId::LAST_REQUEST);
    }

    /// Appends the final GOAWAY to our control stream. Only requests that have arrived by now will be answered.
    pub fn stop_requests(&mut self, control_stream: &mut Vec<u8>) {
        self.goaway = Some(self.next_stream);
        encode::put_goaway(control_stream, self.next_stream);
    }

    /// Rejects a malformed request and stops reading it (RFC 9114 §4.1.2).
    #[cold]
    fn malformed(&mut self, index: usize) -> Result<Step, ErrorCode> {
        self.requests.swap_remove(index);
        self.budget.charge_reset()?;
        Ok(Step::Reset(ErrorCode::Message))
    }

    /// Takes the priority the peer sent before it opened the stream.
    #[inline]
    fn early_priority(&mut self, stream: StreamId) -> Option<Priority> {
        let early_priorities = &mut self.lists.as_mut()?.early_priorities;
        let position = early_priorities.iter().position(|(early, _)| *early == stream)?;
        Some(early_priorities.remove(position).1)
    }

    /// Applies a priority update. It may arrive before the stream is open.
    pub(super) fn set_priority(&mut self, stream: StreamId, priority: Priority) {
        let lists = self.lists.get_or_insert_default();
        if stream < self.next_stream {
            lists.changed_priorities.push((stream, priority));
            return;
        }

        lists.early_priorities.retain(|(early, _)| *early != stream);
        if lists.early_priorities.len() == PRIORITIES_REMEMBERED_MAX {
            lists.early_priorities.remove(0);
        }
        lists.early_priorities.push((stream, priority));
    }
}

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
