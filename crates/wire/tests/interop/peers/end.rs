//! The end of a connection that is ours, by whoever holds it: the loop by which bytes are handed in, and what is said as bytes.
//!
//! Never judges, and answers nothing by itself.

use cannery_archive::Extent;
use cannery_wire::h2::Step;
use cannery_wire::{Output, Segment};

/// Whoever holds a connection of ours.
pub(crate) trait End {
    /// What was handed in and not used.
    fn held(&mut self) -> &mut Vec<u8>;

    /// Reads what is there up to the next step; tells how many bytes are done with.
    fn read(&mut self, rest: &[u8]) -> (usize, Step);

    /// Does what a step asks for.
    fn take(&mut self, step: Step);

    /// Hands bytes in, and does what they ask for.
    fn receive(&mut self, bytes: &[u8]) {
        let mut input = std::mem::take(self.held());
        input.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            let rest = &input[used..];
            let (more, step) = self.read(rest);
            assert!(more <= rest.len(), "no more is used than there is");
            used += more;
            self.take(step);
            if matches!(step, Step::More | Step::End) {
                break;
            }
        }
        *self.held() = input.split_off(used);
    }
}

/// What an output holds, with ranges from this archive. It is empty afterwards.
pub(crate) fn spelled(output: &mut Output, archive: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut own, segments) = output.parts();
    for segment in segments {
        match segment {
            Segment::Inline(length) => {
                let (now, behind) = own.split_at(*length);
                bytes.extend_from_slice(now);
                own = behind;
            }
            Segment::Archive(_, Extent { position, length }) => {
                let place = |number: u64| usize::try_from(number).expect("it fits memory");
                bytes.extend_from_slice(&archive[place(*position)..][..place(*length)]);
            }
        }
    }
    output.clear();
    bytes
}
