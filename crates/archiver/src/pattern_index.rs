//! Index of patterns: finds those that may match a path, or cover another pattern, without comparing all of them.
//!
//! A trie over path segments. We search it for every rule, so a file of 100,000 patterns takes no quadratic time.

use std::collections::HashMap;

use crate::pattern::Symbol;

/// Patterns by their segments, each with the number that it was added under.
#[derive(Default)]
pub(crate) struct PatternIndex {
    root: Node,
}

/// The patterns that agree in the segments so far.
#[derive(Default)]
struct Node {
    /// Continuations after a segment of exactly these bytes.
    literals: HashMap<Vec<u8>, Node>,
    /// Continuations after a segment that begins with these bytes and goes on with a capture.
    captures: HashMap<Vec<u8>, Node>,
    /// Patterns with a splat in this segment, after these bytes.
    splats: HashMap<Vec<u8>, Vec<usize>>,
    /// Patterns that end here.
    ends: Vec<usize>,
}

impl PatternIndex {
    /// Adds a pattern, which begins with a slash.
    pub(crate) fn add(&mut self, symbols: &[Symbol], number: usize) {
        self.root.add(after_slash(symbols), number);
    }

    /// Returns the lowest number for which `is_match` holds among the patterns that may cover `symbols`, a path or a
    /// pattern that begins with a slash.
    pub(crate) fn first(&self, symbols: &[Symbol], is_match: impl Fn(usize) -> bool) -> Option<usize> {
        let mut candidates = Vec::new();
        self.root.find(after_slash(symbols), &mut candidates);
        candidates.sort_unstable();
        candidates.into_iter().find(|number| is_match(*number))
    }
}

impl Node {
    fn add(&mut self, symbols: &[Symbol], number: usize) {
        let (segment, rest) = split_segment(symbols);
        let text: Vec<u8> = segment.iter().map_while(Symbol::byte).collect();
        let next = match segment.get(text.len()) {
            Some(Symbol::Splat) => return self.splats.entry(text).or_default().push(number),
            Some(_) => self.captures.entry(text).or_default(),
            None => self.literals.entry(text).or_default(),
        };
        match rest {
            Some(rest) => next.add(rest, number),
            None => next.ends.push(number),
        }
    }

    fn find(&self, symbols: &[Symbol], found: &mut Vec<usize>) {
        let (segment, rest) = split_segment(symbols);
        let text: Vec<u8> = segment.iter().map_while(Symbol::byte).collect();
        let follow = |node: &Node, found: &mut Vec<usize>| match rest {
            Some(rest) => node.find(rest, found),
            None => found.extend(&node.ends),
        };
        if text.len() == segment.len()
            && let Some(node) = self.literals.get(&text)
        {
            follow(node, found);
        }
        for length in 0..=text.len() {
            if let Some(node) = self.captures.get(&text[..length]) {
                follow(node, found);
            }
            found.extend(self.splats.get(&text[..length]).into_iter().flatten());
        }
    }
}

fn after_slash(symbols: &[Symbol]) -> &[Symbol] {
    symbols.strip_prefix(&[Symbol::Byte(b'/')]).unwrap_or(symbols)
}

/// Splits off the first segment, and the slash after it.
fn split_segment(symbols: &[Symbol]) -> (&[Symbol], Option<&[Symbol]>) {
    match symbols.iter().position(|symbol| *symbol == Symbol::Byte(b'/')) {
        Some(slash) => (&symbols[..slash], Some(&symbols[slash + 1..])),
        None => (symbols, None),
    }
}
