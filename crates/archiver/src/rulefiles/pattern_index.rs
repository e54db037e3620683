//! Finds patterns that can match a path or cover another pattern, without having to compare all of
//! them.
//!
//! This is a trie over path segments. It will be searched once per rule, to avoid quadratic time for files with, say,
//! 100,000 patterns.

use std::collections::HashMap;

use crate::rulefiles::pattern::Symbol;

/// Patterns by segments. Each pattern has a number, under which it was added.
///
/// There is a single table for all edges of the tree: with one table per node, a build with many patterns would spend most of its
/// time here.
#[derive(Default)]
pub(crate) struct PatternIndex {
    children: HashMap<Edge, NodeId>,
    /// Patterns that end at each node, except for the root, where no pattern can end.
    ends: Vec<Vec<usize>>,
}

/// A node represents all patterns with the same segments up to this point.
///
/// It is 0 for the root, and an index into [`PatternIndex::ends`] plus one for all others.
type NodeId = usize;

const ROOT: NodeId = 0;

/// A pattern segment that leads from one node to another.
#[derive(PartialEq, Eq, Hash)]
struct Edge {
    from: NodeId,
    /// All bytes before the first symbol that is not a byte.
    prefix: Vec<u8>,
    tail: Tail,
}

/// The rest of a segment after its prefix.
#[derive(PartialEq, Eq, Hash)]
enum Tail {
    /// The prefix is the whole segment.
    Empty,
    /// A capture, maybe followed by more.
    Capture,
    /// A splat and the rest of the pattern.
    Splat,
}

impl PatternIndex {
    /// Adds a pattern. It must begin with a slash.
    pub(crate) fn add(&mut self, symbols: &[Symbol], number: usize) {
        let mut node = ROOT;
        let mut rest = Some(after_slash(symbols));
        while let Some(symbols) = rest {
            let (segment, after) = split_segment(symbols);
            let edge = Edge::new(node, segment);
            rest = after.filter(|_| edge.tail != Tail::Splat);
            node = *self.children.entry(edge).or_insert_with(|| {
                self.ends.push(Vec::new());
                self.ends.len()
            });
        }
        self.ends[node - 1].push(number);
    }

    /// Among all patterns that may cover `symbols`, returns the lowest number that satisfies `is_match`.
    ///
    /// `symbols` can be a path or a pattern and must begin with a slash.
    pub(crate) fn first(&self, symbols: &[Symbol], is_match: impl Fn(usize) -> bool) -> Option<usize> {
        let mut candidates = Vec::new();
        self.find(ROOT, after_slash(symbols), &mut candidates);
        candidates.sort_unstable();
        candidates.into_iter().find(|number| is_match(*number))
    }

    /// Collects patterns below `node` that can cover the rest of a path or pattern.
    fn find(&self, node: NodeId, symbols: &[Symbol], found: &mut Vec<usize>) {
        let (segment, rest) = split_segment(symbols);
        let follow = |edge: &Edge, found: &mut Vec<usize>| {
            if let Some(child) = self.children.get(edge) {
                match rest {
                    Some(rest) => self.find(*child, rest, found),
                    None => found.extend(&self.ends[child - 1]),
                }
            }
        };

        let mut edge = Edge::new(node, segment);
        if edge.tail == Tail::Empty {
            follow(&edge, found);
        }

        // A capture or splat may also start at any earlier byte of the prefix.
        loop {
            edge.tail = Tail::Capture;
            follow(&edge, found);

            edge.tail = Tail::Splat;
            if let Some(child) = self.children.get(&edge) {
                found.extend(&self.ends[child - 1]);
            }

            if edge.prefix.pop().is_none() {
                return;
            }
        }
    }
}

impl Edge {
    fn new(from: NodeId, symbols: &[Symbol]) -> Self {
        let prefix: Vec<u8> = symbols.iter().map_while(Symbol::byte).collect();
        let tail = match symbols.get(prefix.len()) {
            None => Tail::Empty,
            Some(Symbol::Splat) => Tail::Splat,
            Some(_) => Tail::Capture,
        };
        Self { from, prefix, tail }
    }
}

fn after_slash(symbols: &[Symbol]) -> &[Symbol] {
    symbols.strip_prefix(&[Symbol::Byte(b'/')]).unwrap_or(symbols)
}

/// Splits off the first segment and the slash after it.
fn split_segment(symbols: &[Symbol]) -> (&[Symbol], Option<&[Symbol]>) {
    match symbols.iter().position(|symbol| *symbol == Symbol::Byte(b'/')) {
        Some(slash) => (&symbols[..slash], Some(&symbols[slash + 1..])),
        None => (symbols, None),
    }
}
