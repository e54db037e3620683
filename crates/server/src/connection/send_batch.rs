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

/// A range of the archive of this number.
pub(crate) type Body = (u16, Extent);

/// Answers that wait, in order.
#[derive(Debug)]
pub(crate) struct Due {
    bytes: Vec<u8>,
    /// Whose they are, and where each ends.
    ends: Vec<(Token, usize)>,
    /// How many are taken.
    taken: usize,
    /// What comes behind our own bytes of some of them, each with the answer's place. Apart from the answers, since most
    /// have none.
    bodies: Vec<(usize, Body)>,
    bodies_taken: usize,
}

impl Due {
    /// None, with room for all that there may be.
    pub(crate) fn new() -> Due {
        let (bytes, ends) = (Vec::with_capacity(BYTES_MAX), Vec::with_capacity(DUE_MAX));
        Due { bytes, ends, taken: 0, bodies: Vec::with_capacity(DUE_MAX), bodies_taken: 0 }
    }

    /// Whether an answer of so many bytes of our own may wait here.
    #[inline]
    pub(crate) fn takes(own: usize) -> bool {
        (1..=OWN_BYTES_MAX).contains(&own)
    }

    /// Lets an answer wait. Whose it is has to be said next, behind its body, if it has one.
    #[inline]
    pub(crate) fn put(&mut self, own: &[u8]) {
        self.bytes.extend_from_slice(own);
    }

    /// Lets the body of that answer wait.
    #[inline]
    pub(super) fn put_body(&mut self, body: Body) {
        self.bodies.push((self.ends.len(), body));
    }

    /// Says whose the last answer is. Tells whether there is room for another.
    #[inline]
    pub(crate) fn belongs_to(&mut self, token: Token) -> bool {
        self.ends.push((token, self.bytes.len()));
        self.ends.len() < DUE_MAX && self.bytes.len() <= BYTES_MAX - OWN_BYTES_MAX
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
            self.bodies.clear();
            (self.taken, self.bodies_taken) = (0, 0);
            return None;
        };
        let begin = if self.taken == 0 { 0 } else { self.ends[self.taken - 1].1 };
        self.taken += 1;
        Some((token, begin..end))
    }

    /// Takes what comes behind the answer that was taken last.
    #[inline]
    pub(crate) fn take_body(&mut self) -> Option<Body> {
        let &(answer, body) = self.bodies.get(self.bodies_taken)?;
        if answer + 1 != self.taken {
            return None;
        }
        self.bodies_taken += 1;
        Some(body)
    }

    /// The bytes of an answer.
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Forgets an answer of which it was not said whose it is.
    #[cold]
    pub(super) fn forget_last(&mut self) {
        self.bytes.truncate(self.ends.last().map_or(0, |&(_, end)| end));
        let answers = self.ends.len();
        self.bodies.retain(|&(answer, _)| answer < answers);
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
        let answers = [(tokens[0], b"first".as_slice(), None), (tokens[1], b"and second", body)];
        for (token, own, body) in answers {
            due.put(own);
            body.into_iter().for_each(|body| due.put_body(body));
            assert!(due.belongs_to(token));
        }
        due.put(b"of somebody who met a fault");
        due.put_body((9, Extent { position: 1, length: 1 }));
        due.forget_last();
        for (token, own, body) in answers {
            let (whose, range) = due.take().unwrap();
            assert_eq!((whose, due.bytes(range)), (token, own));
            assert_eq!(due.take_body(), body);
            assert!(!due.is_empty());
        }
        assert_eq!((due.take(), due.take_body()), (None, None));
        assert!(due.is_empty());
        due.put(b"third");
        due.belongs_to(tokens[0]);
        assert_eq!((due.take(), due.take_body()), (Some((tokens[0], 0..5)), None));
    }

    #[test]
    fn there_is_an_end_to_how_many_wait() {
        let token = Token { slot: 0, generation: 0 };
        let mut due = Due::new();
        let room = (0..DUE_MAX).map(|_| due.belongs_to(token));
        assert_eq!(room.filter(|has_room| !has_room).count(), 1);
        let mut due = Due::new();
        while {
            due.put(&[0; OWN_BYTES_MAX]);
            due.belongs_to(token)
        } {}
        assert!((BYTES_MAX - OWN_BYTES_MAX..=BYTES_MAX).contains(&due.bytes.len()));
        assert!(Due::takes(1) && Due::takes(OWN_BYTES_MAX));
        assert!(!Due::takes(0) && !Due::takes(OWN_BYTES_MAX + 1));
    }
}
