//! Builds rule indexes.
//!
//! The result is deterministic: given the same patterns, we get the same bytes. Rules are numbered by their index in the input.

use std::collections::{BTreeMap, HashMap};

use super::row::{LiteralSlot, NO_PARENT, PrefixRow, SuffixRow};
use super::shape::{Segment, Shape};
use super::{
    AFFIX_BYTES_MAX, DENSE, EMPTY_HEAP, INDEX_RULES_MAX, LENGTHS, SPARSE_MAX, WORD_BITS, literal_hash,
};
use crate::layout::piece::Piece;

/// A rule to index.
pub(crate) struct IndexedRule<'p> {
    pub(crate) pattern: Vec<Piece<'p>>,
    /// Offset of the rule in its scope.
    pub(crate) offset: u32,
    /// Whether missing assets are exempt from this rule.
    pub(crate) pages_only: bool,
}

/// Sorted numbers of the rules in a set.
type Members = Vec<u16>;

/// A row that is a prefix of subsequent rows: its number, its key, and its rules including those of shorter prefixes.
type Ancestor<'k, K> = (u32, &'k K, Members);

/// Appends indexes for these rules, which must be of the same kind.
pub(crate) fn build(out: &mut Vec<u8>, kind: u8, rules: &[&IndexedRule<'_>]) {
    for rules in rules.chunks(INDEX_RULES_MAX) {
        let mut index = Vec::new();
        Builder::new(rules).put(&mut index, kind);
        out.extend_from_slice(&to_u32(index.len()).to_le_bytes());
        out.extend_from_slice(&index);
    }
}

struct Builder<'r> {
    rules: &'r [&'r IndexedRule<'r>],
    words: usize,
    depth: usize,
    lengths: Vec<Members>,
    any: Vec<Members>,
    empty: Vec<Members>,
    unsuffixed: Members,
    /// By position and bytes.
    literals: BTreeMap<(u8, Vec<u8>), Members>,
    /// By position and bytes: rules with a capture after this literal, and rules with a splat after it.
    prefixes: BTreeMap<(u8, Vec<u8>), (Members, Members)>,
    /// By the reversed bytes.
    suffixes: BTreeMap<Vec<u8>, Members>,
    heap: Vec<u8>,
    /// Offset of each set in the heap, by digest. We use this to store equal sets only once.
    set_offsets: HashMap<[u8; 32], u32>,
}

impl<'r> Builder<'r> {
    fn new(rules: &'r [&'r IndexedRule<'r>]) -> Builder<'r> {
        let shapes: Vec<Option<Shape>> = rules.iter().map(|rule| Shape::new(&rule.pattern)).collect();
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
            set_offsets: HashMap::new(),
        };
        for (number, shape) in (0u16..).zip(shapes) {
            match shape {
                Some(shape) => builder.add(number, shape),
                None => builder.add_to_all(number),
            }
        }
        builder
    }

    /// Adds a rule that is too large for the index. From now on, it will be a candidate for every path.
    fn add_to_all(&mut self, number: u16) {
        let sets = self.lengths.iter_mut().chain(&mut self.any).chain(&mut self.empty);
        for set in sets.chain([&mut self.unsuffixed]) {
            set.push(number);
        }
    }

    fn add(&mut self, number: u16, shape: Shape) {
        // The set at index n is for paths with n + 1 segments, except for the last one, which is for everything longer.
        let min_length = shape.min_length();
        let is_open = shape.is_open();
        for (index, set) in self.lengths.iter_mut().enumerate() {
            if index + 1 == min_length || is_open && index + 1 > min_length {
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
        for (position, segment) in (0u8..).zip(shape.segments) {
            let index = usize::from(position);
            match segment {
                Segment::Literal(text) => self.literals.entry((position, text)).or_default().push(number),
                Segment::Capture(prefix) if prefix.is_empty() => self.any[index].push(number),
                Segment::Capture(prefix) => {
                    self.prefixes.entry((position, prefix)).or_default().0.push(number);
                }
                Segment::Splat(prefix) => {
                    if prefix.is_empty() {
                        self.any[index].push(number);
                        self.empty[index].push(number);
                    } else {
                        self.prefixes.entry((position, prefix)).or_default().1.push(number);
                    }
                    // A splat accepts all later segments too.
                    for later in length..self.depth {
                        self.any[later].push(number);
                        self.empty[later].push(number);
                    }
                }
            }
        }
    }

    fn put(mut self, out: &mut Vec<u8>, kind: u8) {
        let pages = (0u16..).zip(self.rules).filter(|(_, rule)| rule.pages_only).map(|(number, _)| number);
        let pages: Members = pages.collect();
        let literals = self.literal_slots();
        let prefixes = self.prefix_rows();
        let suffixes = self.suffix_rows();
        let positions = self.prefixes.keys().fold(0u32, |bits, (position, _)| bits | 1 << position);

        out.extend_from_slice(&[kind, u8::try_from(self.depth).expect("a pattern has at most 24 segments")]);
        let rules = u16::try_from(self.rules.len()).expect("an index has at most 16,384 rules");
        out.extend_from_slice(&rules.to_le_bytes());
        for number in [to_u32(literals.len()), to_u32(prefixes.len()), to_u32(suffixes.len()), positions] {
            out.extend_from_slice(&number.to_le_bytes());
        }

        for rule in self.rules {
            out.extend_from_slice(&rule.offset.to_le_bytes());
        }
        let sets = self.lengths.iter().chain(&self.any).chain(&self.empty);
        for set in sets.chain([&self.unsuffixed, &pages]) {
            put_bits(out, set, self.words);
        }
        out.extend_from_slice(literals.as_flattened());
        out.extend_from_slice(prefixes.as_flattened());
        out.extend_from_slice(suffixes.as_flattened());
        out.extend_from_slice(&self.heap);
    }

    /// Builds the hash table of literals, which will be at most half full.
    fn literal_slots(&mut self) -> Vec<[u8; LiteralSlot::BYTES]> {
        let literals = std::mem::take(&mut self.literals);
        if literals.is_empty() {
            return Vec::new();
        }

        let mut slots = vec![LiteralSlot::EMPTY; (2 * literals.len()).next_power_of_two()];
        let mask = slots.len() - 1;
        for ((position, text), members) in &literals {
            let hash = literal_hash(*position, text);
            let mut index = hash as usize & mask;
            while slots[index] != LiteralSlot::EMPTY {
                index = (index + 1) & mask;
            }
            let slot = LiteralSlot {
                hash,
                position: *position,
                length: length_byte(text),
                text: self.put_text(text),
                set: self.put_set(members),
            };
            slots[index] = slot.encode();
        }
        slots
    }

    /// Builds the sorted prefix rows. Each row includes the rules of all shorter prefixes.
    fn prefix_rows(&mut self) -> Vec<[u8; PrefixRow::BYTES]> {
        let prefixes = std::mem::take(&mut self.prefixes);
        let mut rows = Vec::with_capacity(prefixes.len());
        // A stack of previous rows that are prefixes of the current one.
        let mut ancestors: Vec<Ancestor<'_, (u8, Vec<u8>)>> = Vec::new();
        for (number, (key, (captures, splats))) in (0u32..).zip(&prefixes) {
            while ancestors
                .last()
                .is_some_and(|(_, (position, text), _)| *position != key.0 || !key.1.starts_with(text))
            {
                ancestors.pop();
            }
            let (parent, inherited) =
                ancestors.last().map_or((NO_PARENT, &[][..]), |(row, _, all)| (*row, all));

            // A splat accepts the prefix alone, whereas a capture needs at least one more byte.
            let equal = union(inherited, splats);
            let longer = union(&equal, captures);
            // Fields are evaluated in this order, which determines the order in the heap.
            let row = PrefixRow {
                position: key.0,
                length: length_byte(&key.1),
                text: self.put_text(&key.1),
                parent,
                longer: self.put_set(&longer),
                equal: self.put_set(&equal),
            };
            rows.push(row.encode());
            ancestors.push((number, key, longer));
        }
        self.prefixes = prefixes;
        rows
    }

    /// Builds the sorted suffix rows. Each row includes the rules of all shorter suffixes.
    fn suffix_rows(&mut self) -> Vec<[u8; SuffixRow::BYTES]> {
        let suffixes = std::mem::take(&mut self.suffixes);
        let mut rows = Vec::with_capacity(suffixes.len());
        let mut ancestors: Vec<Ancestor<'_, Vec<u8>>> = Vec::new();
        for (number, (text, members)) in (0u32..).zip(&suffixes) {
            while ancestors.last().is_some_and(|(_, shorter, _)| !text.starts_with(shorter)) {
                ancestors.pop();
            }
            let (parent, inherited) =
                ancestors.last().map_or((NO_PARENT, &[][..]), |(row, _, all)| (*row, all));

            let all = union(inherited, members);
            let row = SuffixRow {
                length: length_byte(text),
                text: self.put_text(text),
                parent,
                set: self.put_set(&all),
            };
            rows.push(row.encode());
            ancestors.push((number, text, all));
        }
        rows
    }

    /// Appends a text to the heap and returns its offset.
    fn put_text(&mut self, text: &[u8]) -> u32 {
        let offset = to_u32(self.heap.len());
        self.heap.extend_from_slice(text);
        offset
    }

    /// Returns the offset of a set in the heap. Appends it unless it is there already.
    fn put_set(&mut self, members: &Members) -> u32 {
        let bytes: Vec<u8> = members.iter().flat_map(|number| number.to_le_bytes()).collect();
        let digest = *blake3::hash(&bytes).as_bytes();
        if let Some(offset) = self.set_offsets.get(&digest) {
            return *offset;
        }

        let offset = to_u32(self.heap.len());
        if members.len() <= SPARSE_MAX {
            let count = u16::try_from(members.len()).expect("a list has at most 32 rules");
            self.heap.extend_from_slice(&count.to_le_bytes());
            self.heap.extend_from_slice(&bytes);
        } else {
            self.heap.extend_from_slice(&DENSE.to_le_bytes());
            put_bits(&mut self.heap, members, self.words);
        }
        self.set_offsets.insert(digest, offset);
        offset
    }
}

/// Converts a size. The texts and sets of 16,384 rules are far smaller than 4 GiB.
fn to_u32(size: usize) -> u32 {
    u32::try_from(size).expect("an index is shorter than 4 GiB")
}

fn put_bits(out: &mut Vec<u8>, members: &[u16], words: usize) {
    let mut bits = vec![0u64; words];
    for number in members {
        bits[usize::from(*number) / WORD_BITS] |= 1 << (usize::from(*number) % WORD_BITS);
    }
    for word in bits {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn union(one: &[u16], other: &[u16]) -> Members {
    let mut all = [one, other].concat();
    all.sort_unstable();
    all.dedup();
    all
}

fn length_byte(text: &[u8]) -> u8 {
    debug_assert!(text.len() <= AFFIX_BYTES_MAX);
    u8::try_from(text.len()).expect("an indexed literal has at most 255 bytes")
}
