//! Answers that are spelled and wait for those of some other connections, to be sent one after the other.
//!
//! To read and to send in turns makes the code for each push the other's out of the processor's caches; to answer some
//! connections first and then to send to all of them takes a few hundredths less time. Holds bytes only: who sends them is
//! told whose they are.

use std::ops::Range;

use cannery_eventloop::Token;

/// Answers that wait at most. More of them save little more, and make the first wait longer.
const DUE_MAX: usize = 32;

/// Bytes of an answer that may wait: what costs more to copy than is saved is sent at once.
const ANSWER_BYTES_MAX: usize = 4096;

/// Answers that wait, in order.
#[derive(Debug)]
pub(crate) struct Due {
    bytes: Vec<u8>,
    /// Whose they are, and where each ends.
    ends: Vec<(Token, usize)>,
    /// How many are taken.
    taken: usize,
}

impl Due {
    /// None, with room for all that there may be.
    pub(crate) fn new() -> Due {
        let (bytes, ends) = (Vec::with_capacity(DUE_MAX * ANSWER_BYTES_MAX), Vec::with_capacity(DUE_MAX));
        Due { bytes, ends, taken: 0 }
    }

    /// Whether answers of this length wait here.
    #[inline]
    pub(crate) fn takes(bytes: usize) -> bool {
        (1..=ANSWER_BYTES_MAX).contains(&bytes)
    }

    /// Lets an answer wait. Whose it is has to be said next.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Says whose the last answer is. Tells whether there is room for another.
    #[inline]
    pub(crate) fn belongs_to(&mut self, token: Token) -> bool {
        self.ends.push((token, self.bytes.len()));
        self.ends.len() < DUE_MAX
    }

    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes the first answer that waits: whose it is, and where its bytes are until the last one is taken.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(Token, Range<usize>)> {
        let Some(&(token, end)) = self.ends.get(self.taken) else {
            self.bytes.clear();
            self.ends.clear();
            self.taken = 0;
            return None;
        };
        let begin = if self.taken == 0 { 0 } else { self.ends[self.taken - 1].1 };
        self.taken += 1;
        Some((token, begin..end))
    }

    /// The bytes of an answer.
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Forgets an answer of which it was not said whose it is.
    #[cold]
    pub(crate) fn forget_last(&mut self) {
        self.bytes.truncate(self.ends.last().map_or(0, |&(_, end)| end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_out_in_order_each_with_its_own_bytes() {
        let mut due = Due::new();
        let tokens = [1, 2].map(|slot| Token { slot, generation: 7 });
        for (token, answer) in tokens.into_iter().zip([b"first".as_slice(), b"and second"]) {
            due.put(answer);
            assert!(due.belongs_to(token));
        }
        due.put(b"of somebody who met a fault");
        due.forget_last();
        for (token, answer) in tokens.into_iter().zip([b"first".as_slice(), b"and second"]) {
            let (whose, range) = due.take().unwrap();
            assert_eq!((whose, due.bytes(range)), (token, answer));
            assert!(!due.is_empty());
        }
        assert_eq!(due.take(), None);
        assert!(due.is_empty());
        due.put(b"third");
        due.belongs_to(tokens[0]);
        assert_eq!(due.take(), Some((tokens[0], 0..5)));
    }

    #[test]
    fn there_is_an_end_to_how_many_wait() {
        let mut due = Due::new();
        let token = Token { slot: 0, generation: 0 };
        let room = (0..DUE_MAX).map(|_| due.belongs_to(token));
        assert_eq!(room.filter(|has_room| !has_room).count(), 1);
        assert!(Due::takes(1) && Due::takes(ANSWER_BYTES_MAX));
        assert!(!Due::takes(0) && !Due::takes(ANSWER_BYTES_MAX + 1));
    }
}
