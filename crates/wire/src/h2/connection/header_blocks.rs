//! Header blocks: what opens a stream, ends a request's content, or comes too late (RFC 9113 §4.3, §6.2, §6.10).
//!
//! Never reads a field: `request.rs` does, whatever a block is for, since it changes the table of all that follow.

use super::{Asked, Connection, Taken};
use crate::h2::error::{ErrorCode, Fault};
use crate::h2::frame::{self, FrameHead, flag};
use crate::h2::request::{HeadStore, Verdict};
use crate::h2::stream::Content;
use crate::hpack::DecodeError;
use crate::limits::{BLOCK_BYTES_MAX, CONTINUATIONS_MAX};

/// A header block that is not whole (RFC 9113 §4.3).
#[derive(Debug)]
pub(super) struct Block {
    begun: Begun,
    bytes: Vec<u8>,
    continuations: u8,
}

impl Block {
    /// The memory that it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Block>() + self.bytes.capacity()
    }
}

/// What HEADERS said beside its block.
#[derive(Debug, Clone, Copy)]
struct Begun {
    id: u32,
    /// Whether the request has no content behind the block.
    ended: bool,
    role: Role,
    /// Whether it says that the stream depends on itself (RFC 7540 §5.3.1).
    is_circular: bool,
}

/// What a header block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It opens a stream.
    Request,
    /// It ends the content of a request.
    Trailers,
    /// It came behind its stream's end.
    Late,
    /// Its stream was reset, or will not be answered: nothing.
    Nothing,
}

impl Connection {
    #[inline]
    pub(super) fn take_headers(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        store: &mut HeadStore,
    ) -> Result<Taken, Fault> {
        let mut block = frame::unpadded(head, payload)?;
        let mut is_circular = false;
        if head.has(flag::PRIORITY) {
            let (dependency, rest) = block.split_first_chunk::<5>().ok_or(ErrorCode::FrameSize)?;
            is_circular = frame::depends_on(dependency) == head.stream;
            block = rest;
        }
        let role = self.role_of(head.stream)?;
        let begun = Begun { id: head.stream, ended: head.has(flag::END_STREAM), role, is_circular };
        if head.has(flag::END_HEADERS) {
            return self.take_block(begun, block, store);
        }
        self.block = Some(Box::new(Block { begun, bytes: block.to_vec(), continuations: 0 }));
        Ok(Taken::Nothing)
    }

    #[cold]
    pub(super) fn take_continuation(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        store: &mut HeadStore,
    ) -> Result<Taken, Fault> {
        let Some(mut block) = self.block.take().filter(|block| block.begun.id == head.stream) else {
            return Err(ErrorCode::Protocol.into());
        };
        block.continuations += 1;
        let length = block.bytes.len() + payload.len();
        if block.continuations > CONTINUATIONS_MAX || length > BLOCK_BYTES_MAX {
            return Err(ErrorCode::EnhanceYourCalm.into());
        }
        if payload.is_empty() {
            self.budget.frame()?;
        }
        block.bytes.extend_from_slice(payload);
        if head.has(flag::END_HEADERS) {
            return self.take_block(block.begun, &block.bytes, store);
        }
        self.block = Some(block);
        Ok(Taken::Nothing)
    }

    /// A header block is whole.
    #[inline]
    fn take_block(&mut self, begun: Begun, block: &[u8], store: &mut HeadStore) -> Result<Taken, Fault> {
        if begun.role != Role::Request || begun.is_circular || self.streams.is_full() {
            return self.take_odd_block(begun, block, store);
        }
        let verdict = store.read(&mut self.decoder, block, begun.ended).map_err(code_of)?;
        let (about, taken) = match verdict {
            Verdict::Request(about) => (about, Taken::Request),
            Verdict::Refused(about, refusal) => (about, Taken::Refused(refusal)),
            Verdict::Malformed => return Err(self.unanswered(begun, ErrorCode::Protocol)),
        };
        let content = if begun.ended { Content::Ended } else { Content::coming(about.content_length) };
        self.asked = Some(Asked { id: begun.id, about, content });
        if !self.priorities.is_empty() {
            self.take_early_priority(begun.id);
        }
        Ok(taken)
    }

    /// A header block that is no request, or one that gets no answer.
    #[cold]
    fn take_odd_block(&mut self, begun: Begun, block: &[u8], store: &mut HeadStore) -> Result<Taken, Fault> {
        let Begun { id, ended, role, .. } = begun;
        let may_be_trailers = store.read_trailers(&mut self.decoder, block).map_err(code_of)?;
        match role {
            Role::Request if begun.is_circular => Err(self.unanswered(begun, ErrorCode::Protocol)),
            Role::Request => Err(self.unanswered(begun, ErrorCode::RefusedStream)),
            Role::Late => Err(Fault::Stream(id, ErrorCode::StreamClosed)),
            _ if begun.is_circular => Err(Fault::Stream(id, ErrorCode::Protocol)),
            Role::Trailers if !ended || !may_be_trailers => Err(Fault::Stream(id, ErrorCode::Protocol)),
            Role::Trailers => self.end_content(id).map(|()| Taken::Nothing),
            Role::Nothing => {
                self.budget.frame()?;
                if ended {
                    self.end_cut_off(id);
                }
                Ok(Taken::Nothing)
            }
        }
    }

    /// A stream that was opened is to be reset before it got anywhere.
    fn unanswered(&mut self, begun: Begun, code: ErrorCode) -> Fault {
        if !begun.ended {
            // What follows the head may be under way: let it pass.
            self.cut_off(begun.id);
        }
        Fault::Stream(begun.id, code)
    }
}

fn code_of(error: DecodeError) -> Fault {
    Fault::Connection(match error {
        DecodeError::TooLarge => ErrorCode::EnhanceYourCalm,
        _ => ErrorCode::Compression,
    })
}
