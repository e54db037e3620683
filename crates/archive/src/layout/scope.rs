//! What holds below a folder: its fallback pages, its error pages, and, below the root of a site, the site's rules.
//!
//! A request that finds no path of its own collects the pages of the scopes from the root down, and searches the rules by
//! their index. Never decides which page wins.

use super::format::Format;
use super::header_rule::{HeaderRule, NewHeaderRule};
use super::piece::{self, Piece, Pieces};
use super::record::{NewRecord, Places, Record};
use super::rule_index::{self, Candidates, IndexKind, Indexed, RuleIndex};
use super::{Fields, length_u8, length_u16};
use crate::{Corrupt, WriteError};

const OWN_SITE: u8 = 1 << 0;

const FALLBACK: u8 = 1;
const ERROR_PAGE: u8 = 2;
const RULE: u8 = 3;
const HEADER_RULE: u8 = 4;

const FORCE: u8 = 1 << 0;
const PAGES_ONLY: u8 = 1 << 1;

/// What holds below a folder.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// On the root of a host: the host has a site of its own, and nothing of the default site is looked
    /// at for it.
    pub own_site: bool,
    pages: Fields<'a>,
    indexes: Fields<'a>,
    rules: Fields<'a>,
}

/// One thing that holds below a folder.
#[derive(Debug, Clone, Copy)]
pub enum ScopeEntry<'a> {
    /// Answers what finds nothing better (`_wildcard.X`, `_200.X`).
    Fallback {
        /// The suffix of its file, without the dot: it answers a missing asset only of the same suffix.
        suffix: &'a [u8],
        /// The answer.
        record: Record<'a>,
    },
    /// The body of an error answer.
    ErrorPage {
        /// For which status.
        status: u16,
        /// The answer.
        record: Record<'a>,
    },
    /// A rule with a pattern.
    Rule(Rule<'a>),
    /// A rule about the fields of answers.
    HeaderRule(HeaderRule<'a>),
}

/// A rule with a pattern: the first one in the order of the rules counts.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// Its place in the order of all rules.
    pub ordinal: u32,
    /// Whether it counts before an exact path does.
    pub force: bool,
    /// Whether it does not answer for missing assets.
    pub pages_only: bool,
    /// The pattern of what follows the scope's folder.
    pub pattern: Pieces<'a>,
    /// The answer, which may refer to the captures.
    pub record: Record<'a>,
}

impl<'a> Scope<'a> {
    pub(crate) fn decode(data: &'a [u8], format: Format, offset: u64) -> Result<Scope<'a>, Corrupt> {
        let mut fields = Fields::new(data, format, offset, "a scope record");
        let flags = fields.u8()?;
        if flags & !OWN_SITE != 0 {
            return Err(fields.corrupt());
        }
        let [pages_bytes, indexes_bytes] = [fields.u32()?, fields.u32()?];
        let pages = fields.part(pages_bytes as usize)?;
        let indexes = fields.part(indexes_bytes as usize)?;
        Ok(Scope { own_site: flags & OWN_SITE != 0, pages, indexes, rules: fields })
    }

    /// The pages that hold below the folder, in the order in which they were written.
    #[must_use]
    pub fn pages(&self) -> Entries<'a> {
        Entries(self.pages)
    }

    /// The rules, in the order in which they were written.
    #[must_use]
    pub fn rules(&self) -> Entries<'a> {
        Entries(self.rules)
    }

    /// All that holds below the folder, in the order in which it was written.
    pub fn entries(&self) -> impl Iterator<Item = Result<ScopeEntry<'a>, Corrupt>> + use<'a> {
        self.pages().chain(self.rules())
    }

    /// Returns the first of these rules that may match a path and that `accepts` takes, in their order. `path` is what
    /// follows the scope's folder. Of a missing asset, rules that are for pages are left out.
    pub fn first_rule<T>(
        &self,
        kind: IndexKind,
        path: &[u8],
        is_asset: bool,
        candidates: &mut Candidates,
        mut accepts: impl FnMut(Rule<'a>) -> Result<Option<T>, Corrupt>,
    ) -> Result<Option<T>, Corrupt> {
        for index in self.indexes(kind) {
            let index = index?;
            index.search(path, is_asset, candidates)?;
            for number in candidates.numbers() {
                if let ScopeEntry::Rule(rule) = self.rule_at(index.place(number)?)?
                    && let Some(accepted) = accepts(rule)?
                {
                    return Ok(Some(accepted));
                }
            }
        }
        Ok(None)
    }

    /// Hands on each rule about fields that may match a path, in their order. Without a path, those that may match all.
    pub fn header_rules(
        &self,
        path: Option<&[u8]>,
        candidates: &mut Candidates,
        mut each: impl FnMut(HeaderRule<'a>) -> Result<(), Corrupt>,
    ) -> Result<(), Corrupt> {
        for index in self.indexes(IndexKind::Header) {
            let index = index?;
            match path {
                Some(path) => index.search(path, false, candidates)?,
                None => index.search_universal(candidates),
            }
            for number in candidates.numbers() {
                if let ScopeEntry::HeaderRule(rule) = self.rule_at(index.place(number)?)? {
                    each(rule)?;
                }
            }
        }
        Ok(())
    }

    /// Whether some of the rules that yield to files are not for missing assets.
    pub fn has_rules_for_pages(&self) -> Result<bool, Corrupt> {
        for index in self.indexes(IndexKind::Yielding) {
            if index?.has_rules_for_pages() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The indexes of one kind, in the order of their rules.
    fn indexes(&self, kind: IndexKind) -> impl Iterator<Item = Result<RuleIndex<'a>, Corrupt>> + use<'a> {
        let mut fields = self.indexes;
        let mut next = move || {
            if fields.is_empty() {
                return None;
            }
            let index = RuleIndex::decode(&mut fields);
            if index.is_err() {
                fields.skip_rest();
            }
            Some(index)
        };
        let is_wanted = move |index: &Result<RuleIndex<'a>, Corrupt>| {
            index.as_ref().map_or(true, |index| index.kind == kind)
        };
        std::iter::from_fn(move || {
            loop {
                let index = next()?;
                if is_wanted(&index) {
                    return Some(index);
                }
            }
        })
    }

    fn rule_at(&self, place: usize) -> Result<ScopeEntry<'a>, Corrupt> {
        let mut fields = self.rules;
        fields.take(place)?;
        decode_entry(&mut fields)
    }

    /// Returns `true` if the indexes are those that the rules have.
    pub(crate) fn is_index_sound(&self) -> Result<bool, Corrupt> {
        let mut rules = Vec::new();
        let mut rest = self.rules;
        while !rest.is_empty() {
            let place = self.rules.length() - rest.length();
            let (kind, is_for_pages, pattern) = match decode_entry(&mut rest)? {
                ScopeEntry::Rule(rule) => (
                    if rule.force { IndexKind::Forcing } else { IndexKind::Yielding },
                    rule.pages_only,
                    rule.pattern,
                ),
                ScopeEntry::HeaderRule(rule) => (IndexKind::Header, false, rule.pattern),
                ScopeEntry::Fallback { .. } | ScopeEntry::ErrorPage { .. } => return Ok(false),
            };
            let pattern = pattern.collect::<Result<Vec<_>, _>>()?;
            rules.push((kind, u32::try_from(place).unwrap_or(u32::MAX), is_for_pages, pattern));
        }
        Ok(encode_indexes(&rules) == self.indexes.rest())
    }
}

/// A rule as far as an index must know it: its kind and place, whether it is for pages only, and its pattern.
type Placed<'p> = (IndexKind, u32, bool, Vec<Piece<'p>>);

fn encode_indexes(rules: &[Placed<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for kind in [IndexKind::Forcing, IndexKind::Yielding, IndexKind::Header] {
        let of_kind = rules.iter().filter(|(of, ..)| *of == kind);
        let of_kind: Vec<Indexed<'_>> = of_kind
            .map(|(_, place, is_for_pages, pattern)| Indexed {
                pattern,
                place: *place,
                is_for_pages: *is_for_pages,
            })
            .collect();
        rule_index::build(&mut out, kind.number(), &of_kind);
    }
    out
}

/// The entries of a scope, decoded one at a time.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'a>(Fields<'a>);

impl<'a> Iterator for Entries<'a> {
    type Item = Result<ScopeEntry<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = decode_entry(&mut self.0);
        if entry.is_err() {
            self.0.skip_rest();
        }
        Some(entry)
    }
}

fn decode_entry<'a>(fields: &mut Fields<'a>) -> Result<ScopeEntry<'a>, Corrupt> {
    let kind = fields.u8()?;
    let length = fields.u32()?;
    let mut entry = fields.part(length as usize)?;
    match kind {
        FALLBACK => {
            let suffix_bytes = entry.u8()?;
            let suffix = entry.take(suffix_bytes.into())?;
            Ok(ScopeEntry::Fallback { suffix, record: Record::decode_fields(entry)? })
        }
        ERROR_PAGE => {
            Ok(ScopeEntry::ErrorPage { status: entry.u16()?, record: Record::decode_fields(entry)? })
        }
        RULE => {
            let ordinal = entry.u32()?;
            let flags = entry.u8()?;
            let (force, pages_only) = (flags & FORCE != 0, flags & PAGES_ONLY != 0);
            let pattern_bytes = entry.u16()?;
            let pattern = Pieces::new(entry.part(pattern_bytes.into())?);
            Ok(ScopeEntry::Rule(Rule {
                ordinal,
                force,
                pages_only,
                pattern,
                record: Record::decode_fields(entry)?,
            }))
        }
        HEADER_RULE => Ok(ScopeEntry::HeaderRule(HeaderRule::decode(entry)?)),
        _ => Err(fields.corrupt()),
    }
}

/// What shall hold below a folder: the writing half of [`Scope`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewScope<'p> {
    /// See [`Scope::own_site`].
    pub own_site: bool,
    /// Suffix and answer: see [`ScopeEntry::Fallback`].
    pub fallbacks: Vec<(&'p [u8], NewRecord<'p>)>,
    /// Status and answer: see [`ScopeEntry::ErrorPage`].
    pub error_pages: Vec<(u16, NewRecord<'p>)>,
    /// See [`Rule`]. A server searches those of a site's root only.
    pub rules: Vec<NewRule<'p>>,
    /// See [`HeaderRule`].
    pub header_rules: Vec<NewHeaderRule<'p>>,
}

/// A rule to be written: see [`Rule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRule<'p> {
    /// See [`Rule::ordinal`].
    pub ordinal: u32,
    /// See [`Rule::force`].
    pub force: bool,
    /// See [`Rule::pages_only`].
    pub pages_only: bool,
    /// See [`Rule::pattern`].
    pub pattern: Vec<Piece<'p>>,
    /// See [`Rule::record`].
    pub record: NewRecord<'p>,
}

impl NewScope<'_> {
    pub(crate) fn encode(&self, format: Format, places: &impl Places) -> Result<Vec<u8>, WriteError> {
        let mut pages = Vec::new();
        for (suffix, record) in &self.fallbacks {
            let mut entry = vec![length_u8("the suffix of a fallback page", suffix.len())?];
            entry.extend_from_slice(suffix);
            record.encode(&mut entry, format, places)?;
            put_entry(&mut pages, FALLBACK, &entry)?;
        }
        for (status, record) in &self.error_pages {
            let mut entry = status.to_le_bytes().to_vec();
            record.encode(&mut entry, format, places)?;
            put_entry(&mut pages, ERROR_PAGE, &entry)?;
        }
        let mut rules = Vec::new();
        let mut placed: Vec<Placed<'_>> = Vec::new();
        for rule in &self.rules {
            let kind = if rule.force { IndexKind::Forcing } else { IndexKind::Yielding };
            placed.push((kind, length_u32(rules.len())?, rule.pages_only, rule.pattern.clone()));
            let mut entry = rule.ordinal.to_le_bytes().to_vec();
            entry.push(if rule.force { FORCE } else { 0 } | if rule.pages_only { PAGES_ONLY } else { 0 });
            let mut pattern = Vec::new();
            piece::encode(&mut pattern, rule.pattern.iter().copied())?;
            entry.extend_from_slice(&length_u16("the pattern of a rule", pattern.len())?.to_le_bytes());
            entry.extend_from_slice(&pattern);
            rule.record.encode(&mut entry, format, places)?;
            put_entry(&mut rules, RULE, &entry)?;
        }
        for rule in &self.header_rules {
            placed.push((IndexKind::Header, length_u32(rules.len())?, false, rule.pattern.clone()));
            put_entry(&mut rules, HEADER_RULE, &rule.encode()?)?;
        }
        let indexes = encode_indexes(&placed);
        let mut out = vec![if self.own_site { OWN_SITE } else { 0 }];
        out.extend_from_slice(&length_u32(pages.len())?.to_le_bytes());
        out.extend_from_slice(&length_u32(indexes.len())?.to_le_bytes());
        Ok([out, pages, indexes, rules].concat())
    }
}

fn length_u32(length: usize) -> Result<u32, WriteError> {
    let max = u32::MAX as usize;
    u32::try_from(length).map_err(|_| WriteError::TooLong { what: "the rules of a site", max, got: length })
}

fn put_entry(out: &mut Vec<u8>, kind: u8, entry: &[u8]) -> Result<(), WriteError> {
    let max = u32::MAX as usize;
    let length = u32::try_from(entry.len());
    let length = length.map_err(|_| WriteError::TooLong { what: "a rule", max, got: entry.len() })?;
    out.push(kind);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(entry);
    Ok(())
}
