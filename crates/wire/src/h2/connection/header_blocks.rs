//! Header blocks: requests, trailers, and blocks on closed streams (RFC 9113 §4.3, §6.2, §6.10).
//!
//! Every block needs to be decoded (see `head_store.rs`), even if it is going to be ignored, since it may
//! change the table that all later blocks depend on.

use super::{Connection, FrameOutcome, PendingRequest};
use crate::compression::hpack::DecodeError;
use crate::h2::error::{ErrorCode, Fault};
use crate::h2::flow::Window;
use crate::h2::frame::{self, FrameHead, flag};
use crate::h2::stream::Content;
use crate::limits::{BLOCK_BYTES_MAX, CONTINUATIONS_MAX};
use crate::request::head::Version;
use crate::request::head_store::{HeadStore, Trailers, Verdict};

/// An incomplete header block (RFC 9113 §4.3).
#[derive(Debug)]
pub(super) struct HeaderBlock {
    start: BlockStart,
    bytes: Vec<u8>,
    continuations: u8,
}

impl HeaderBlock {
    pub(super) fn memory(&self) -> usize {
        size_of::<HeaderBlock>() + self.bytes.capacity()
    }
}

/// The HEADERS frame at the start of a block, without its payload.
#[derive(Debug, Clone, Copy)]
struct BlockStart {
    id: u32,
    /// Whether the stream ends after this block.
    ends_stream: bool,
    role: BlockRole,
    /// Whether the stream depends on itself (RFC 7540 §5.3.1).
    depends_on_itself: bool,
}

/// Purpose of a header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockRole {
    /// It opens a stream.
    Request,
    /// It ends request content.
    Trailers,
    /// Nothing: the peer has already ended the stream, so this is an error.
    AfterEnd,
    /// Nothing: we reset the stream, or will not answer it.
    Ignored,
}

impl Connection {
    /// Starts a header block and handles it when it is complete.
    #[inline]
    pub(super) fn handle_headers(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        store: &mut HeadStore,
    ) -> Result<FrameOutcome, Fault> {
        let mut block = frame::unpadded(head, payload)?;
        let mut depends_on_itself = false;
        if head.has(flag::PRIORITY) {
            let (dependency, rest) = block.split_first_chunk::<5>().ok_or(ErrorCode::FrameSize)?;
            depends_on_itself = frame::depends_on(dependency) == head.stream;
            block = rest;
        }

        let role = self.role_of(head.stream)?;
        let ends_stream = head.has(flag::END_STREAM);
        let start = BlockStart { id: head.stream, ends_stream, role, depends_on_itself };

        if head.has(flag::END_HEADERS) {
            return self.handle_block(start, block, store);
        }

        // The rest of the block will come in CONTINUATION frames.
        self.partial_since = self.time;
        self.block = Some(Box::new(HeaderBlock { start, bytes: block.to_vec(), continuations: 0 }));
        Ok(FrameOutcome::Continue)
    }

    /// Continues an incomplete header block and handles it when it is complete now.
    #[cold]
    pub(super) fn handle_continuation(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        store: &mut HeadStore,
    ) -> Result<FrameOutcome, Fault> {
        let Some(mut block) = self.block.take().filter(|block| block.start.id == head.stream) else {
            return Err(ErrorCode::Protocol.into());
        };

        // We need to bound both the number of frames and the size of the block (CONTINUATION flood).
        block.continuations += 1;
        let length = block.bytes.len() + payload.len();
        if block.continuations > CONTINUATIONS_MAX || length > BLOCK_BYTES_MAX {
            return Err(ErrorCode::EnhanceYourCalm.into());
        }
        if payload.is_empty() {
            self.budget.charge_frame()?;
        }

        block.bytes.extend_from_slice(payload);
        if head.has(flag::END_HEADERS) {
            return self.handle_block(block.start, &block.bytes, store);
        }
        self.block = Some(block);
        Ok(FrameOutcome::Continue)
    }

    /// Handles a complete header block. Most blocks are requests that can use the fast path.
    #[inline]
    fn handle_block(
        &mut self,
        start: BlockStart,
        block: &[u8],
        store: &mut HeadStore,
    ) -> Result<FrameOutcome, Fault> {
        if start.role != BlockRole::Request || start.depends_on_itself || self.streams.is_full() {
            return self.handle_other_block(start, block, store);
        }

        let decoder = &mut self.decoder;
        let verdict = store.read_request(Version::Http2, |strings, fields| {
            decoder.decode(block, strings, |field| fields.take(field))
        });
        let verdict = verdict.map_err(connection_error)?;
        let (info, outcome) = match verdict {
            Verdict::Request(info) => (info, FrameOutcome::Request),
            Verdict::Refused(info, refusal) => (info, FrameOutcome::Refused(refusal)),
            Verdict::Malformed => return Err(self.reject(start, ErrorCode::Protocol)),
        };
        // RFC 9113 §8.1.1: a request without content MUST NOT announce any.
        if start.ends_stream && info.content_length.is_some_and(|length| length > 0) {
            return Err(self.reject(start, ErrorCode::Protocol));
        }

        let content = if start.ends_stream { Content::Ended } else { Content::pending(info.content_length) };
        let window = Window::new(self.initial_window);
        self.pending_request = Some(PendingRequest { id: start.id, info, content, window });
        if !self.early_priorities.is_empty() {
            self.apply_early_priority(start.id);
        }
        Ok(outcome)
    }

    /// Handles a header block that is not a request, or a request we have to refuse.
    #[cold]
    fn handle_other_block(
        &mut self,
        start: BlockStart,
        block: &[u8],
        store: &mut HeadStore,
    ) -> Result<FrameOutcome, Fault> {
        let BlockStart { id, ends_stream, role, .. } = start;
        // We need to decode the block in any case to keep the tables in sync.
        let decoder = &mut self.decoder;
        let trailers = store
            .read_trailers(|strings, fields| decoder.decode(block, strings, |field| fields.take(&field)));
        let trailers = trailers.map_err(connection_error)?;

        match role {
            BlockRole::Request if start.depends_on_itself => Err(self.reject(start, ErrorCode::Protocol)),
            BlockRole::Request => Err(self.reject(start, ErrorCode::RefusedStream)),
            BlockRole::AfterEnd => Err(Fault::Stream(id, ErrorCode::StreamClosed)),
            _ if start.depends_on_itself => Err(Fault::Stream(id, ErrorCode::Protocol)),
            BlockRole::Trailers if !ends_stream || trailers == Trailers::Malformed => {
                Err(Fault::Stream(id, ErrorCode::Protocol))
            }
            BlockRole::Trailers => self.end_content(id),
            BlockRole::Ignored => {
                self.budget.charge_frame()?;
                if ends_stream {
                    self.forget_reset(id);
                }
                Ok(FrameOutcome::Continue)
            }
        }
    }

    /// Returns a stream error for a request we reset instead of answering it.
    fn reject(&mut self, start: BlockStart, code: ErrorCode) -> Fault {
        if !start.ends_stream {
            // Remember to ignore the content, which might be in flight already.
            self.remember_reset(start.id);
        }
        Fault::Stream(start.id, code)
    }
}

fn connection_error(error: DecodeError) -> Fault {
    Fault::Connection(match error {
        DecodeError::TooLarge => ErrorCode::EnhanceYourCalm,
        _ => ErrorCode::Compression,
    })
}
