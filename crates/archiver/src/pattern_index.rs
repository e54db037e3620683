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
    /// Continuations after each kind of segment.
    children: HashMap<Segment, Node>,
    /// Patterns that end here.
    ends: Vec<usize>,
}

/// One segment of a pattern.
#[derive(PartialEq, Eq, Hash)]
struct Segment {
    /// The bytes before the first symbol that isn't a byte.
    prefix: Vec<u8>,
    tail: Tail,
}

/// The part of a segment after its prefix.
#[derive(PartialEq, Eq, Hash)]
enum Tail {
    /// The prefix is the whole segment.
    Empty,
    /// A capture, and anything after it.
    Capture,
    /// A splat, and the rest of the pattern.
    Splat,
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
        let segment = Segment::new(segment);
        let rest = rest.filter(|_| segment.tail != Tail::Splat);
        let child = self.children.entry(segment).or_default();
        match rest {
            Some(rest) => child.add(rest, number),
            None => child.ends.push(number),
        }
    }

    fn find(&self, symbols: &[Symbol], found: &mut Vec<usize>) {
        let (segment, rest) = split_segment(symbols);
        let follow = |segment: &Segment, found: &mut Vec<usize>| {
            if let Some(child) = self.children.get(segment) {
                match rest {
                    Some(rest) => child.find(rest, found),
                    None => found.extend(&child.ends),
                }
            }
        };

        let mut segment = Segment::new(segment);
        if segment.tail == Tail::Empty {
            follow(&segment, found);
        }

        // Captures and splats also match from any earlier byte of the prefix on.
        loop {
            segment.tail = Tail::Capture;
            follow(&segment, found);

            segment.tail = Tail::Splat;
            if let Some(child) = self.children.get(&segment) {
                found.extend(&child.ends);
            }

            if segment.prefix.pop().is_none() {
                return;
            }
        }
    }
}

impl Segment {
    fn new(symbols: &[Symbol]) -> Self {
        let prefix: Vec<u8> = symbols.iter().map_while(Symbol::byte).collect();
        let tail = match symbols.get(prefix.len()) {
            None => Tail::Empty,
            Some(Symbol::Splat) => Tail::Splat,
            Some(_) => Tail::Capture,
        };
        Self { prefix, tail }
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
