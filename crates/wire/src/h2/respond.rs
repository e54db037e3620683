//! Answers on a connection: heads at once, bodies at once or when their turn and the peer's windows allow.
//!
//! Never spells a head itself, and never copies a large body.

use cannery_archive::Extent;
use cannery_site::{Answer, Body as AnswerBody, ErrorPage};

use super::body::Body;
use super::connection::{Asked, Connection, StreamId};
use super::encode;
use super::frame::{FrameHead, HEAD_BYTES, PAYLOAD_BYTES, flag, kind};
use super::stream::Content;
use crate::archive_ref::{ArchiveRef, slice};
use crate::hpack::put_field;
use crate::limits::COPIED_BODY_BYTES_MAX;
use crate::output::Output;
use crate::server_fields::ServerFields;

impl Connection {
    /// Answers a request: the head now, the body now or by [`Connection::fill`].
    #[inline]
    pub fn respond(
        &mut self,
        stream: StreamId,
        answer: &Answer<'_>,
        archive: ArchiveRef<'_>,
        fields: &ServerFields,
        output: &mut Output,
    ) {
        let Some(asked) = self.take_asked(stream) else { return };
        let head = Head::begin(output);
        encode::head(&mut self.encoder, answer, archive, fields, output.inline_mut());
        match &answer.body {
            AnswerBody::Archive(extent) if extent.length > 0 => {
                head.end(asked.id, 0, output);
                self.send_extent(asked, *extent, archive, output);
            }
            AnswerBody::BuiltIn(page) => {
                head.end(asked.id, 0, output);
                self.send_error_page(asked, page, output);
            }
            AnswerBody::Multipart(multipart) => {
                head.end(asked.id, 0, output);
                self.queue(asked, Body::of_multipart(multipart, archive.number));
            }
            AnswerBody::Empty | AnswerBody::Archive(_) => {
                head.end(asked.id, flag::END_STREAM, output);
                self.answered(asked, 0);
            }
        }
    }

    /// Answers what [`super::Step::Refused`] told of, with the status of its refusal.
    pub fn refuse(
        &mut self,
        stream: StreamId,
        answer: &Answer<'_>,
        archive: ArchiveRef<'_>,
        fields: &ServerFields,
        output: &mut Output,
    ) {
        // RFC 9110 §9.3.2 knows no exception.
        let is_head = self.asked.is_some_and(|asked| asked.about.is_head);
        let answer = if is_head { answer.without_body() } else { *answer };
        self.respond(stream, &answer, archive, fields, output);
    }

    /// Answers a request with fields that are spelled now, `:status` first, their names in small letters. Of the body
    /// nothing is sent to `HEAD`.
    pub fn respond_with_fields(
        &mut self,
        stream: StreamId,
        fields: &[(&str, &[u8])],
        body: &[u8],
        output: &mut Output,
    ) {
        let Some(asked) = self.take_asked(stream) else { return };
        let head = Head::begin(output);
        // A new size of the table is told before the first field that follows, whatever it is.
        self.encoder.begin_block(output.inline_mut(), ArchiveRef::NONE.number, ArchiveRef::NONE.identity);
        fields.iter().for_each(|(name, value)| put_field(output.inline_mut(), name, value));
        if body.is_empty() || asked.about.is_head {
            head.end(asked.id, flag::END_STREAM, output);
            self.answered(asked, 0);
        } else {
            head.end(asked.id, 0, output);
            self.send_text(asked, body, output);
        }
    }

    /// Puts what waits into `output`, by priority and as far as the peer's windows and the output have room: to be
    /// called when requests are answered, and when the output has been sent.
    pub fn fill(&mut self, output: &mut Output) {
        while self.has_bodies() && output.has_room() && self.window.bytes() > 0 {
            let room = self.window.bytes();
            let Some(stream) = self.streams.next_to_send() else { return };
            let (id, room) = (stream.id, room.min(stream.window.bytes()));
            let Some(body) = &mut stream.body else { return };
            let bytes = body.left().min(body.bytes_at_once()).min(PAYLOAD_BYTES as u64).min(room.into());
            let is_last = bytes == body.left();
            put_data_head(output, id, bytes, is_last);
            body.put(bytes, output);
            // No more than a frame holds.
            let bytes = u32::try_from(bytes).unwrap_or(0);
            stream.window.take(bytes);
            self.window.take(bytes);
            self.budget.content_sent(bytes);
            if is_last {
                self.streams.end_body(id);
                self.budget.answered();
                self.settle(id, output);
            }
        }
    }

    /// The request that is to be answered; nothing if it was answered before.
    #[inline]
    fn take_asked(&mut self, stream: StreamId) -> Option<Asked> {
        debug_assert_eq!(self.asked.map(|asked| asked.id), Some(stream.number()), "each is answered once");
        self.asked.take().filter(|asked| asked.id == stream.number())
    }

    /// The whole answer has left, with so many bytes of body.
    #[inline]
    fn answered(&mut self, asked: Asked, bytes: u32) {
        self.budget.answered();
        if asked.content != Content::Ended {
            self.add_stream(asked, None, bytes);
        }
    }

    /// The body waits for its turn.
    #[cold]
    fn queue(&mut self, asked: Asked, body: Body) {
        self.add_stream(asked, Some(body), 0);
    }

    #[inline]
    fn send_extent(&mut self, asked: Asked, extent: Extent, archive: ArchiveRef<'_>, output: &mut Output) {
        match slice(archive.bytes, extent) {
            Some(bytes) if self.leaves_at_once(&asked, bytes.len()) => self.put_whole(asked, bytes, output),
            _ => self.queue(asked, Body::Archive(archive.number, extent)),
        }
    }

    fn send_text(&mut self, asked: Asked, text: &[u8], output: &mut Output) {
        if self.leaves_at_once(&asked, text.len()) {
            self.put_whole(asked, text, output);
        } else {
            self.queue(asked, Body::of_text(text));
        }
    }

    #[cold]
    fn send_error_page(&mut self, asked: Asked, page: &ErrorPage<'_>, output: &mut Output) {
        if !self.leaves_at_once(&asked, page.len()) {
            return self.queue(asked, Body::of_error_page(page));
        }
        put_data_head(output, asked.id, page.len() as u64, true);
        page.for_each_piece(&mut |piece| output.put(piece));
        self.whole_put(asked, page.len());
    }

    /// Whether a body is small, the peer has room for it, and nothing that is as urgent waits.
    #[inline]
    fn leaves_at_once(&self, asked: &Asked, bytes: usize) -> bool {
        bytes as u64 <= COPIED_BODY_BYTES_MAX
            && bytes <= self.window.bytes().min(self.stream_window) as usize
            && !self.streams.has_bodies_before(asked.about.priority.urgency)
    }

    /// Puts a whole body behind its head.
    #[inline]
    fn put_whole(&mut self, asked: Asked, bytes: &[u8], output: &mut Output) {
        put_data_head(output, asked.id, bytes.len() as u64, true);
        output.put(bytes);
        self.whole_put(asked, bytes.len());
    }

    /// Accounts for a whole body that was put behind its head.
    #[inline]
    fn whole_put(&mut self, asked: Asked, bytes: usize) {
        // It fits the window, whose size is a u32.
        let bytes = u32::try_from(bytes).unwrap_or(0);
        self.window.take(bytes);
        self.budget.content_sent(bytes);
        self.answered(asked, bytes);
    }
}

/// A header block that is being spelled into an output, behind room for the head of its frame.
struct Head {
    place: usize,
}

impl Head {
    #[inline]
    fn begin(output: &mut Output) -> Head {
        let place = output.inline_bytes();
        output.put(&[0; HEAD_BYTES]);
        Head { place }
    }

    /// Fills in the head of the frame. A block that is larger than a frame is cut (RFC 9113 §4.3).
    #[inline]
    fn end(self, stream: u32, flags: u8, output: &mut Output) {
        let length = output.inline_bytes() - self.place - HEAD_BYTES;
        if length > PAYLOAD_BYTES {
            return self.end_cut(stream, flags, output);
        }
        let head = FrameHead { length, kind: kind::HEADERS, flags: flags | flag::END_HEADERS, stream };
        output.overwrite(self.place, &head.bytes());
    }

    #[cold]
    fn end_cut(self, stream: u32, flags: u8, output: &mut Output) {
        let block = output.split_off(self.place + HEAD_BYTES);
        output.split_off(self.place);
        let count = block.len().div_ceil(PAYLOAD_BYTES);
        for (number, part) in block.chunks(PAYLOAD_BYTES).enumerate() {
            let (kind, mut flags) =
                if number == 0 { (kind::HEADERS, flags) } else { (kind::CONTINUATION, 0) };
            if number + 1 == count {
                flags |= flag::END_HEADERS;
            }
            output.put(&FrameHead { length: part.len(), kind, flags, stream }.bytes());
            output.put(part);
        }
    }
}

#[inline]
fn put_data_head(output: &mut Output, stream: u32, bytes: u64, is_last: bool) {
    // No more than a frame holds.
    let length = usize::try_from(bytes).unwrap_or(0);
    let flags = if is_last { flag::END_STREAM } else { 0 };
    output.put(&FrameHead { length, kind: kind::DATA, flags, stream }.bytes());
}
