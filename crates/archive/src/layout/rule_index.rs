//! Rule indexes. They find the rules that might match a path, in an amount of time clients cannot increase.
//!
//! A pattern is split into segments. For each position, and for each segment that a path may have there, the index has the set of
//! rules that accept it, either as a bit set or as a short list. A search intersects these sets. Its cost is the number of rules
//! divided by 64, times the number of segments in the longest pattern, whatever the rules and the path look like.
//!
//! The remaining rules are only *candidates*: the caller still needs to match their patterns against the path, in order.
//!
//! A tree of segments might seem more natural than bit sets. Searching a tree, however, means backtracking, and a crafted path
//! could cause thousands of steps back.

mod build;
mod row;
mod shape;

pub(crate) use build::{IndexedRule, build};

use cannery_base::swar::find_byte;

use self::row::{LiteralSlot, PrefixRow, SuffixRow};
use super::Fields;
use crate::Corrupt;

/// Maximum number of rules in an index. Scopes with more rules will have several indexes.
pub const INDEX_RULES_MAX: usize = 1 << 14;
/// Maximum number of segments in an indexed pattern. A rule with more segments will be a candidate for every path.
pub const PATTERN_SEGMENTS_MAX: usize = 24;
/// Maximum length of a literal in a segment or after a splat, in bytes. A rule with a longer one will be a candidate for every
/// path.
pub const AFFIX_BYTES_MAX: usize = 255;

/// Number of words in the largest possible bit set.
const WORDS_MAX: usize = INDEX_RULES_MAX / WORD_BITS;
const WORD_BITS: usize = 64;
const WORD_BYTES: usize = WORD_BITS / 8;
/// Number of sets by path length: one for each number of segments in a pattern, and one for all longer paths.
const LENGTHS: usize = PATTERN_SEGMENTS_MAX + 1;
/// Sets with up to this number of rules are stored as lists.
const SPARSE_MAX: usize = 32;
/// Stored in place of the number of rules when a set is stored as bits.
const DENSE: u16 = u16::MAX;
/// Start of the heap, to ensure that no set has the offset 0.
const EMPTY_HEAP: &[u8] = &[0, 0];

const YIELDING: u8 = 0;
const FORCING: u8 = 1;
const HEADER: u8 = 2;

/// The kind of rules in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexKind {
    /// Rules of `_redirects` that apply to paths without a record.
    Yielding,
    /// Rules of `_redirects` that take precedence over exact paths.
    Forcing,
    /// Rules of `_headers`.
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

/// Selects candidates by whether they are for pages only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageRules {
    /// All candidates.
    Included,
    /// Only candidates that may match a missing asset.
    Skipped,
    /// Only candidates that are for pages only.
    Alone,
}

/// An index of rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleIndex<'a> {
    pub(crate) kind: IndexKind,
    /// Number of segments in the longest pattern.
    depth: usize,
    /// Number of words in a bit set.
    words: usize,
    /// Positions where some rule has a literal before its capture or splat, using one bit each.
    prefix_positions: u32,
    /// Offset of each rule in its scope.
    offsets: &'a [[u8; 4]],
    /// Sets of rules by number of segments in the path.
    lengths: &'a [[u8; WORD_BYTES]],
    /// For each position, the rules that accept any non-empty segment.
    any: &'a [[u8; WORD_BYTES]],
    /// For each position, the rules that accept an empty segment.
    empty: &'a [[u8; WORD_BYTES]],
    /// Rules without a literal after their splat.
    unsuffixed: &'a [[u8; WORD_BYTES]],
    /// Rules for pages only.
    pages: &'a [[u8; WORD_BYTES]],
    /// Hash table of literal segments.
    literals: &'a [[u8; LiteralSlot::BYTES]],
    /// Literals before a capture or splat, sorted.
    prefixes: &'a [[u8; PrefixRow::BYTES]],
    /// Literals after a splat, sorted by reversed bytes.
    suffixes: &'a [[u8; SuffixRow::BYTES]],
    /// Bytes of literals and sets of rules.
    heap: &'a [u8],
    /// The error to return if the index is inconsistent.
    corrupt: Corrupt,
}

/// The candidates found by a search. Workers reuse it for many requests.
pub struct Candidates {
    bits: Box<[u64; WORDS_MAX]>,
    /// Candidates for the path without its final slash.
    stripped: Box<[u64; WORDS_MAX]>,
    words: usize,
}

impl Default for Candidates {
    fn default() -> Candidates {
        Candidates { bits: Box::new([0; WORDS_MAX]), stripped: Box::new([0; WORDS_MAX]), words: 0 }
    }
}

/// Whether any rules are left after a step of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retained {
    Some,
    None,
}

/// A set of rules in an index.
enum Set<'a> {
    /// A sorted list of at most [`SPARSE_MAX`] rule numbers.
    Sparse(&'a [[u8; 2]]),
    /// A bit for each rule.
    Dense(&'a [[u8; WORD_BYTES]]),
}

impl<'a> Set<'a> {
    const EMPTY: Set<'static> = Set::Sparse(&[]);
}

impl<'a> RuleIndex<'a> {
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
        // We need enough room for the rules in `Candidates`, and for the segments in `prefix_positions`.
        if rules > INDEX_RULES_MAX || depth > PATTERN_SEGMENTS_MAX {
            return Err(corrupt);
        }
        let words = rules.div_ceil(WORD_BITS);
        let literals = index.u32()?;
        let prefixes = index.u32()?;
        let suffixes = index.u32()?;
        let prefix_positions = index.u32()?;
        if literals != 0 && !literals.is_power_of_two() {
            return Err(corrupt);
        }

        Ok(RuleIndex {
            kind,
            depth,
            words,
            prefix_positions,
            offsets: rows(&mut index, rules)?,
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

    /// Returns where a rule is in its scope.
    pub(crate) fn rule_offset(&self, number: usize) -> Result<usize, Corrupt> {
        let offset = self.offsets.get(number).ok_or(self.corrupt)?;
        Ok(u32::from_le_bytes(*offset) as usize)
    }

    /// Returns the numbers of the rules that a search has found, in ascending order.
    pub(crate) fn found(
        &self,
        page_rules: PageRules,
        candidates: &Candidates,
    ) -> impl Iterator<Item = usize> {
        let words = candidates.bits[..candidates.words].iter().zip(self.pages).enumerate();
        words.flat_map(move |(index, (word, pages))| {
            let pages = u64::from_le_bytes(*pages);
            let mut remaining = match page_rules {
                PageRules::Included => *word,
                PageRules::Skipped => word & !pages,
                PageRules::Alone => word & pages,
            };
            std::iter::from_fn(move || {
                let bit = remaining.trailing_zeros() as usize;
                remaining &= remaining.wrapping_sub(1);
                (bit < WORD_BITS).then_some(WORD_BITS * index + bit)
            })
        })
    }

    /// Finds the rules that might match `path`, which is relative to its directory.
    ///
    /// Note that patterns also match paths with one more slash at the end.
    pub(crate) fn search(&self, path: &[u8], candidates: &mut Candidates) -> Result<(), Corrupt> {
        let path_segments = Segments::of(path);
        let Segments { count, ends_with_slash, .. } = path_segments;
        candidates.words = self.words;

        // Start with the rules that accept this number of segments.
        let exact = self.length_set(count);
        let shorter = if ends_with_slash { self.length_set(count - 1) } else { &[] };
        let bits = &mut candidates.bits[..self.words];
        for (index, word) in bits.iter_mut().enumerate() {
            let stripped = shorter.get(index).map_or(0, |word| u64::from_le_bytes(*word));
            *word = u64::from_le_bytes(exact[index]) | stripped;
        }

        // Intersect with the rules that accept each segment. Note that a slash at the end counts as one more, empty segment.
        // Patterns don't need to have it.
        let last = count - usize::from(ends_with_slash);
        let mut segments = path_segments.take(self.depth).enumerate();
        for (position, segment) in segments.by_ref().take(last) {
            if self.retain_for_segment(position, segment, bits)? == Retained::None {
                return Ok(());
            }
        }

        // From here on, we need separate candidates for the path without its final slash.
        if ends_with_slash {
            let stripped = &mut candidates.stripped[..self.words];
            let suffix = self.suffix_set(&path[..path.len() - 1])?;
            for (index, word) in stripped.iter_mut().enumerate() {
                *word = bits[index] & u64::from_le_bytes(shorter[index]);
            }
            retain_members(self.unsuffixed, &[suffix, Set::EMPTY], stripped);

            for (index, word) in bits.iter_mut().enumerate() {
                *word &= u64::from_le_bytes(exact[index]);
            }
            if let Some((position, segment)) = segments.next() {
                self.retain_for_segment(position, segment, bits)?;
            }
        }

        // Intersect with the rules that accept the end of the path.
        let suffix = self.suffix_set(path)?;
        retain_members(self.unsuffixed, &[suffix, Set::EMPTY], bits);
        if ends_with_slash {
            for (word, stripped) in bits.iter_mut().zip(candidates.stripped.iter()) {
                *word |= stripped;
            }
        }
        Ok(())
    }

    /// Finds the rules that match all paths.
    pub(crate) fn search_universal(&self, candidates: &mut Candidates) {
        candidates.words = self.words;
        let longest = self.length_set(usize::MAX);
        let bits = &mut candidates.bits[..self.words];
        for (index, word) in bits.iter_mut().enumerate() {
            let all = [longest.get(index), self.empty.get(index), self.unsuffixed.get(index)];
            *word = all
                .iter()
                .fold(u64::MAX, |bits, word| bits & word.map_or(0, |word| u64::from_le_bytes(*word)));
        }
    }

    /// Returns the rules that accept paths with this number of segments (at least 1).
    fn length_set(&self, segments: usize) -> &'a [[u8; WORD_BYTES]] {
        let index = segments.min(LENGTHS) - 1;
        &self.lengths[index * self.words..][..self.words]
    }

    /// Removes rules that do not accept `segment` at `position`.
    fn retain_for_segment(
        &self,
        position: usize,
        segment: &[u8],
        bits: &mut [u64],
    ) -> Result<Retained, Corrupt> {
        let base = if segment.is_empty() { self.empty } else { self.any };
        let base = &base[position * self.words..][..self.words];
        let sets = [self.literal_set(position, segment)?, self.prefix_set(position, segment)?];
        Ok(retain_members(base, &sets, bits))
    }

    /// Returns the rules that have exactly this segment at `position`.
    fn literal_set(&self, position: usize, segment: &[u8]) -> Result<Set<'a>, Corrupt> {
        if self.literals.is_empty() || segment.len() > AFFIX_BYTES_MAX {
            return Ok(Set::EMPTY);
        }

        // Linear probing, like in the container's hash tables.
        let position_byte = u8::try_from(position).expect("a pattern has at most 24 segments");
        let hash = literal_hash(position_byte, segment);
        let mask = self.literals.len() - 1;
        for probe in 0..self.literals.len() {
            let slot = LiteralSlot::decode(&self.literals[(hash as usize).wrapping_add(probe) & mask]);
            if slot.set == 0 {
                break;
            }
            let is_candidate = slot.hash == hash
                && slot.position == position_byte
                && usize::from(slot.length) == segment.len();
            if is_candidate && self.text(slot.text, slot.length)? == segment {
                return self.set(slot.set);
            }
        }
        Ok(Set::EMPTY)
    }

    /// Returns the rules that have a prefix of `segment` at `position`, followed by a capture or splat.
    fn prefix_set(&self, position: usize, segment: &[u8]) -> Result<Set<'a>, Corrupt> {
        if self.prefix_positions & 1 << position == 0 {
            return Ok(Set::EMPTY);
        }

        // Use binary search to find the last row that is not greater than the segment.
        let mut low = 0;
        let mut high = self.prefixes.len();
        while low < high {
            let middle = low + (high - low) / 2;
            let row = PrefixRow::decode(&self.prefixes[middle]);
            let key = (usize::from(row.position), self.text(row.text, row.length)?);
            if key <= (position, segment) { low = middle + 1 } else { high = middle }
        }
        let Some(last) = low.checked_sub(1) else { return Ok(Set::EMPTY) };
        let mut row = PrefixRow::decode(&self.prefixes[last]);
        if usize::from(row.position) != position {
            return Ok(Set::EMPTY);
        }

        // The longest matching prefix is either this row, or one of its own prefixes.
        let common = common_bytes(self.text(row.text, row.length)?, segment);
        while usize::from(row.length) > common {
            let Some(parent) = self.prefixes.get(row.parent as usize) else { return Ok(Set::EMPTY) };
            let parent = PrefixRow::decode(parent);
            if parent.length >= row.length {
                return Err(self.corrupt);
            }
            row = parent;
        }
        self.set(if usize::from(row.length) == segment.len() { row.equal } else { row.longer })
    }

    /// Returns the rules whose splat is followed by a suffix of `path`.
    fn suffix_set(&self, path: &[u8]) -> Result<Set<'a>, Corrupt> {
        if self.suffixes.is_empty() {
            return Ok(Set::EMPTY);
        }

        // Use binary search to find the last row that is not greater than the reversed path.
        let tail = &path[path.len().saturating_sub(AFFIX_BYTES_MAX)..];
        let mut low = 0;
        let mut high = self.suffixes.len();
        while low < high {
            let middle = low + (high - low) / 2;
            let row = SuffixRow::decode(&self.suffixes[middle]);
            let is_greater = self.text(row.text, row.length)?.iter().cmp(tail.iter().rev()).is_gt();
            if is_greater { high = middle } else { low = middle + 1 }
        }
        let Some(last) = low.checked_sub(1) else { return Ok(Set::EMPTY) };
        let mut row = SuffixRow::decode(&self.suffixes[last]);

        // The longest matching suffix is either this row, or one that this row ends with.
        let common = common_bytes(self.text(row.text, row.length)?, tail.iter().rev());
        while usize::from(row.length) > common {
            let Some(parent) = self.suffixes.get(row.parent as usize) else { return Ok(Set::EMPTY) };
            let parent = SuffixRow::decode(parent);
            if parent.length >= row.length {
                return Err(self.corrupt);
            }
            row = parent;
        }
        self.set(row.set)
    }

    fn text(&self, offset: u32, length: u8) -> Result<&'a [u8], Corrupt> {
        let rest = self.heap.get(offset as usize..).ok_or(self.corrupt)?;
        rest.get(..usize::from(length)).ok_or(self.corrupt)
    }

    fn set(&self, offset: u32) -> Result<Set<'a>, Corrupt> {
        let (count, rest) =
            self.heap.get(offset as usize..).and_then(<[u8]>::split_first_chunk).ok_or(self.corrupt)?;
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

/// Removes rules that are not in any of these sets.
fn retain_members(base: &[[u8; WORD_BYTES]], sets: &[Set<'_>; 2], bits: &mut [u64]) -> Retained {
    // The intersection only knows bit sets and would lose the rules from lists. Remember them now and restore them afterwards.
    let mut kept = [0u32; 2];
    for (kept, set) in kept.iter_mut().zip(sets) {
        if let Set::Sparse(numbers) = set {
            for (index, number) in numbers.iter().enumerate() {
                let number = usize::from(u16::from_le_bytes(*number));
                let word = bits.get(number / WORD_BITS).copied().unwrap_or(0);
                *kept |= ((word >> (number % WORD_BITS) & 1) as u32) << (index % SPARSE_MAX);
            }
        }
    }

    let mut remaining = intersect(bits, base, sets);

    for (mut kept, set) in kept.into_iter().zip(sets) {
        let Set::Sparse(numbers) = set else { continue };
        while kept != 0 {
            let number =
                numbers.get(kept.trailing_zeros() as usize).map_or(0, |number| u16::from_le_bytes(*number));
            let number = usize::from(number);
            if let Some(word) = bits.get_mut(number / WORD_BITS) {
                *word |= 1 << (number % WORD_BITS);
            }
            kept &= kept - 1;
            remaining = 1;
        }
    }
    if remaining == 0 { Retained::None } else { Retained::Some }
}

/// Removes bits that are not in any of these sets. Returns the union of the remaining words, or 0 when none are left.
#[inline]
fn intersect(bits: &mut [u64], base: &[[u8; WORD_BYTES]], sets: &[Set<'_>; 2]) -> u64 {
    let word = |bytes: &[u8; WORD_BYTES]| u64::from_le_bytes(*bytes);
    let mut remaining = 0;
    match sets {
        [Set::Dense(one), Set::Dense(other)] => {
            for (((bits, base), one), other) in bits.iter_mut().zip(base).zip(*one).zip(*other) {
                *bits &= word(base) | word(one) | word(other);

                remaining |= *bits;
            }
        }
        [Set::Dense(set), _] | [_, Set::Dense(set)] => {
            for ((bits, base), set) in bits.iter_mut().zip(base).zip(*set) {
                *bits &= word(base) | word(set);
                remaining |= *bits;
            }
        }
        _ => {
            for (bits, base) in bits.iter_mut().zip(base) {
                *bits &= word(base);
                remaining |= *bits;
            }
        }
    }
    remaining
}

/// Reads `count` rows of `N` bytes.
fn rows<'a, const N: usize>(fields: &mut Fields<'a>, count: usize) -> Result<&'a [[u8; N]], Corrupt> {
    let bytes = count.checked_mul(N).ok_or_else(|| fields.corrupt())?;
    Ok(fields.take(bytes)?.as_chunks().0)
}

/// Returns the number of equal bytes at the start.
fn common_bytes<'b>(one: &[u8], other: impl IntoIterator<Item = &'b u8>) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Hashes a literal at a position. `FORMAT.md` defines how.
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

/// A path's segments, separated by slashes.
struct Segments<'p> {
    rest: Option<&'p [u8]>,
    /// Number of segments. We can stop counting once there are more than in any pattern.
    count: usize,
    ends_with_slash: bool,
}

impl<'p> Segments<'p> {
    fn of(path: &'p [u8]) -> Segments<'p> {
        let mut count = 1;
        let mut rest = path;
        while let Some(slash) = find_byte(rest, b'/')
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
        match find_byte(rest, b'/') {
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
