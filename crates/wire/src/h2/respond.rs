//! Writes responses. We always write heads at once. If possible, bodies follow immediately; otherwise, they
//! wait for their turn and for the peer's flow-control windows.
//!
//! Large bodies are never copied.

use std::time::Instant;

use cannery_archive::Extent;
use cannery_site::{Body as AnswerBody, ErrorPage};

use super::body::Body;
use super::connection::{Connection, PendingRequest, StreamId};
use super::frame::{self, FrameHead, HEAD_BYTES, PAYLOAD_BYTES_MAX, flag, kind};
use super::kept_request::KeptRequest;
use super::stream::Content;
use crate::ground::archive_ref::{ArchiveRef, slice};
use crate::limits::COPIED_BODY_BYTES_MAX;
use crate::request::stored::StoredRequest;
use crate::request::streamed::Arrival;
use crate::response::Response;
use crate::response::fields::{field_section, field_section_of};
use crate::response::multiplexed::{BodyFollows, CONTINUE, Multiplexed, OwnHead, Resumption};
use crate::response::output::Output;

impl Multiplexed for Connection {
    type StreamId = StreamId;

    /// Writes the head now. Unless the body is small enough to follow at once, [`Connection::fill`] will
    /// write it.
    #[inline]
    fn respond(&mut self, stream: StreamId, response: &Response<'_>, output: &mut Output) {
        let Some(request) = self.take_request(stream) else { return };
        debug_assert!(!request.info.is_head || matches!(response.answer.body, AnswerBody::Empty));
        let head = HeadersFrame::begin(output);
        field_section(&mut self.encoder, response, output.inline_mut());

        let Response { answer, archive, .. } = *response;
        // Except for empty ones, bodies end the stream with their last DATA frame.
        match &answer.body {
            AnswerBody::Archive(extent) if extent.length > 0 => {
                head.end(request.id, 0, output);
                self.send_extent(request, *extent, archive, output);
            }
            AnswerBody::BuiltIn(page) => {
                head.end(request.id, 0, output);
                self.send_error_page(request, page, output);
            }
            AnswerBody::Multipart(multipart) => {
                head.end(request.id, 0, output);
                self.queue(request, Body::from_multipart(multipart, archive.number));
            }
            AnswerBody::Empty | AnswerBody::Archive(_) => {
                head.end(request.id, flag::END_STREAM, output);
                self.finish_response(request, 0);
            }
        }
    }

    fn respond_with_head(&mut self, stream: StreamId, own: &OwnHead<'_>, body: &[u8], output: &mut Output) {
        let Some(request) = self.take_request(stream) else { return };
        let head = HeadersFrame::begin(output);
        field_section_of(&mut self.encoder, own, output.inline_mut());
        if body.is_empty() || request.info.is_head {
            head.end(request.id, flag::END_STREAM, output);
            self.finish_response(request, 0);
        } else {
            head.end(request.id, 0, output);
            self.send_text(request, body, output);
        }
    }

    fn begin_response(&mut self, stream: StreamId, own: &OwnHead<'_>, output: &mut Output) -> BodyFollows {
        let Some(request) = self.take_request(stream) else { return BodyFollows::No };
        let head = HeadersFrame::begin(output);
        field_section_of(&mut self.encoder, own, output.inline_mut());
        if request.info.is_head {
            head.end(request.id, flag::END_STREAM, output);
            self.finish_response(request, 0);
            return BodyFollows::No;
        }
        head.end(request.id, 0, output);
        self.queue(request, Body::Open(Box::default()));
        BodyFollows::Yes
    }

    fn awaits_content(&self, stream: StreamId) -> bool {
        let pending = self.pending_request.filter(|request| request.id == stream.number());
        pending.is_some_and(|request| request.content != Content::Ended)
    }

    fn announced_content(&self, stream: StreamId) -> Option<u64> {
        self.pending_request.filter(|request| request.id == stream.number())?.info.content_length
    }

    fn receive_content(&mut self, stream: StreamId, request: StoredRequest, bytes_max: usize) {
        self.keep(stream, Some(KeptRequest { request, bytes_max }));
    }

    fn take_received(&mut self, stream: StreamId) -> Option<StoredRequest> {
        self.resume_kept(stream).flatten()
    }

    fn expects_continue(&self, stream: StreamId) -> bool {
        let pending = self.pending_request.filter(|request| request.id == stream.number());
        pending.is_some_and(|request| request.info.expects_continue && request.content != Content::Ended)
    }

    fn put_continue(&mut self, stream: StreamId, output: &mut Output) {
        let head = HeadersFrame::begin(output);
        field_section_of(&mut self.encoder, &OwnHead::new(&CONTINUE), output.inline_mut());
        head.end(stream.number(), 0, output);
    }

    fn stream_content(&mut self, stream: StreamId, bytes_max: u64) {
        let has_ended = self.streams.find(stream.number()).is_none_or(|open| open.content == Content::Ended);
        let streamed = self.streamed.add(stream.number(), bytes_max);
        if has_ended {
            streamed.end();
        }
    }

    fn take_content(&mut self, stream: StreamId, bytes: &mut Vec<u8>) -> Arrival {
        let is_open = self.streams.find(stream.number()).is_some();
        self.streamed.take(stream.number(), is_open, bytes)
    }

    fn permit_content(&mut self, stream: StreamId, now: Instant, output: &mut Output) {
        let Some(stream) = self.streams.find(stream.number()) else { return };
        stream.since.get_or_insert(now);
        if let Some(bytes) = stream.content.reopen_window() {
            frame::put_stream_window_update(output, stream.id, bytes);
        }
    }

    fn hold_content(&mut self, stream: StreamId) {
        if let Some(stream) = self.streams.find(stream.number()) {
            stream.since = None;
        }
    }

    fn discard_content(&mut self, stream: StreamId) {
        self.streamed.remove(stream.number());
    }

    fn postpone(&mut self, stream: StreamId) {
        self.keep(stream, None);
    }

    fn is_postponed(&mut self, stream: StreamId) -> bool {
        self.streams.find(stream.number()).is_some_and(|stream| stream.request.is_some())
    }

    fn resume(&mut self, stream: StreamId) -> Resumption {
        match self.resume_kept(stream) {
            Some(_) => Resumption::Ready,
            None => Resumption::Gone,
        }
    }
}

impl Connection {
    /// Writes pending bodies by priority, as far as there is room in the peer's windows and in the output.
    ///
    /// Callers should do this after they answered requests, and each time they have sent the output.
    pub fn fill(&mut self, output: &mut Output) {
        while self.has_pending_bytes() && output.has_room() {
            let connection_window = self.window.bytes();
            let Some(stream) = self.streams.next_to_send(connection_window) else { return };
            let id = stream.id;
            let window = connection_window.min(stream.window.bytes());
            let Some(body) = &mut stream.body else { return };

            // Each turn writes a single frame, after which another stream might be due.
            let bytes = body.chunk_bytes(window.min(PAYLOAD_BYTES_MAX));
            let is_last = u64::from(bytes) == body.left() && body.is_complete();
            put_data_head(output, id, bytes, if is_last { flag::END_STREAM } else { 0 });
            body.put(bytes.into(), output);

            stream.window.consume(bytes);
            self.window.consume(bytes);
            self.budget.credit_data(bytes);
            if is_last {
                self.streams.end_body(id);
                self.budget.credit_response();
                self.remove_if_done(id, output);
            }
        }
    }

    /// Returns the request to answer, or `None` if it was answered before.
    #[inline]
    pub(super) fn take_request(&mut self, stream: StreamId) -> Option<PendingRequest> {
        let pending = self.pending_request.take();
        debug_assert_eq!(pending.map(|request| request.id), Some(stream.number()), "each is answered once");
        pending.filter(|request| request.id == stream.number())
    }

    /// Accounts for a complete response with this number of content bytes.
    #[inline]
    fn finish_response(&mut self, request: PendingRequest, bytes: u32) {
        self.budget.credit_response();
        // We still need to read the rest of the request content.
        if request.content != Content::Ended {
            self.add_stream(request, None, bytes);
        }
    }

    /// Leaves a body to [`Connection::fill`].
    #[cold]
    fn queue(&mut self, request: PendingRequest, body: Body) {
        self.add_stream(request, Some(body), 0);
    }

    #[inline]
    fn send_extent(
        &mut self,
        request: PendingRequest,
        extent: Extent,
        archive: ArchiveRef<'_>,
        output: &mut Output,
    ) {
        if let Some(body) = slice(archive.bytes, extent)
            && let Some(length) = self.immediate_bytes(&request, body.len())
        {
            self.put_body(request, body, length, output);
        } else {
            self.queue(request, Body::Archive(archive.number, extent));
        }
    }

    fn send_text(&mut self, request: PendingRequest, text: &[u8], output: &mut Output) {
        match self.immediate_bytes(&request, text.len()) {
            Some(length) => self.put_body(request, text, length, output),
            None => self.queue(request, Body::from_text(text)),
        }
    }

    #[cold]
    fn send_error_page(&mut self, request: PendingRequest, page: &ErrorPage<'_>, output: &mut Output) {
        let Some(length) = self.immediate_bytes(&request, page.len()) else {
            return self.queue(request, Body::from_error_page(page));
        };
        put_data_head(output, request.id, length, flag::END_STREAM);
        page.for_each_piece(&mut |piece| output.put(piece));
        self.finish_body(request, length);
    }

    /// Returns the length of a body that may be sent right after its head, or `None`. To qualify, the body
    /// must be small and fit the peer's windows, and no other body waiting to be sent may be at least as
    /// urgent.
    #[inline]
    fn immediate_bytes(&self, request: &PendingRequest, bytes: usize) -> Option<u32> {
        let length = u32::try_from(bytes).ok()?;
        let is_immediate = u64::from(length) <= COPIED_BODY_BYTES_MAX
            && length <= self.window.bytes().min(request.window.bytes())
            && !self.streams.has_bodies_before(request.info.priority.urgency);
        is_immediate.then_some(length)
    }

    /// Writes a DATA frame with the whole body.
    #[inline]
    fn put_body(&mut self, request: PendingRequest, body: &[u8], length: u32, output: &mut Output) {
        put_data_head(output, request.id, length, flag::END_STREAM);
        output.put(body);
        self.finish_body(request, length);
    }

    /// Accounts for a body that was written right after its head.
    #[inline]
    fn finish_body(&mut self, request: PendingRequest, bytes: u32) {
        self.window.consume(bytes);
        self.budget.credit_data(bytes);
        self.finish_response(request, bytes);
    }
}

/// A HEADERS frame under construction. We leave room for the frame head and fill it in later, because we do
/// not know the length before the header block is encoded.
struct HeadersFrame {
    start: usize,
}

impl HeadersFrame {
    #[inline]
    fn begin(output: &mut Output) -> HeadersFrame {
        let start = output.inline_bytes();
        output.put(&[0; HEAD_BYTES]);
        HeadersFrame { start }
    }

    #[inline]
    fn end(self, stream: u32, flags: u8, output: &mut Output) {
        let length = output.inline_bytes() - self.start - HEAD_BYTES;
        if length > PAYLOAD_BYTES_MAX as usize {
            return self.end_in_fragments(stream, flags, output);
        }
        let head = FrameHead { length, kind: kind::HEADERS, flags: flags | flag::END_HEADERS, stream };
        output.overwrite(self.start, &head.bytes());
    }

    /// Splits a block that exceeds the frame size into HEADERS and CONTINUATION (RFC 9113 §4.3).
    #[cold]
    fn end_in_fragments(self, stream: u32, flags: u8, output: &mut Output) {
        let block = output.split_off(self.start + HEAD_BYTES);
        output.split_off(self.start);
        let fragments = block.chunks(PAYLOAD_BYTES_MAX as usize);
        let count = fragments.len();
        for (number, fragment) in fragments.enumerate() {
            let (kind, mut flags) =
                if number == 0 { (kind::HEADERS, flags) } else { (kind::CONTINUATION, 0) };
            if number + 1 == count {
                flags |= flag::END_HEADERS;
            }
            output.put(&FrameHead { length: fragment.len(), kind, flags, stream }.bytes());
            output.put(fragment);
        }
    }
}

/// Appends the head of a DATA frame.
#[inline]
fn put_data_head(output: &mut Output, stream: u32, bytes: u32, flags: u8) {
    output.put(&FrameHead { length: bytes as usize, kind: kind::DATA, flags, stream }.bytes());
}
