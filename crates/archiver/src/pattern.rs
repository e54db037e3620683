//! Which paths a rule is for: what `_redirects` and `_headers` have in common.
//!
//! [`Pattern::captures`] says what a server's matcher has to agree with. Never knows what a rule does.

use crate::percent::percent_decode;
use crate::rule_error::RuleError;

/// Which paths a rule matches: percent-decoded bytes, from the first `/` to the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// At least one piece; the first is a literal that begins with `/`. At most one splat, and
    /// behind it at most one literal.
    pub pieces: Vec<PatternPiece>,
}

/// A piece of a pattern. The pieces that are no literal are captures, numbered from 0 in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PatternPiece {
    /// These bytes, percent-decoded.
    Literal(Vec<u8>),
    /// One or more bytes up to the next `/` or the end.
    Placeholder,
    /// Any bytes, also none, up to the literal behind it or the end.
    Splat,
}

/// Where a dialect lets the special signs of a pattern stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatternSyntax {
    /// `*` need not be the last byte.
    pub(crate) splat_anywhere: bool,
    /// `:name` need not begin its segment. Where it must, `/wiki/Help:Contents` is a plain path.
    pub(crate) placeholder_anywhere: bool,
}

impl Pattern {
    /// Reads a path with `*` and `:name` in it, and returns the names of its captures in order.
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

    /// Whether the pattern is one path.
    pub fn is_static(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, PatternPiece::Literal(_)))
    }

    /// Whether it matches a percent-decoded path.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.captures(path).is_some()
    }

    /// What the captures hold if it matches a percent-decoded path, in order.
    pub fn captures<'p>(&self, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
        self.match_symbols(path, |&byte| Some(byte), |_| true)
    }

    /// Whether it matches all that the pattern spelled by `symbols` matches. It may say no where
    /// the answer is yes, but never the other way round.
    pub(crate) fn covers(&self, symbols: &[Symbol]) -> bool {
        self.captures_within(symbols).is_some()
    }

    /// What it captures of the paths that `symbols` spell, if it matches all of them for certain.
    pub(crate) fn captures_within<'s>(&self, symbols: &'s [Symbol]) -> Option<Vec<&'s [Symbol]>> {
        self.match_symbols(symbols, Symbol::byte, |symbol| *symbol != Symbol::Splat)
    }

    /// The one matcher, for the bytes of a path and for the symbols of another pattern. `byte_of`
    /// says which byte a symbol is, if it is one; `in_segment` whether it holds no `/` at all.
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

/// A pattern taken apart into what one byte of a path may be compared with.
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

/// Checks a capture against what stands before it (`names`) and behind it (`rest`).
fn check_capture(
    piece: &PatternPiece,
    name: &str,
    rest: &str,
    names: &[String],
    syntax: PatternSyntax,
) -> Result<(), RuleError> {
    let fault = |message: String| Err(RuleError::new("unsupported-source", message));
    if names.iter().any(|earlier| earlier == "splat") {
        return fault("behind a `*` only plain text may stand; spell a literal `*` as %2A".to_owned());
    }
    if names.iter().any(|earlier| earlier == name) {
        return fault(format!("the name `:{name}` is used twice"));
    }
    if names.len() > usize::from(u8::MAX) {
        return fault("the source has more than 256 placeholders".to_owned());
    }
    match piece {
        PatternPiece::Splat if !syntax.splat_anywhere && !rest.is_empty() => {
            fault("`*` must be the last character here; spell a literal `*` as %2A".to_owned())
        }
        PatternPiece::Placeholder if name == "splat" => {
            fault("`:splat` is the name of `*`; choose another".to_owned())
        }
        PatternPiece::Placeholder if !(rest.is_empty() || rest.starts_with('/')) => {
            fault(format!("`:{name}` must end its segment; spell a literal `:` as %3A"))
        }
        _ => Ok(()),
    }
}

/// How many bytes up to the next sign that may be special. The first character never is.
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

/// The letters, digits and `_` at the beginning of `text`, if they begin with a letter or `_`.
pub(crate) fn identifier(text: &str) -> &str {
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

/// Refuses paths with segments that no request has once its target is in normal form.
pub(crate) fn refuse_odd_segments(path: &str) -> Result<(), RuleError> {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let is_odd = |segment: &str| {
        let decoded = percent_decode(segment.as_bytes()).unwrap_or_default();
        decoded == b"." || decoded == b".." || (segment.is_empty() && !inner.is_empty())
    };
    if path == "//" || inner.split('/').any(is_odd) {
        let message =
            format!("`{path}` has an empty or a dot segment, which no request has once it is resolved");
        return Err(RuleError::new("never-matches", message));
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
