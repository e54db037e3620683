//! A rule's pattern held against a path, and what it captures.
//!
//! Linear in the path, without going back: a capture ends at the next `/`, and behind a splat stands
//! nothing but a literal. Never allocates.

use cannery_archive::{Corrupt, Key, KeyBuffer, PathError, Piece, Pieces};
use cannery_base::swar::find_byte;

/// More captures than this has no rule.
pub const CAPTURES_MAX: usize = 16;

/// What a pattern captured, in the order of the pattern.
///
/// The runs stay where they were found: an answer is small enough to be passed about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captures<'a> {
    path: &'a [u8],
    runs: &'a Runs,
}

/// Where in a path the captures are, which 16 bits can count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    /// Where each run begins and ends: `begin <= end`, and no end lies behind the path's.
    runs: [(u16, u16); CAPTURES_MAX],
    count: u8,
}

const _: () = assert!(cannery_archive::KEY_BYTES_MAX <= u16::MAX as usize, "a place in a key fits 16 bits");

static NO_RUNS: Runs = Runs { runs: [(0, 0); CAPTURES_MAX], count: 0 };

impl Runs {
    /// Holds `pattern` against `path`. A `/` at the end of the path makes no difference to a pattern
    /// that does not ask for it.
    pub(crate) fn of(pattern: Pieces<'_>, path: &[u8]) -> Result<Option<Runs>, Corrupt> {
        if let Some(captures) = Runs::of_exactly(pattern, path)? {
            return Ok(Some(captures));
        }
        match path.strip_suffix(b"/") {
            Some(shorter) => Runs::of_exactly(pattern, shorter),
            None => Ok(None),
        }
    }

    /// The same for just this path.
    pub(crate) fn of_exactly(mut pattern: Pieces<'_>, path: &[u8]) -> Result<Option<Runs>, Corrupt> {
        let mut captures = Runs::default();
        let mut rest = path;
        while let Some(piece) = pattern.next() {
            let step = match piece? {
                Piece::Literal(literal) => rest.strip_prefix(literal),
                Piece::Capture(_) => {
                    let end = find_byte(rest, b'/').unwrap_or(rest.len());
                    let (run, others) = rest.split_at(end);
                    (!run.is_empty() && captures.push(path.len() - rest.len(), run)).then_some(others)
                }
                Piece::Splat(_) => {
                    let tail = pattern.next().transpose()?;
                    let run = match tail {
                        None => Some(rest),
                        Some(Piece::Literal(literal)) => rest.strip_suffix(literal),
                        Some(_) => None,
                    };
                    run.filter(|run| captures.push(path.len() - rest.len(), run)).map(|_| b"".as_slice())
                }
            };
            match step {
                Some(others) => rest = others,
                None => return Ok(None),
            }
        }
        Ok(rest.is_empty().then_some(captures))
    }

    /// Adds a run that begins at this place of the path; false if there are too many.
    fn push(&mut self, begin: usize, run: &[u8]) -> bool {
        let place = self.runs.get_mut(usize::from(self.count));
        let (Some(place), Ok(begin), Ok(length)) = (place, u16::try_from(begin), u16::try_from(run.len()))
        else {
            return false;
        };
        *place = (begin, begin + length);
        self.count += 1;
        true
    }
}

impl<'a> Captures<'a> {
    pub(crate) const NONE: Captures<'static> = Captures { path: b"", runs: &NO_RUNS };

    /// The captures in `path` whose places these are.
    pub(crate) fn new(path: &'a [u8], runs: &'a Runs) -> Captures<'a> {
        Captures { path, runs }
    }

    /// What the capture of this number is; nothing for one that the pattern does not have.
    pub(crate) fn run(&self, number: u8) -> &'a [u8] {
        let runs = &self.runs.runs[..usize::from(self.runs.count)];
        let (begin, end) = runs.get(usize::from(number)).copied().unwrap_or_default();
        &self.path[usize::from(begin)..usize::from(end)]
    }

    /// The path that a template makes of the captures.
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
mod tests {
    use super::*;
    use cannery_archive::{Archive, Format, NewRecord, NewRule, NewScope, ScopeEntry, Writer};

    /// Holds a pattern, written as in `_redirects`, against a path; gives the captures.
    fn captures(pattern: &str, path: &str) -> Option<Vec<String>> {
        let pieces = pattern.split_inclusive('/').flat_map(|part| {
            let (name, slash) = part.strip_suffix('/').map_or((part, ""), |name| (name, "/"));
            match name.split_once([':', '*']) {
                Some((before, after)) if name.contains('*') => vec![before, "*", after, slash],
                Some((before, _)) => vec![before, ":", slash],
                None => vec![name, slash],
            }
        });
        let pattern: Vec<Piece<'_>> = pieces
            .filter(|piece| !piece.is_empty())
            .map(|piece| match piece {
                ":" => Piece::Capture(0),
                "*" => Piece::Splat(0),
                literal => Piece::Literal(literal.as_bytes()),
            })
            .collect();
        let record = NewRecord::Rewrite { status: 200, path: Vec::new() };
        let rules = vec![NewRule { ordinal: 0, force: false, pages_only: false, pattern, record }];
        let mut writer = Writer::new(tempfile::tempfile().unwrap(), Format::Cdb).unwrap();
        writer.scope(None, Key::ROOT, &NewScope { rules, ..NewScope::default() }).unwrap();
        let (mut file, _) = writer.finish(true).unwrap();
        let mut bytes = Vec::new();
        std::io::Seek::rewind(&mut file).unwrap();
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        let archive = Archive::from_bytes(bytes).unwrap();
        let (_, scope) = archive.scopes(None, Key::ROOT).next().unwrap().unwrap();
        let Some(Ok(ScopeEntry::Rule(rule))) = scope.rules().next() else { panic!("the rule is there") };
        let runs = Runs::of(rule.pattern, path.as_bytes()).unwrap()?;
        let captures = Captures::new(path.as_bytes(), &runs);
        let text = |number| String::from_utf8(captures.run(number).to_vec()).unwrap();
        Some((0..runs.count).map(text).collect())
    }

    #[test]
    fn patterns_capture_what_they_match() {
        let holds = |pattern, path, expected: &[&str]| {
            assert_eq!(captures(pattern, path).unwrap(), expected, "{pattern} against {path}");
        };
        holds("a/b", "a/b", &[]);
        holds("a/b", "a/b/", &[]);
        holds("*", "", &[""]);
        holds("*", "a/b", &["a/b"]);
        holds("a/*", "a/", &[""]);
        holds(":/:", "x/y", &["x", "y"]);
        holds(":/:", "x/y/", &["x", "y"]);
        holds("p-:/z", "p-q/z", &["q"]);
        holds(":/*", "x/y/z", &["x", "y/z"]);
        holds("*.html", "a/b.html", &["a/b"]);
    }

    #[test]
    fn what_does_not_match_captures_nothing() {
        for (pattern, path) in [
            ("a/b", "a/bc"),
            ("a/b", "a"),
            (":/:", "x"),
            (":/:", "x/"),
            (":", "x/y"),
            ("a/*", "a"),
            ("*.html", "a.htm"),
        ] {
            assert_eq!(captures(pattern, path), None, "{pattern} against {path}");
        }
    }
}
