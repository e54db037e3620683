//! Drives one of our connections: receives in a loop and turns the output into bytes.

use cannery_archive::Extent;
use cannery_wire::h2::Step;
use cannery_wire::{Output, Segment};

/// Owns one of our connections.
pub(crate) trait End {
    /// Returns input that the connection has not read yet.
    fn held(&mut self) -> &mut Vec<u8>;

    /// Runs the connection until its next step. Returns the number of bytes read.
    fn read(&mut self, rest: &[u8]) -> (usize, Step);

    /// Does a step.
    fn take(&mut self, step: Step);

    /// Receives bytes and does all steps they lead to.
    fn receive(&mut self, bytes: &[u8]) {
        let mut input = std::mem::take(self.held());
        input.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            let rest = &input[used..];
            let (more, step) = self.read(rest);
            assert!(more <= rest.len(), "consumed more than the input");
            used += more;
            self.take(step);
            if matches!(step, Step::More | Step::End) {
                break;
            }
        }
        *self.held() = input.split_off(used);
    }
}

/// Returns an output as bytes and clears it. Its ranges are from this archive.
pub(crate) fn take_bytes(output: &mut Output, archive: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut inline, segments) = output.parts();
    for segment in segments {
        match segment {
            Segment::Inline(length) => {
                let (segment, after) = inline.split_at(*length);
                bytes.extend_from_slice(segment);
                inline = after;
            }
            Segment::Archive(_, Extent { position, length }) => {
                let to_usize = |number: u64| usize::try_from(number).expect("it fits memory");
                bytes.extend_from_slice(&archive[to_usize(*position)..][..to_usize(*length)]);
            }
        }
    }
    output.clear();
    bytes
}
