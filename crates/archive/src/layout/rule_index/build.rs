//! Builds an index of patterns.
//!
//! Same patterns, same bytes. Never orders rules: their place among the patterns is their number.

use std::collections::{BTreeMap, HashMap};

use super::shape::{Segment, Shape};
use super::{
    AFFIX_BYTES_MAX, DENSE, EMPTY_HEAP, INDEX_RULES_MAX, LENGTHS, SPARSE_MAX, WORD_BITS, literal_hash,
};
use crate::layout::piece::Piece;

/// A rule to be found: its pattern, and where in the scope it stands.
pub(crate) struct Indexed<'p> {
    pub(crate) pattern: &'p [Piece<'p>],
    pub(crate) place: u32,
    /// Whether it does not answer for a missing asset.
    pub(crate) is_for_pages: bool,
}

/// A set of rules, while it is built.
type Members = Vec<u16>;

/// A row that is a prefix of the next one: its number, its key, and all its rules.
type Around<'k, K> = (u32, &'k K, Members);

/// Appends the indexes of these rules, each of which has as many as fit.
pub(crate) fn build(out: &mut Vec<u8>, kind: u8, rules: &[Indexed<'_>]) {
    for rules in rules.chunks(INDEX_RULES_MAX) {
        let mut index = Vec::new();
        Builder::new(rules).put(&mut index, kind);
        out.extend_from_slice(&u32::try_from(index.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&index);
    }
}

struct Builder<'r> {
    rules: &'r [Indexed<'r>],
    words: usize,
    depth: usize,
    lengths: Vec<Members>,
    any: Vec<Members>,
    empty: Vec<Members>,
    unsuffixed: Members,
    literals: BTreeMap<(u8, Vec<u8>), Members>,
    /// The rules with a capture behind these bytes, and those with a splat.
    prefixes: BTreeMap<(u8, Vec<u8>), (Members, Members)>,
    /// By the bytes of the suffix, the last first.
    suffixes: BTreeMap<Vec<u8>, Members>,
    heap: Vec<u8>,
    /// Where equal sets lie in the heap.
    known: HashMap<[u8; 32], u32>,
}

impl<'r> Builder<'r> {
    fn new(rules: &'r [Indexed<'r>]) -> Builder<'r> {
        let shapes: Vec<Option<Shape>> = rules.iter().map(|rule| Shape::of(rule.pattern)).collect();
        let segments = |shape: &Option<Shape>| shape.as_ref().map_or(1, |shape| shape.segments.len());
        let depth = shapes.iter().map(segments).max().unwrap_or(0);
        let mut builder = Builder {
            rules,
            words: rules.len().div_ceil(WORD_BITS),
            depth,
            lengths: vec![Vec::new(); LENGTHS],
            any: vec![Vec::new(); depth],
            empty: vec![Vec::new(); depth],
            unsuffixed: Vec::new(),
            literals: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            suffixes: BTreeMap::new(),
            heap: EMPTY_HEAP.to_vec(),
            known: HashMap::new(),
        };
        for (number, shape) in (0u16..).zip(shapes) {
            match shape {
                Some(shape) => builder.add(number, shape),
                None => builder.add_everywhere(number),
            }
        }
        builder
    }

    /// Adds a rule whose pattern is too large: it is a candidate for each path.
    fn add_everywhere(&mut self, number: u16) {
        let sets = self.lengths.iter_mut().chain(&mut self.any).chain(&mut self.empty);
        sets.chain([&mut self.unsuffixed]).for_each(|set| set.push(number));
    }

    fn add(&mut self, number: u16, shape: Shape) {
        let (least, has_more) = shape.lengths();
        // The set at place n is of the paths with n + 1 segments, the last one of those with more than any pattern has.
        for (place, set) in self.lengths.iter_mut().enumerate() {
            if place + 1 == least || has_more && place + 1 > least {
                set.push(number);
            }
        }
        if shape.suffix.is_empty() {
            self.unsuffixed.push(number);
        } else {
            let reversed = shape.suffix.iter().rev().copied().collect();
            self.suffixes.entry(reversed).or_default().push(number);
        }
        let length = shape.segments.len();
        for (place, segment) in (0u8..).zip(shape.segments) {
            let at = usize::from(place);
            match segment {
                Segment::Literal(text) => self.literals.entry((place, text)).or_default().push(number),
                Segment::Capture(prefix) if prefix.is_empty() => self.any[at].push(number),
                Segment::Capture(prefix) => self.prefixes.entry((place, prefix)).or_default().0.push(number),
                Segment::Splat(prefix) => {
                    if prefix.is_empty() {
                        self.any[at].push(number);
                        self.empty[at].push(number);
                    } else {
                        self.prefixes.entry((place, prefix)).or_default().1.push(number);
                    }
                    for behind in length..self.depth {
                        self.any[behind].push(number);
                        self.empty[behind].push(number);
                    }
                }
            }
        }
    }

    fn put(mut self, out: &mut Vec<u8>, kind: u8) {
        let pages = (0u16..).zip(self.rules).filter(|(_, rule)| rule.is_for_pages).map(|(number, _)| number);
        let pages: Members = pages.collect();
        let literals = self.literal_slots();
        let prefixes = self.prefix_rows();
        let suffixes = self.suffix_rows();
        let positions = self.prefixes.keys().fold(0u32, |bits, (place, _)| bits | 1 << place);
        let count = |rows: usize| u32::try_from(rows).unwrap_or(u32::MAX).to_le_bytes();
        out.extend_from_slice(&[kind, u8::try_from(self.depth).unwrap_or(u8::MAX)]);
        out.extend_from_slice(&u16::try_from(self.rules.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(&count(literals.len()));
        out.extend_from_slice(&count(prefixes.len()));
        out.extend_from_slice(&count(suffixes.len()));
        out.extend_from_slice(&positions.to_le_bytes());
        self.rules.iter().for_each(|rule| out.extend_from_slice(&rule.place.to_le_bytes()));
        let sets = self.lengths.iter().chain(&self.any).chain(&self.empty);
        for set in sets.chain([&self.unsuffixed, &pages]) {
            put_bits(out, set, self.words);
        }
        out.extend_from_slice(literals.as_flattened());
        out.extend_from_slice(prefixes.as_flattened());
        out.extend_from_slice(suffixes.as_flattened());
        out.extend_from_slice(&self.heap);
    }

    /// The table of literals, at most half full.
    fn literal_slots(&mut self) -> Vec<[u8; 14]> {
        let literals = std::mem::take(&mut self.literals);
        if literals.is_empty() {
            return Vec::new();
        }
        let mut slots = vec![[0; 14]; (2 * literals.len()).next_power_of_two()];
        let mask = slots.len() - 1;
        for ((place, text), members) in &literals {
            let hash = literal_hash(*place, text);
            let mut at = hash as usize & mask;
            while slots[at] != [0; 14] {
                at = (at + 1) & mask;
            }
            let (bytes, set) = (self.put_text(text), self.put_set(members));
            slots[at][..4].copy_from_slice(&hash.to_le_bytes());
            slots[at][4] = *place;
            slots[at][5] = length_byte(text);
            slots[at][6..10].copy_from_slice(&bytes.to_le_bytes());
            slots[at][10..].copy_from_slice(&set.to_le_bytes());
        }
        slots
    }

    /// The rows of prefixes, sorted. Each has the rules of all shorter prefixes too.
    fn prefix_rows(&mut self) -> Vec<[u8; 18]> {
        let prefixes = std::mem::take(&mut self.prefixes);
        let mut rows = Vec::with_capacity(prefixes.len());
        // The rows that are prefixes of the next one, as far as they are known, with all their rules.
        let mut around: Vec<Around<'_, (u8, Vec<u8>)>> = Vec::new();
        for (number, (key, (captures, splats))) in (0u32..).zip(&prefixes) {
            while around
                .last()
                .is_some_and(|(_, (place, text), _)| *place != key.0 || !key.1.starts_with(text))
            {
                around.pop();
            }
            let (parent, inherited) = around.last().map_or((u32::MAX, &[][..]), |(row, _, all)| (*row, all));
            let equal = union(inherited, splats);
            let longer = union(&equal, captures);
            let mut row = [0; 18];
            row[0] = key.0;
            row[1] = length_byte(&key.1);
            row[2..6].copy_from_slice(&self.put_text(&key.1).to_le_bytes());
            row[6..10].copy_from_slice(&parent.to_le_bytes());
            row[10..14].copy_from_slice(&self.put_set(&longer).to_le_bytes());
            row[14..].copy_from_slice(&self.put_set(&equal).to_le_bytes());
            rows.push(row);
            around.push((number, key, longer));
        }
        self.prefixes = prefixes;
        rows
    }

    /// The same for suffixes.
    fn suffix_rows(&mut self) -> Vec<[u8; 13]> {
        let suffixes = std::mem::take(&mut self.suffixes);
        let mut rows = Vec::with_capacity(suffixes.len());
        let mut around: Vec<Around<'_, Vec<u8>>> = Vec::new();
        for (number, (text, members)) in (0u32..).zip(&suffixes) {
            while around.last().is_some_and(|(_, shorter, _)| !text.starts_with(shorter)) {
                around.pop();
            }
            let (parent, inherited) = around.last().map_or((u32::MAX, &[][..]), |(row, _, all)| (*row, all));
            let all = union(inherited, members);
            let mut row = [0; 13];
            row[0] = length_byte(text);
            row[1..5].copy_from_slice(&self.put_text(text).to_le_bytes());
            row[5..9].copy_from_slice(&parent.to_le_bytes());
            row[9..].copy_from_slice(&self.put_set(&all).to_le_bytes());
            rows.push(row);
            around.push((number, text, all));
        }
        rows
    }

    fn put_text(&mut self, text: &[u8]) -> u32 {
        let at = self.heap_end();
        self.heap.extend_from_slice(text);
        at
    }

    fn put_set(&mut self, members: &Members) -> u32 {
        let bytes: Vec<u8> = members.iter().flat_map(|number| number.to_le_bytes()).collect();
        let digest = *blake3::hash(&bytes).as_bytes();
        if let Some(at) = self.known.get(&digest) {
            return *at;
        }
        let at = self.heap_end();
        let count = u16::try_from(members.len()).unwrap_or(DENSE);
        if members.len() <= SPARSE_MAX {
            self.heap.extend_from_slice(&count.to_le_bytes());
            self.heap.extend_from_slice(&bytes);
        } else {
            self.heap.extend_from_slice(&DENSE.to_le_bytes());
            put_bits(&mut self.heap, members, self.words);
        }
        self.known.insert(digest, at);
        at
    }

    fn heap_end(&self) -> u32 {
        u32::try_from(self.heap.len()).unwrap_or(u32::MAX)
    }
}

fn put_bits(out: &mut Vec<u8>, members: &[u16], words: usize) {
    let mut bits = vec![0u64; words];
    for number in members {
        bits[usize::from(*number) / WORD_BITS] |= 1 << (usize::from(*number) % WORD_BITS);
    }
    bits.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Both sets, sorted.
fn union(one: &[u16], other: &[u16]) -> Members {
    let mut all = [one, other].concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// The length of a text that is short enough to be in an index.
fn length_byte(text: &[u8]) -> u8 {
    debug_assert!(text.len() <= AFFIX_BYTES_MAX);
    u8::try_from(text.len()).unwrap_or(u8::MAX)
}
