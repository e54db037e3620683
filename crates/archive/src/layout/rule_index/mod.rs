//! Indexes of patterns: which of many rules may match a path, at a cost that a request cannot raise.
//!
//! A pattern is cut into segments. For each segment that a path may have, the index holds the set of the rules that accept
//! it there, a bit for each rule or a short list, and a search intersects those sets. That takes time with the rules divided
//! by 64, for each segment that a pattern can have, however the rules and the path are made (`limits` below). What is left
//! may match; the caller holds the patterns themselves against the path, in order.

mod build;
mod shape;

pub(crate) use build::{Indexed, build};

use super::Fields;
use crate::Corrupt;

/// One index has no more rules; a scope with more has several.
pub const INDEX_RULES_MAX: usize = 1 << 14;
/// A pattern with more segments is in no set, and so a candidate for each path.
pub const PATTERN_SEGMENTS_MAX: usize = 24;
/// The same for a longer literal in a segment, and for a longer one behind a splat.
pub const AFFIX_BYTES_MAX: usize = 255;

/// The words of the largest set.
const WORDS_MAX: usize = INDEX_RULES_MAX / WORD_BITS;
const WORD_BITS: usize = 64;
const WORD_BYTES: usize = WORD_BITS / 8;
/// Sets of paths by their number of segments: up to what a pattern can have, and more.
const LENGTHS: usize = PATTERN_SEGMENTS_MAX + 1;
/// A set of more rules is stored as bits.
const SPARSE_MAX: usize = 32;
/// In place of the number of rules: the set is stored as bits.
const DENSE: u16 = u16::MAX;
/// What begins the heap, so that no set stands at 0.
const EMPTY_HEAP: &[u8] = &[0, 0];

const YIELDING: u8 = 0;
const FORCING: u8 = 1;
const HEADER: u8 = 2;

/// Which rules an index is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// Rules that count where no path is.
    Yielding,
    /// Rules that count before the exact path does.
    Forcing,
    /// Rules that add fields.
    Header,
}

impl IndexKind {
    pub(crate) fn number(self) -> u8 {
        match self {
            IndexKind::Yielding => YIELDING,
            IndexKind::Forcing => FORCING,
            IndexKind::Header => HEADER,
        }
    }
}

/// An index of patterns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleIndex<'a> {
    pub(crate) kind: IndexKind,
    depth: usize,
    words: usize,
    /// The places where some rule has a prefix before its capture or splat.
    prefix_positions: u32,
    places: &'a [[u8; 4]],
    lengths: &'a [[u8; WORD_BYTES]],
    any: &'a [[u8; WORD_BYTES]],
    empty: &'a [[u8; WORD_BYTES]],
    unsuffixed: &'a [[u8; WORD_BYTES]],
    pages: &'a [[u8; WORD_BYTES]],
    literals: &'a [[u8; 14]],
    prefixes: &'a [[u8; 18]],
    suffixes: &'a [[u8; 13]],
    heap: &'a [u8],
    corrupt: Corrupt,
}

/// Room for the rules that are still candidates during a search.
pub struct Candidates {
    bits: Box<[u64; WORDS_MAX]>,
    /// Those of the path without its last slash.
    stripped: Box<[u64; WORDS_MAX]>,
    words: usize,
}

impl Default for Candidates {
    fn default() -> Candidates {
        Candidates { bits: Box::new([0; WORDS_MAX]), stripped: Box::new([0; WORDS_MAX]), words: 0 }
    }
}

impl Candidates {
    /// The numbers of the rules that are left, in their order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.bits[..self.words].iter().enumerate().flat_map(|(place, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (bit < WORD_BITS).then_some(WORD_BITS * place + bit)
            })
        })
    }
}

/// A set of rules in an index.
enum Set<'a> {
    Sparse(&'a [[u8; 2]]),
    Dense(&'a [[u8; WORD_BYTES]]),
}

impl<'a> Set<'a> {
    const NONE: Set<'static> = Set::Sparse(&[]);
}

impl<'a> RuleIndex<'a> {
    /// Decodes an index from the front of `fields`.
    pub(crate) fn decode(fields: &mut Fields<'a>) -> Result<RuleIndex<'a>, Corrupt> {
        let length = fields.u32()?;
        let mut index = fields.part(length as usize)?;
        let corrupt = index.corrupt();
        let [kind, depth] = *index.array()?;
        let kind = match kind {
            YIELDING => IndexKind::Yielding,
            FORCING => IndexKind::Forcing,
            HEADER => IndexKind::Header,
            _ => return Err(corrupt),
        };
        let rules = usize::from(index.u16()?);
        let depth = usize::from(depth);
        if rules > INDEX_RULES_MAX || depth > PATTERN_SEGMENTS_MAX {
            return Err(corrupt);
        }
        let words = rules.div_ceil(WORD_BITS);
        let [literals, prefixes, suffixes, prefix_positions] =
            [index.u32()?, index.u32()?, index.u32()?, index.u32()?];
        if literals != 0 && !literals.is_power_of_two() {
            return Err(corrupt);
        }
        Ok(RuleIndex {
            kind,
            depth,
            words,
            prefix_positions,
            places: rows(&mut index, rules)?,
            lengths: rows(&mut index, LENGTHS * words)?,
            any: rows(&mut index, depth * words)?,
            empty: rows(&mut index, depth * words)?,
            unsuffixed: rows(&mut index, words)?,
            pages: rows(&mut index, words)?,
            literals: rows(&mut index, literals as usize)?,
            prefixes: rows(&mut index, prefixes as usize)?,
            suffixes: rows(&mut index, suffixes as usize)?,
            heap: index.rest(),
            corrupt,
        })
    }

    /// Where the rule of this number stands among the rules of its scope.
    pub(crate) fn place(&self, number: usize) -> Result<usize, Corrupt> {
        let place = self.places.get(number).ok_or(self.corrupt)?;
        Ok(u32::from_le_bytes(*place) as usize)
    }

    /// Whether a rule does not answer for missing assets.
    pub(crate) fn has_rules_for_pages(&self) -> bool {
        self.pages.iter().any(|word| *word != [0; WORD_BYTES])
    }

    /// Finds the rules that may match a path, which stands behind its folder's slash. A missing asset leaves out the rules
    /// for pages.
    pub(crate) fn search(
        &self,
        path: &[u8],
        is_asset: bool,
        candidates: &mut Candidates,
    ) -> Result<(), Corrupt> {
        let path_segments = Segments::of(path);
        let Segments { count, ends_with_slash, .. } = path_segments;
        candidates.words = self.words;
        let exact = self.of_length(count);
        let shorter = if ends_with_slash { self.of_length(count - 1) } else { &[] };
        let bits = &mut candidates.bits[..self.words];
        for (place, word) in bits.iter_mut().enumerate() {
            let stripped = shorter.get(place).map_or(0, |word| u64::from_le_bytes(*word));
            let pages = if is_asset { u64::from_le_bytes(self.pages[place]) } else { 0 };
            *word = (u64::from_le_bytes(exact[place]) | stripped) & !pages;
        }
        // A slash at the end makes a segment of no bytes, which a pattern need not have.
        let last = count - usize::from(ends_with_slash);
        let mut segments = path_segments.take(self.depth).enumerate();
        for (position, segment) in segments.by_ref().take(last) {
            if !self.narrow(position, segment, bits)? {
                return Ok(());
            }
        }
        if ends_with_slash {
            let stripped = &mut candidates.stripped[..self.words];
            let suffix = self.suffix_set(&path[..path.len() - 1])?;
            for (place, word) in stripped.iter_mut().enumerate() {
                *word = bits[place] & u64::from_le_bytes(shorter[place]);
            }
            self.narrow_by(self.unsuffixed, &[suffix, Set::NONE], stripped);
            for (place, word) in bits.iter_mut().enumerate() {
                *word &= u64::from_le_bytes(exact[place]);
            }
            if let Some((position, segment)) = segments.next() {
                self.narrow(position, segment, bits)?;
            }
        }
        let suffix = self.suffix_set(path)?;
        self.narrow_by(self.unsuffixed, &[suffix, Set::NONE], bits);
        if ends_with_slash {
            bits.iter_mut().zip(candidates.stripped.iter()).for_each(|(word, stripped)| *word |= stripped);
        }
        Ok(())
    }

    /// Finds the rules that match every path.
    pub(crate) fn search_universal(&self, candidates: &mut Candidates) {
        candidates.words = self.words;
        let longest = self.of_length(usize::MAX);
        let bits = &mut candidates.bits[..self.words];
        for (place, word) in bits.iter_mut().enumerate() {
            let all = [longest.get(place), self.empty.get(place), self.unsuffixed.get(place)];
            *word = all
                .iter()
                .fold(u64::MAX, |bits, word| bits & word.map_or(0, |word| u64::from_le_bytes(*word)));
        }
    }

    /// The rules that match paths of so many segments.
    fn of_length(&self, segments: usize) -> &'a [[u8; WORD_BYTES]] {
        let place = segments.min(LENGTHS) - 1;
        &self.lengths[place * self.words..][..self.words]
    }

    /// Drops the rules that do not accept this segment at this position. Returns whether any is left.
    fn narrow(&self, position: usize, segment: &[u8], bits: &mut [u64]) -> Result<bool, Corrupt> {
        let base = if segment.is_empty() { self.empty } else { self.any };
        let base = &base[position * self.words..][..self.words];
        let sets = [self.literal_set(position, segment)?, self.prefix_set(position, segment)?];
        Ok(self.narrow_by(base, &sets, bits))
    }

    /// Drops the rules that are in none of these sets. Returns whether any is left.
    fn narrow_by(&self, base: &[[u8; WORD_BYTES]], sets: &[Set<'_>; 2], bits: &mut [u64]) -> bool {
        // Lists are looked up before their bits are dropped, and put back then.
        let mut kept = [0u32; 2];
        for (kept, set) in kept.iter_mut().zip(sets) {
            if let Set::Sparse(numbers) = set {
                for (place, number) in numbers.iter().enumerate() {
                    let number = usize::from(u16::from_le_bytes(*number));
                    let word = bits.get(number / WORD_BITS).copied().unwrap_or(0);
                    *kept |= ((word >> (number % WORD_BITS) & 1) as u32) << (place % SPARSE_MAX);
                }
            }
        }
        let mut left = intersect(bits, base, sets);
        for (mut kept, set) in kept.into_iter().zip(sets) {
            let Set::Sparse(numbers) = set else { continue };
            while kept != 0 {
                let number = numbers
                    .get(kept.trailing_zeros() as usize)
                    .map_or(0, |number| u16::from_le_bytes(*number));
                let number = usize::from(number);
                if let Some(word) = bits.get_mut(number / WORD_BITS) {
                    *word |= 1 << (number % WORD_BITS);
                }
                kept &= kept - 1;
                left = 1;
            }
        }
        left != 0
    }

    /// The rules that have just this segment at this position.
    fn literal_set(&self, position: usize, segment: &[u8]) -> Result<Set<'a>, Corrupt> {
        if self.literals.is_empty() || segment.len() > AFFIX_BYTES_MAX {
            return Ok(Set::NONE);
        }
        let hash = literal_hash(u8::try_from(position).unwrap_or(u8::MAX), segment);
        let mask = self.literals.len() - 1;
        for probe in 0..self.literals.len() {
            let slot = &self.literals[(hash as usize).wrapping_add(probe) & mask];
            let set = number_at(slot, 10);
            if set == 0 {
                break;
            }
            let is_alike = number_at(slot, 0) == hash
                && usize::from(slot[4]) == position
                && usize::from(slot[5]) == segment.len();
            if is_alike && self.text(number_at(slot, 6), slot[5])? == segment {
                return self.set(set);
            }
        }
        Ok(Set::NONE)
    }

    /// The rules that have a capture or a splat at this position, behind bytes that the segment begins with.
    fn prefix_set(&self, position: usize, segment: &[u8]) -> Result<Set<'a>, Corrupt> {
        if self.prefix_positions & 1 << position == 0 {
            return Ok(Set::NONE);
        }
        let key =
            |row: &[u8; 18]| Ok::<_, Corrupt>((usize::from(row[0]), self.text(number_at(row, 2), row[1])?));
        let (mut low, mut high) = (0, self.prefixes.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if key(&self.prefixes[middle])? <= (position, segment) { low = middle + 1 } else { high = middle }
        }
        // The longest prefix is the last one that is not greater, or one that this one begins with.
        let Some(mut row) = low.checked_sub(1).map(|row| &self.prefixes[row]) else { return Ok(Set::NONE) };
        let (found_at, text) = key(row)?;
        if found_at != position {
            return Ok(Set::NONE);
        }
        let common = text.iter().zip(segment).take_while(|(one, other)| one == other).count();
        let mut length = usize::from(row[1]);
        while length > common {
            let Some(parent) = self.prefixes.get(number_at(row, 6) as usize) else { return Ok(Set::NONE) };
            if usize::from(parent[1]) >= length {
                return Err(self.corrupt);
            }
            (row, length) = (parent, usize::from(parent[1]));
        }
        self.set(number_at(row, if length == segment.len() { 14 } else { 10 }))
    }

    /// The rules with a literal behind their splat that ends the path.
    fn suffix_set(&self, path: &[u8]) -> Result<Set<'a>, Corrupt> {
        if self.suffixes.is_empty() {
            return Ok(Set::NONE);
        }
        let tail = &path[path.len().saturating_sub(AFFIX_BYTES_MAX)..];
        let reversed = || tail.iter().rev();
        let text = |row: &[u8; 13]| self.text(number_at(row, 1), row[0]);
        let (mut low, mut high) = (0, self.suffixes.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let is_past = text(&self.suffixes[middle])?.iter().cmp(reversed()).is_gt();
            if is_past { high = middle } else { low = middle + 1 }
        }
        let Some(mut row) = low.checked_sub(1).map(|row| &self.suffixes[row]) else { return Ok(Set::NONE) };
        let common = text(row)?.iter().zip(reversed()).take_while(|(one, other)| one == other).count();
        while usize::from(row[0]) > common {
            let Some(parent) = self.suffixes.get(number_at(row, 5) as usize) else { return Ok(Set::NONE) };
            if parent[0] >= row[0] {
                return Err(self.corrupt);
            }
            row = parent;
        }
        self.set(number_at(row, 9))
    }

    fn text(&self, at: u32, length: u8) -> Result<&'a [u8], Corrupt> {
        let rest = self.heap.get(at as usize..).ok_or(self.corrupt)?;
        rest.get(..usize::from(length)).ok_or(self.corrupt)
    }

    fn set(&self, at: u32) -> Result<Set<'a>, Corrupt> {
        let (count, rest) =
            self.heap.get(at as usize..).and_then(<[u8]>::split_first_chunk).ok_or(self.corrupt)?;
        let count = u16::from_le_bytes(*count);
        if count == DENSE {
            let (words, _) = rest.as_chunks();
            return Ok(Set::Dense(words.get(..self.words).ok_or(self.corrupt)?));
        }
        let count = usize::from(count);
        let (numbers, _) = rest.as_chunks();
        let numbers = numbers.get(..count).filter(|_| count <= SPARSE_MAX).ok_or(self.corrupt)?;
        Ok(Set::Sparse(numbers))
    }
}

/// Drops the bits that are in none of these sets of as many words. Returns what is left of them, all words in one.
#[inline]
fn intersect(bits: &mut [u64], base: &[[u8; WORD_BYTES]], sets: &[Set<'_>; 2]) -> u64 {
    let word = |bytes: &[u8; WORD_BYTES]| u64::from_le_bytes(*bytes);
    let mut left = 0;
    match sets {
        [Set::Dense(one), Set::Dense(other)] => {
            for (((bits, base), one), other) in bits.iter_mut().zip(base).zip(*one).zip(*other) {
                *bits &= word(base) | word(one) | word(other);
                left |= *bits;
            }
        }
        [Set::Dense(set), _] | [_, Set::Dense(set)] => {
            for ((bits, base), set) in bits.iter_mut().zip(base).zip(*set) {
                *bits &= word(base) | word(set);
                left |= *bits;
            }
        }
        _ => {
            for (bits, base) in bits.iter_mut().zip(base) {
                *bits &= word(base);
                left |= *bits;
            }
        }
    }
    left
}

/// Takes so many rows of one length off the front.
fn rows<'a, const N: usize>(fields: &mut Fields<'a>, count: usize) -> Result<&'a [[u8; N]], Corrupt> {
    let bytes = count.checked_mul(N).ok_or_else(|| fields.corrupt())?;
    Ok(fields.take(bytes)?.as_chunks().0)
}

fn number_at(row: &[u8], at: usize) -> u32 {
    row.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The hash of a literal at a position, as `FORMAT.md` defines it.
fn literal_hash(position: u8, text: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let step =
        |hash: u64, word: [u8; 8]| (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    let (words, rest) = text.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let start = u64::from(position) << 8 | (text.len() as u64 & 0xff);
    let hash = words.iter().fold(step(0, start.to_le_bytes()), |hash, word| step(hash, *word));
    (step(hash, last) >> 32) as u32
}

/// The segments of a path: what stands between its slashes.
struct Segments<'p> {
    rest: Option<&'p [u8]>,
    /// How many there are; not counted further than any pattern goes.
    count: usize,
    ends_with_slash: bool,
}

impl<'p> Segments<'p> {
    fn of(path: &'p [u8]) -> Segments<'p> {
        let mut count = 1;
        let mut rest = path;
        while let Some(slash) = slash_in(rest)
            && count <= LENGTHS + 1
        {
            rest = &rest[slash + 1..];
            count += 1;
        }
        Segments { rest: Some(path), count, ends_with_slash: path.ends_with(b"/") }
    }
}

impl<'p> Iterator for Segments<'p> {
    type Item = &'p [u8];

    fn next(&mut self) -> Option<&'p [u8]> {
        let rest = self.rest?;
        match slash_in(rest) {
            Some(slash) => {
                self.rest = Some(&rest[slash + 1..]);
                Some(&rest[..slash])
            }
            None => {
                self.rest = None;
                Some(rest)
            }
        }
    }
}

#[inline]
fn slash_in(bytes: &[u8]) -> Option<usize> {
    cannery_base::swar::find_byte(bytes, b'/')
}
