//! Memory for response heads that are sent zero-copy.
//!
//! Response heads are rendered into a buffer, and the next response will overwrite it long before the peer has read the spliced
//! pages. To avoid this, each head is copied to memory that was never used before and will not be reused. Once this memory is full,
//! we unmap it and map more. The kernel keeps each page until its last reader is done.

use std::io::IoSlice;

use memmap2::MmapMut;

/// Page size on most machines. With larger pages, spliced data may start in the middle of a page, which only costs a bit more.
pub(super) const PAGE_BYTES: usize = 4096;

/// Size of a mapping. With room for some hundred heads, the cost of mapping memory is too small to be measured.
const ARENA_BYTES: usize = 64 * 1024;

/// An arena where each byte is written only once. Memory will only be mapped on first use.
#[derive(Debug, Default)]
pub(super) struct HeaderArena {
    memory: Option<MmapMut>,
    used: usize,
}

impl HeaderArena {
    pub(super) fn new() -> HeaderArena {
        HeaderArena::default()
    }

    /// Copies the concatenated `runs` into a single page. Returns `None` if they exceed a page or if we are out of memory.
    pub(super) fn copy(&mut self, runs: &[IoSlice<'_>]) -> Option<&[u8]> {
        let length = runs.iter().map(|run| run.len()).sum::<usize>();
        if length > PAGE_BYTES {
            return None;
        }
        if self.used % PAGE_BYTES + length > PAGE_BYTES {
            self.used = self.used.next_multiple_of(PAGE_BYTES);
        }

        if self.memory.is_none() || self.used + length > ARENA_BYTES {
            self.memory = None;
            self.memory = MmapMut::map_anon(ARENA_BYTES).ok();
            self.used = 0;
        }

        let target = &mut self.memory.as_mut()?[self.used..][..length];
        self.used += length;
        let mut position = 0;
        for run in runs {
            target[position..][..run.len()].copy_from_slice(run);
            position += run.len();
        }
        Some(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_in_a_page_and_never_overlap() {
        let mut arena = HeaderArena::new();
        let mut ends = Vec::new();
        for number in 0..90 {
            let head = [number; 600];
            let copy = arena.copy(&[IoSlice::new(&head[..100]), IoSlice::new(&head[100..])]).unwrap();
            assert_eq!(copy, head);
            let range = copy.as_ptr_range();
            let (start, end) = (range.start.addr(), range.end.addr());
            assert_eq!(start / PAGE_BYTES, (end - 1) / PAGE_BYTES);
            // Addresses increase, until there is new memory.
            if ends.last().is_some_and(|last| start < *last) {
                ends.clear();
            }
            ends.push(end);
        }
        assert!(ends.len() > 1);
        assert!(arena.copy(&[IoSlice::new(&[0; PAGE_BYTES + 1])]).is_none(), "more than a page");
        assert_eq!(arena.copy(&[IoSlice::new(&[7; PAGE_BYTES])]).map(<[u8]>::len), Some(PAGE_BYTES));
    }
}
