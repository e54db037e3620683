//! Memory that is written once, for bytes of ours that are lent to the kernel.
//!
//! A head is spelled in a buffer that the next answer writes over, long before a peer has read what was lent. So it is
//! copied to where nothing was before, and nothing ever will be again: when the memory is used up, it is given back, and
//! other memory is taken. The kernel keeps each page for as long as somebody still reads it.

use std::io::IoSlice;

use memmap2::MmapMut;

/// A page, on most machines. Where pages are larger, what is lent begins within one, and costs a little more.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Memory that is taken at a time: room for some hundred heads, so that taking it costs nothing that can be measured.
const TAKEN_BYTES: usize = 64 * 1024;

/// Memory of which each byte is written once. Takes none before it is used.
#[derive(Debug, Default)]
pub(crate) struct FreshPages {
    memory: Option<MmapMut>,
    used: usize,
}

impl FreshPages {
    pub(crate) fn new() -> FreshPages {
        FreshPages::default()
    }

    /// A copy of some runs, one behind the other, within one page. Nothing where that is too small for them, or where
    /// there is no memory.
    pub(crate) fn copy(&mut self, runs: &[IoSlice<'_>]) -> Option<&[u8]> {
        let length = runs.iter().map(|run| run.len()).sum::<usize>();
        if length > PAGE_BYTES {
            return None;
        }
        if self.used % PAGE_BYTES + length > PAGE_BYTES {
            self.used = self.used.next_multiple_of(PAGE_BYTES);
        }
        if self.memory.is_none() || self.used + length > TAKEN_BYTES {
            self.memory = None;
            self.memory = MmapMut::map_anon(TAKEN_BYTES).ok();
            self.used = 0;
        }
        let room = &mut self.memory.as_mut()?[self.used..][..length];
        self.used += length;
        let mut at = 0;
        for run in runs {
            room[at..][..run.len()].copy_from_slice(run);
            at += run.len();
        }
        Some(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lie_within_a_page_and_never_where_one_was_before() {
        let mut fresh = FreshPages::new();
        let mut ends = Vec::new();
        for number in 0..90 {
            let head = [number; 600];
            let copy = fresh.copy(&[IoSlice::new(&head[..100]), IoSlice::new(&head[100..])]).unwrap();
            assert_eq!(copy, head);
            let range = copy.as_ptr_range();
            let (start, end) = (range.start.addr(), range.end.addr());
            assert_eq!(start / PAGE_BYTES, (end - 1) / PAGE_BYTES);
            // It goes up, until other memory is taken.
            if ends.last().is_some_and(|last| start < *last) {
                ends.clear();
            }
            ends.push(end);
        }
        assert!(ends.len() > 1);
        assert!(fresh.copy(&[IoSlice::new(&[0; PAGE_BYTES + 1])]).is_none(), "more than a page");
        assert_eq!(fresh.copy(&[IoSlice::new(&[7; PAGE_BYTES])]).map(<[u8]>::len), Some(PAGE_BYTES));
    }
}
