//! Writes responses: a HEADERS frame, then one DATA frame with the whole content.
//!
//! We do not need to split content into smaller frames: QUIC will make packets of it, subject to flow control
//! and congestion control. Large bodies are never copied.

use std::time::Instant;

use cannery_archive::Extent;
use cannery_site::{Body, ErrorPage, MultipartPiece};

use super::connection::{Connection, PendingRequest};
use super::encode::{HeadersFrame, put_data_head};
use super::stream_id::StreamId;
use crate::ground::archive_ref::{ArchiveRef, slice};
use crate::limits::STREAM_BODY_COPIED_BYTES_MAX;
use crate::request::stored::StoredRequest;
use crate::request::streamed::Arrival;
use crate::response::Response;
use crate::response::fields::{field_section, field_section_of};
use crate::response::multiplexed::{BodyFollows, CONTINUE, Multiplexed, OwnHead, Resumption};
use crate::response::output::Output;

impl Multiplexed for Connection {
    type StreamId = StreamId;

    #[inline]
    fn respond(&mut self, stream: StreamId, response: &Response<'_>, output: &mut Output) {
        let Some(request) = self.take_request(stream) else { return };
        debug_assert!(!request.info.is_head || matches!(response.answer.body, Body::Empty));
        let head = HeadersFrame::begin(output);
        field_section(&mut self.encoder, response, output.inline_mut());
        head.end(output);

        let Response { answer, archive, .. } = *response;
        match &answer.body {
            Body::Empty => {}
            Body::Archive(extent) => put_extent(*extent, archive, output),
            Body::BuiltIn(page) => put_error_page(page, output),
            Body::Multipart(multipart) => {
                put_data_head(output, multipart.length());
                output.set_archive(archive.number);
                multipart.for_each_piece(&mut |piece| match piece {
                    MultipartPiece::Text(text) => output.put(text),
                    MultipartPiece::Number(number) => output.put_number(number),
                    MultipartPiece::Archive(extent) => output.put_archive(extent),
                });
            }
        }
    }

    fn respond_with_head(&mut self, stream: StreamId, own: &OwnHead<'_>, body: &[u8], output: &mut Output) {
        let Some(request) = self.take_request(stream) else { return };
        let head = HeadersFrame::begin(output);
        field_section_of(&mut self.encoder, own, output.inline_mut());
        head.end(output);
        if !body.is_empty() && !request.info.is_head {
            put_data_head(output, body.len() as u64);
            output.put(body);
        }
    }

    fn begin_response(&mut self, stream: StreamId, own: &OwnHead<'_>, output: &mut Output) -> BodyFollows {
        let Some(request) = self.take_request(stream) else { return BodyFollows::No };
        let head = HeadersFrame::begin(output);
        field_section_of(&mut self.encoder, own, output.inline_mut());
        head.end(output);
        if request.info.is_head { BodyFollows::No } else { BodyFollows::Yes }
    }

    fn awaits_content(&self, _: StreamId) -> bool {
        // We do not know yet if the stream has ended.
        true
    }

    fn announced_content(&self, stream: StreamId) -> Option<u64> {
        self.pending_request.filter(|request| request.stream == stream)?.info.content_length
    }

    fn receive_content(&mut self, stream: StreamId, request: StoredRequest, bytes_max: usize) {
        if let Some(pending) = self.take_request(stream) {
            self.keep(pending, request, bytes_max);
        }
    }

    fn take_received(&mut self, stream: StreamId) -> Option<StoredRequest> {
        self.take_kept(stream)
    }

    fn expects_continue(&self, stream: StreamId) -> bool {
        let pending = self.pending_request.filter(|request| request.stream == stream);
        pending.is_some_and(|request| request.info.expects_continue)
    }

    fn put_continue(&mut self, _: StreamId, output: &mut Output) {
        let head = HeadersFrame::begin(output);
        field_section_of(&mut self.encoder, &OwnHead::new(&CONTINUE), output.inline_mut());
        head.end(output);
    }

    fn stream_content(&mut self, stream: StreamId, bytes_max: u64) {
        self.stream(stream, bytes_max);
    }

    fn take_content(&mut self, stream: StreamId, bytes: &mut Vec<u8>) -> Arrival {
        let is_open = self.is_reading(stream);
        self.streamed.take(stream, is_open, bytes)
    }

    fn permit_content(&mut self, stream: StreamId, now: Instant, _: &mut Output) {
        self.set_since(stream, |since| _ = since.get_or_insert(now));
    }

    fn hold_content(&mut self, stream: StreamId) {
        self.set_since(stream, |since| *since = None);
    }

    /// Callers should ask the peer to stop sending.
    fn discard_content(&mut self, stream: StreamId) {
        self.streamed.remove(stream);
        self.stop_content(stream);
    }

    fn postpone(&mut self, stream: StreamId) {
        if let Some(request) = self.take_request(stream) {
            self.lists.get_or_insert_default().postponed.push(request);
        }
    }

    fn is_postponed(&mut self, stream: StreamId) -> bool {
        self.postponed().iter().any(|request| request.stream == stream)
    }

    fn resume(&mut self, stream: StreamId) -> Resumption {
        let postponed = self.lists.as_mut().map(|lists| &mut lists.postponed);
        let taken = postponed.and_then(|postponed| {
            let index = postponed.iter().position(|request| request.stream == stream)?;
            Some(postponed.swap_remove(index))
        });
        if taken.is_none() {
            return Resumption::Gone;
        }
        self.pending_request = taken;
        Resumption::Ready
    }
}

impl Connection {
    /// Returns the request to answer, or `None` if it was answered before.
    #[inline]
    fn take_request(&mut self, stream: StreamId) -> Option<PendingRequest> {
        let pending = self.pending_request.take();
        debug_assert_eq!(pending.map(|request| request.stream), Some(stream), "each is answered once");
        pending.filter(|request| request.stream == stream)
    }
}

#[inline]
fn put_extent(extent: Extent, archive: ArchiveRef<'_>, output: &mut Output) {
    if extent.length == 0 {
        return;
    }
    put_data_head(output, extent.length);

    if extent.length <= STREAM_BODY_COPIED_BYTES_MAX
        && let Some(body) = slice(archive.bytes, extent)
    {
        output.put(body);
    } else {
        output.set_archive(archive.number);
        output.put_archive(extent);
    }
}

#[cold]
fn put_error_page(page: &ErrorPage<'_>, output: &mut Output) {
    put_data_head(output, page.len() as u64);
    page.for_each_piece(&mut |piece| output.put(piece));
}
