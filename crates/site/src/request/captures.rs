//! Matches the pattern of a rule against a path and captures parts of it.
//!
//! This takes linear time without backtracking, since a capture always ends at the next `/` and a splat can only be followed by a
//! literal.

use cannery_archive::{Corrupt, Key, KeyBuffer, PathError, Piece, Pieces};
use cannery_base::swar::find_byte;

use crate::request::Full;

/// Maximum number of captures in a rule.
pub const CAPTURES_MAX: usize = 16;

/// Captured parts of a path.
///
/// [`Runs`] is only borrowed, so that answers stay small.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captures<'a> {
    path: &'a [u8],
    runs: &'a Runs,
}

/// Positions of the captures in a path, in the order of the pattern.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    /// Start and end of each capture. `start <= end`, and `end` is not after the end of the path.
    runs: [(u16, u16); CAPTURES_MAX],
    count: u8,
}

const _: () =
    assert!(cannery_archive::KEY_BYTES_MAX <= u16::MAX as usize, "a position in a key fits 16 bits");

static NO_RUNS: Runs = Runs { runs: [(0, 0); CAPTURES_MAX], count: 0 };

impl Runs {
    /// Matches a path and sets the captures. If this fails and there is a `/` at the end, tries again without it.
    ///
    /// Returns `false` if the pattern does not match. The captures are meaningless then.
    pub(crate) fn match_path(&mut self, pattern: Pieces<'_>, path: &[u8]) -> Result<bool, Corrupt> {
        if self.match_exactly(pattern, path)? {
            return Ok(true);
        }

        match path.strip_suffix(b"/") {
            Some(shorter) => self.match_exactly(pattern, shorter),
            None => Ok(false),
        }
    }

    /// Like [`match_path`](Self::match_path), but a `/` at the end matters.
    pub(crate) fn match_exactly(&mut self, mut pattern: Pieces<'_>, path: &[u8]) -> Result<bool, Corrupt> {
        self.count = 0;
        let mut rest = path;

        while let Some(piece) = pattern.next() {
            let step = match piece? {
                Piece::Literal(literal) => rest.strip_prefix(literal),
                Piece::Capture(_) => {
                    let end = find_byte(rest, b'/').unwrap_or(rest.len());
                    let (run, others) = rest.split_at(end);
                    let is_captured = !run.is_empty() && self.push(path.len() - rest.len(), run).is_ok();
                    is_captured.then_some(others)
                }
                Piece::Splat(_) => {
                    let tail = pattern.next().transpose()?;
                    let run = match tail {
                        None => Some(rest),
                        Some(Piece::Literal(literal)) => rest.strip_suffix(literal),
                        Some(_) => None,
                    };
                    run.filter(|run| self.push(path.len() - rest.len(), run).is_ok()).map(|_| b"".as_slice())
                }
            };

            match step {
                Some(others) => rest = others,
                None => return Ok(false),
            }
        }

        Ok(rest.is_empty())
    }

    /// Adds a capture. `start` is its position in the path.
    fn push(&mut self, start: usize, run: &[u8]) -> Result<(), Full> {
        let slot = self.runs.get_mut(usize::from(self.count));
        let (Some(slot), Ok(start), Ok(length)) = (slot, u16::try_from(start), u16::try_from(run.len()))
        else {
            return Err(Full);
        };

        *slot = (start, start + length);
        self.count += 1;
        Ok(())
    }
}

impl<'a> Captures<'a> {
    pub(crate) const NONE: Captures<'static> = Captures { path: b"", runs: &NO_RUNS };

    /// Returns the captures of `path` at these positions.
    pub(crate) fn new(path: &'a [u8], runs: &'a Runs) -> Captures<'a> {
        Captures { path, runs }
    }

    /// Returns the capture with this number. This is empty if the pattern does not have it.
    pub(crate) fn run(&self, number: u8) -> &'a [u8] {
        let runs = &self.runs.runs[..usize::from(self.runs.count)];
        let (start, end) = runs.get(usize::from(number)).copied().unwrap_or_default();
        &self.path[usize::from(start)..usize::from(end)]
    }

    /// Fills the captures into a template. The result is a path.
    ///
    /// The outer error means that the template is corrupt, whereas the inner one means that the result is not a valid path.
    pub(crate) fn expand<'b>(
        &self,
        template: Pieces<'a>,
        buffer: &'b mut KeyBuffer,
    ) -> Result<Result<Key<'b>, PathError>, Corrupt> {
        let mut corrupt = None;
        let parts = template.map_while(|piece| match piece {
            Ok(Piece::Literal(literal)) => Some(literal),
            Ok(Piece::Capture(number) | Piece::Splat(number)) => Some(self.run(number)),
            Err(error) => {
                corrupt = Some(error);
                None
            }
        });

        let key = Key::from_parts(parts, buffer);
        corrupt.map_or(Ok(key), Err)
    }
}

#[cfg(test)]
mod tests;
