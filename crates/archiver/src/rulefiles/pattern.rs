//! Path patterns in `_redirects` and `_headers`.
//!
//! The server uses a faster matcher. [`Pattern::captures`] should be considered the reference implementation.

use cannery_archive::{AFFIX_BYTES_MAX, PATTERN_SEGMENTS_MAX};

use crate::ground::rule_error::RuleError;
use crate::rulefiles::percent::percent_decode;

/// A pattern for percent-decoded paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// At least one piece, the first of which is a literal that begins with `/`. There can be only one splat, followed by at
    /// most one literal.
    pub pieces: Vec<PatternPiece>,
}

/// A piece of a pattern.
///
/// All pieces except for literals are captures. These are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PatternPiece {
    /// Exactly these percent-decoded bytes.
    Literal(Vec<u8>),
    /// One or more bytes, up to the next `/` or the end.
    Placeholder,
    /// Any number of bytes, up to the literal that follows or the end.
    Splat,
}

/// Where a dialect allows `*` and `:name`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatternSyntax {
    /// `*` does not have to be the last character.
    pub(crate) splat_anywhere: bool,
    /// `:name` may occur within a segment. Otherwise, `/wiki/Help:Contents` is a plain path.
    pub(crate) placeholder_anywhere: bool,
}

impl Pattern {
    /// Parses a path with `*` and `:name`, returning the names of its captures in order as well.
    pub(crate) fn parse(text: &str, syntax: PatternSyntax) -> Result<(Pattern, Vec<String>), RuleError> {
        if text.contains(['?', '#']) {
            let message = "a source is a path; it cannot match a query or a fragment";
            return Err(RuleError::new("unsupported-source", message));
        }
        refuse_odd_segments(text)?;

        let mut pieces = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let mut rest = text;
        let mut previous = None;

        while let Some(first) = rest.chars().next() {
            let may_name = syntax.placeholder_anywhere || previous == Some('/');
            let name = rest.strip_prefix(':').filter(|_| may_name).map_or("", identifier);
            let (name, length, piece) = match first {
                '*' => ("splat", 1, PatternPiece::Splat),
                ':' if !name.is_empty() => (name, 1 + name.len(), PatternPiece::Placeholder),
                _ => {
                    let length = literal_len(rest, syntax.placeholder_anywhere);
                    let literal = percent_decode(&rest.as_bytes()[..length])?;
                    extend_literal(&mut pieces, literal);
                    previous = rest[..length].chars().next_back();
                    rest = &rest[length..];
                    continue;
                }
            };
            rest = &rest[length..];

            check_capture(&piece, name, rest, &names, syntax)?;
            names.push(name.to_owned());
            pieces.push(piece);
            previous = None;
        }
        Ok((Pattern { pieces }, names))
    }

    /// Returns `true` if the pattern does not have captures.
    pub fn is_static(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, PatternPiece::Literal(_)))
    }

    /// For a pattern without captures, returns the only path that it matches, percent-decoded.
    pub fn static_path(&self) -> Option<Vec<u8>> {
        let mut path = Vec::new();
        for piece in &self.pieces {
            let PatternPiece::Literal(literal) = piece else { return None };
            path.extend_from_slice(literal);
        }
        Some(path)
    }

    /// Returns `true` if the pattern matches a percent-decoded path.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.captures(path).is_some()
    }

    /// Returns the captures in a percent-decoded path, in order.
    ///
    /// If the pattern does not match, returns `None`.
    pub fn captures<'p>(&self, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
        self.match_symbols(path, |&byte| Some(byte), |_| true)
    }

    /// Whether the pattern matches all paths of another one, given as `symbols`.
    ///
    /// While there may be false negatives, there are no false positives.
    pub(super) fn covers(&self, symbols: &[Symbol]) -> bool {
        self.captures_within(symbols).is_some()
    }

    /// Like [`Self::covers`], but returns the captures, which are parts of the other pattern.
    pub(crate) fn captures_within<'s>(&self, symbols: &'s [Symbol]) -> Option<Vec<&'s [Symbol]>> {
        self.match_symbols(symbols, Symbol::byte, |symbol| *symbol != Symbol::Splat)
    }

    /// Matches the bytes of a path or the symbols of another pattern.
    ///
    /// `byte_of` must return the byte for symbols that are a byte. `in_segment` must be `true` for symbols that never
    /// contain `/`.
    fn match_symbols<'s, S>(
        &self,
        symbols: &'s [S],
        byte_of: impl Fn(&S) -> Option<u8>,
        in_segment: impl Fn(&S) -> bool,
    ) -> Option<Vec<&'s [S]>> {
        let is_literal = |symbols: &[S], literal: &[u8]| {
            symbols.len() == literal.len()
                && symbols.iter().zip(literal).all(|(symbol, &byte)| byte_of(symbol) == Some(byte))
        };

        let mut captures = Vec::new();
        let mut rest = symbols;
        let mut pieces = self.pieces.iter();

        while let Some(piece) = pieces.next() {
            match piece {
                PatternPiece::Literal(literal) => {
                    let (head, tail) = rest.split_at_checked(literal.len())?;
                    if !is_literal(head, literal) {
                        return None;
                    }
                    rest = tail;
                }
                PatternPiece::Placeholder => {
                    let end =
                        rest.iter().position(|symbol| byte_of(symbol) == Some(b'/')).unwrap_or(rest.len());
                    let (head, tail) = rest.split_at(end);
                    if head.is_empty() || !head.iter().all(&in_segment) {
                        return None;
                    }
                    captures.push(head);
                    rest = tail;
                }
                // Nothing left to match: a splat takes everything except for the literal after it.
                PatternPiece::Splat => {
                    let literal: &[u8] = match pieces.next() {
                        Some(PatternPiece::Literal(literal)) => literal,
                        _ => b"",
                    };
                    let (head, tail) = rest.split_at(rest.len().checked_sub(literal.len())?);
                    captures.push(head);
                    return is_literal(tail, literal).then_some(captures);
                }
            }
        }
        rest.is_empty().then_some(captures)
    }

    pub(crate) fn symbols(&self) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        for piece in &self.pieces {
            match piece {
                PatternPiece::Literal(bytes) => symbols.extend(bytes.iter().copied().map(Symbol::Byte)),
                PatternPiece::Placeholder => symbols.push(Symbol::Placeholder),
                PatternPiece::Splat => symbols.push(Symbol::Splat),
            }
        }
        symbols
    }
}

/// A byte or a capture of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Symbol {
    Byte(u8),
    Placeholder,
    Splat,
}

impl Symbol {
    pub(crate) fn byte(&self) -> Option<u8> {
        match self {
            Symbol::Byte(byte) => Some(*byte),
            Symbol::Placeholder | Symbol::Splat => None,
        }
    }
}

/// Checks whether a capture is allowed between `names`, the captures before it, and `rest`, the remaining text.
fn check_capture(
    piece: &PatternPiece,
    name: &str,
    rest: &str,
    names: &[String],
    syntax: PatternSyntax,
) -> Result<(), RuleError> {
    let unsupported = |message: String| Err(RuleError::new("unsupported-source", message));
    if names.iter().any(|earlier| earlier == "splat") {
        return unsupported(
            "after a `*`, a source can contain only plain text; write a literal `*` as %2A".to_owned(),
        );
    }
    if names.iter().any(|earlier| earlier == name) {
        return unsupported(format!("the name `:{name}` is used twice; choose another"));
    }
    if names.len() > usize::from(u8::MAX) {
        return unsupported("the source has more than 256 placeholders".to_owned());
    }

    match piece {
        PatternPiece::Splat if !syntax.splat_anywhere && !rest.is_empty() => {
            unsupported("`*` must be the last character here; write a literal `*` as %2A".to_owned())
        }
        PatternPiece::Placeholder if name == "splat" => {
            unsupported("`:splat` is the name of `*`; choose another".to_owned())
        }
        PatternPiece::Placeholder if !(rest.is_empty() || rest.starts_with('/')) => {
            unsupported(format!("`:{name}` must end its segment; write a literal `:` as %3A"))
        }
        _ => Ok(()),
    }
}

/// Returns the length of the literal at the start of `text`.
///
/// This always includes the first character, even if it is special.
fn literal_len(text: &str, placeholder_anywhere: bool) -> usize {
    let mut previous = '\0';
    for (index, character) in text.char_indices() {
        let may_name = character == ':' && (placeholder_anywhere || previous == '/');
        if index > 0 && (character == '*' || may_name) {
            return index;
        }
        previous = character;
    }
    text.len()
}

/// Parses the identifier at the start of `text`. It may consist of letters, digits and `_`, but must not begin with
/// a digit.
pub(super) fn identifier(text: &str) -> &str {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return "";
    }
    let end = text.find(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    &text[..end.unwrap_or(text.len())]
}

fn extend_literal(pieces: &mut Vec<PatternPiece>, bytes: Vec<u8>) {
    match pieces.last_mut() {
        Some(PatternPiece::Literal(literal)) => literal.extend(bytes),
        _ => pieces.push(PatternPiece::Literal(bytes)),
    }
}

/// Rejects paths with empty segments or dot segments. Requests are normalized, so these would
/// never match.
pub(super) fn refuse_odd_segments(path: &str) -> Result<(), RuleError> {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let is_odd = |segment: &str| {
        let decoded = percent_decode(segment.as_bytes()).unwrap_or_default();
        decoded == b"." || decoded == b".." || (segment.is_empty() && !inner.is_empty())
    };
    if path == "//" || inner.split('/').any(is_odd) {
        let message = format!(
            "`{path}` contains an empty segment or a dot segment, so it never matches: request paths are normalized first"
        );
        return Err(RuleError::new("never-matches", message));
    }
    Ok(())
}

/// Rejects patterns that are too large for the server's rule index.
pub(crate) fn check_size(pattern: &Pattern) -> Result<(), RuleError> {
    let mut slashes = 0;
    let mut is_long = false;
    for (place, piece) in pattern.pieces.iter().enumerate() {
        let PatternPiece::Literal(literal) = piece else { continue };
        slashes += literal.iter().filter(|byte| **byte == b'/').count();
        let is_suffix = place > 0 && pattern.pieces[place - 1] == PatternPiece::Splat;
        is_long |= literal.split(|byte| *byte == b'/').any(|segment| segment.len() > AFFIX_BYTES_MAX);
        is_long |= is_suffix && literal.len() > AFFIX_BYTES_MAX;
    }
    if slashes > PATTERN_SEGMENTS_MAX {
        let message =
            format!("this rule has a pattern of more than {PATTERN_SEGMENTS_MAX} segments, so it is ignored");
        return Err(RuleError::new("pattern-too-deep", message));
    }
    if is_long {
        let message = format!(
            "this rule has a segment of more than {AFFIX_BYTES_MAX} bytes in its pattern, so it is ignored"
        );
        return Err(RuleError::new("pattern-too-long", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_pattern_that_covers_another_matches_all_its_paths(
            wide in "/[ab/]{0,3}(:x|\\*)?(/[ab]{0,2})?",
            narrow in "/[ab/]{0,4}(:x|\\*)?(/[ab]{0,2})?",
            filling in "[ab]{1,3}",
        ) {
            let syntax = PatternSyntax { splat_anywhere: true, placeholder_anywhere: true };
            let (Ok((wide, _)), Ok((narrow, _))) = (Pattern::parse(&wide, syntax), Pattern::parse(&narrow, syntax)) else {
                return Ok(());
            };

            let mut path = Vec::new();
            for piece in &narrow.pieces {
                match piece {
                    PatternPiece::Literal(bytes) => path.extend(bytes),
                    PatternPiece::Placeholder => path.extend(filling.bytes()),
                    PatternPiece::Splat => path.extend(format!("{filling}/{filling}").bytes()),
                }
            }

            prop_assert!(narrow.matches(&path));
            if wide.covers(&narrow.symbols()) {
                prop_assert!(wide.matches(&path), "{wide:?} covers {narrow:?} but does not match it");
            }
        }
    }
}
