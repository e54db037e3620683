//! Answers that are spelled and wait for those of some other connections, to be sent one after the other.
//!
//! To read and to send in turns makes the code for each push the other's out of the processor's caches; to answer some
//! connections first and then to send to all of them takes a few hundredths less time. Holds our own bytes, and where in
//! an archive the rest is; never sends: who does is told whose they are.

use std::ops::Range;

use cannery_archive::Extent;
use cannery_eventloop::Token;

/// Answers that wait at most. More of them save little more, and make the first wait longer.
const DUE_MAX: usize = 32;

/// Our own bytes of an answer that may wait, which are copied to here: a head, and a body that is small.
const OWN_BYTES_MAX: usize = 12 * 1024;

/// Our own bytes that wait at most.
const BYTES_MAX: usize = 128 * 1024;

/// Answers that wait, in order.
#[derive(Debug)]
pub(crate) struct Due {
    bytes: Vec<u8>,
    answers: Vec<Waiting>,
    /// The body of the last answer, of which it was not said yet whose it is.
    body: Option<Body>,
    /// How many are taken.
    taken: usize,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    whose: Token,
    /// Where our own bytes end.
    end: usize,
    body: Option<Body>,
}

/// A range of the archive of this number.
pub(crate) type Body = (u16, Extent);

/// An answer that has waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) whose: Token,
    /// Where its bytes are until the last one is taken.
    pub(crate) bytes: Range<usize>,
    /// What comes behind them.
    pub(crate) body: Option<Body>,
}

impl Due {
    /// None, with room for all that there may be.
    pub(crate) fn new() -> Due {
        let (bytes, answers) = (Vec::with_capacity(BYTES_MAX), Vec::with_capacity(DUE_MAX));
        Due { bytes, answers, body: None, taken: 0 }
    }

    /// Whether an answer of so many bytes of our own may wait here.
    #[inline]
    pub(crate) fn takes(own: usize) -> bool {
        (1..=OWN_BYTES_MAX).contains(&own)
    }

    /// Lets an answer wait. Whose it is has to be said next.
    #[inline]
    pub(crate) fn put(&mut self, own: &[u8], body: Option<Body>) {
        self.bytes.extend_from_slice(own);
        self.body = body;
    }

    /// Says whose the last answer is. Tells whether there is room for another.
    #[inline]
    pub(crate) fn belongs_to(&mut self, whose: Token) -> bool {
        self.answers.push(Waiting { whose, end: self.bytes.len(), body: self.body.take() });
        self.answers.len() < DUE_MAX && self.bytes.len() + OWN_BYTES_MAX <= BYTES_MAX
    }

    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Takes the first answer that waits.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Taken> {
        let Some(&Waiting { whose, end, body }) = self.answers.get(self.taken) else {
            self.bytes.clear();
            self.answers.clear();
            self.taken = 0;
            return None;
        };
        let begin = if self.taken == 0 { 0 } else { self.answers[self.taken - 1].end };
        self.taken += 1;
        Some(Taken { whose, bytes: begin..end, body })
    }

    /// The bytes of an answer.
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Forgets an answer of which it was not said whose it is.
    #[cold]
    pub(crate) fn forget_last(&mut self) {
        self.bytes.truncate(self.answers.last().map_or(0, |last| last.end));
        self.body = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_out_in_order_each_with_its_own_bytes() {
        let mut due = Due::new();
        let tokens = [1, 2].map(|slot| Token { slot, generation: 7 });
        let body = Some((3, Extent { position: 5, length: 7 }));
        let answers = [(tokens[0], b"first".as_slice(), body), (tokens[1], b"and second", None)];
        for (whose, own, body) in answers {
            due.put(own, body);
            assert!(due.belongs_to(whose));
        }
        due.put(b"of somebody who met a fault", body);
        due.forget_last();
        for (whose, own, body) in answers {
            let taken = due.take().unwrap();
            assert_eq!((taken.whose, due.bytes(taken.bytes), taken.body), (whose, own, body));
            assert!(!due.is_empty());
        }
        assert_eq!(due.take(), None);
        assert!(due.is_empty());
        due.put(b"third", None);
        due.belongs_to(tokens[0]);
        assert_eq!(due.take(), Some(Taken { whose: tokens[0], bytes: 0..5, body: None }));
    }

    #[test]
    fn there_is_an_end_to_how_many_wait() {
        let token = Token { slot: 0, generation: 0 };
        let mut due = Due::new();
        let room = (0..DUE_MAX).map(|_| due.belongs_to(token));
        assert_eq!(room.filter(|has_room| !has_room).count(), 1);
        let mut due = Due::new();
        while {
            due.put(&[0; OWN_BYTES_MAX], None);
            due.belongs_to(token)
        } {}
        assert!((BYTES_MAX - OWN_BYTES_MAX..=BYTES_MAX).contains(&due.bytes.len()));
        assert!(Due::takes(1) && Due::takes(OWN_BYTES_MAX));
        assert!(!Due::takes(0) && !Due::takes(OWN_BYTES_MAX + 1));
    }
}
