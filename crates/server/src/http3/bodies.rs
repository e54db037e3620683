//! Response bytes that QUIC keeps until the client has acknowledged them: copies of heads, and archive ranges.
//!
//! Archive ranges are not copied; instead, the archive stays mapped for as long as a client might need
//! the range again.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cannery_archive::Extent;
use cannery_wire::{Output, Segment};

use super::limits::BLOCK_BYTES;
use crate::content::Content;

/// Blocks to check for being unused whenever another one is started.
const BLOCKS_CHECKED: usize = 4;

/// Blocks that a worker will always keep.
const IDLE_BLOCKS: usize = 32;

/// Produces response bytes.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    /// Rest of the current block. Responses take their parts from it, one after the other.
    block: BytesMut,
    /// For each block that responses may still need, a part of it. Oldest first.
    blocks: VecDeque<Bytes>,
    /// Archives of the release used last. Each owner counts its references, so all ranges share one.
    archives: Vec<(u16, Bytes)>,
    /// The release that `archives` belong to.
    content: Option<Arc<Content>>,
    /// Pieces of the response being written.
    pieces: Vec<Bytes>,
}

/// Owns the bytes of an archive.
struct Archive {
    content: Arc<Content>,
    number: u16,
}

impl AsRef<[u8]> for Archive {
    fn as_ref(&self) -> &[u8] {
        self.content.archive(self.number)
    }
}

impl Bodies {
    /// Returns the pieces of the response in `output`, and clears the output.
    pub(super) fn pieces(&mut self, output: &mut Output, content: &Arc<Content>) -> &mut Vec<Bytes> {
        self.pieces.clear();
        let (inline, segments) = output.parts();
        let mut inline = self.copy(inline);
        for segment in segments {
            let piece = match *segment {
                Segment::Inline(bytes) => inline.split_to(bytes),
                Segment::Archive(number, extent) => self.range(content, number, extent),
            };
            self.pieces.push(piece);
        }
        output.clear();
        &mut self.pieces
    }

    /// Copies bytes to the current block.
    fn copy(&mut self, bytes: &[u8]) -> Bytes {
        if self.block.capacity() < bytes.len() {
            self.begin_block(bytes.len());
        }
        self.block.extend_from_slice(bytes);
        self.block.split().freeze()
    }

    /// Starts a block with room for at least this many bytes.
    fn begin_block(&mut self, bytes: usize) {
        // Blocks are typically released about as fast as new ones are started. If clients do not keep
        // them, there should only be a few.
        for _ in 0..BLOCKS_CHECKED {
            let Some(oldest) = self.blocks.pop_front() else { break };
            if !oldest.is_unique() {
                self.blocks.push_back(oldest);
            }
        }
        // The first byte does not belong to any response; it tells us whether the block is still in
        // use.
        self.block = BytesMut::with_capacity(bytes.max(BLOCK_BYTES - 1) + 1);
        self.block.extend_from_slice(&[0]);
        self.blocks.push_back(self.block.split().freeze());
    }

    /// Frees blocks that no response needs any more.
    pub(super) fn free_unused(&mut self) {
        self.blocks.retain(|block| !block.is_unique());
    }

    /// The size, in bytes, of the memory taken by blocks. Even a short response keeps a whole block until
    /// the client acknowledges it.
    pub(super) fn memory(&self) -> usize {
        self.blocks.len().saturating_sub(IDLE_BLOCKS) * BLOCK_BYTES
    }

    /// Returns an archive range.
    fn range(&mut self, content: &Arc<Content>, number: u16, extent: Extent) -> Bytes {
        if !self.content.as_ref().is_some_and(|current| Arc::ptr_eq(current, content)) {
            self.content = Some(Arc::clone(content));
            self.archives.clear();
        }
        let archive = match self.archives.iter().find(|(known, _)| *known == number) {
            Some((_, archive)) => archive,
            None => {
                let owner = Archive { content: Arc::clone(content), number };
                self.archives.push((number, Bytes::from_owner(owner)));
                &self.archives[self.archives.len() - 1].1
            }
        };

        let start = usize::try_from(extent.position).unwrap_or(usize::MAX);
        let end = usize::try_from(extent.position + extent.length).unwrap_or(usize::MAX);
        debug_assert!(end <= archive.len(), "`site` has checked that the range lies within the archive");
        if end <= archive.len() { archive.slice(start..end) } else { Bytes::new() }
    }

    /// Drops references to a release that was replaced. It can then be closed as soon as no client needs
    /// it.
    pub(super) fn release(&mut self, current: &Arc<Content>) {
        if self.content.as_ref().is_some_and(|content| !Arc::ptr_eq(content, current)) {
            self.content = None;
            self.archives.clear();
        }
    }
}
