//! Scopes: a directory's fallback pages and error pages, plus (in the root scope of a site) its rules.
//!
//! If a path does not have a record, the server will collect pages from all scopes, starting at the root, and use an index to find
//! matching rules.

use super::format::Format;
use super::header_rule::{HeaderRule, NewHeaderRule};
use super::piece::{self, Piece, Pieces};
use super::record::{NewRecord, Positions, Record};
use super::rule_index::{self, Candidates, IndexKind, IndexedRule, PageRules, RuleIndex};
use super::{Fields, length_u8, length_u16};
use crate::{Corrupt, WriteError};

const OWN_SITE: u8 = 1 << 0;

const FALLBACK: u8 = 1;
const ERROR_PAGE: u8 = 2;
const RULE: u8 = 3;
const HEADER_RULE: u8 = 4;

const FORCE: u8 = 1 << 0;
const PAGES_ONLY: u8 = 1 << 1;

/// A directory's scope. It applies to all paths below the directory.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Whether this is the root scope of a host with a complete site. If so, we should not search the default site for this host.
    pub own_site: bool,
    pages: Fields<'a>,
    indexes: Fields<'a>,
    rules: Fields<'a>,
}

/// An entry in a scope.
#[derive(Debug, Clone, Copy)]
pub enum ScopeEntry<'a> {
    /// A fallback page for paths without a record (`_wildcard.X`, `_200.X`).
    Fallback {
        /// The suffix of the page, without the dot. It must match that of a missing path if the path looks like an asset.
        suffix: &'a [u8],
        /// The page's record.
        record: Record<'a>,
    },
    /// The page for an error response.
    ErrorPage {
        /// The status code.
        status: u16,
        /// The page's record.
        record: Record<'a>,
    },
    /// A `_redirects` rule with a pattern.
    Rule(Rule<'a>),
    /// A `_headers` rule.
    HeaderRule(HeaderRule<'a>),
}

/// The `_redirects` rules to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleFilter {
    /// Rules that take precedence over an exact path.
    Forcing,
    /// Rules for paths without a record.
    Yielding,
}

impl RuleFilter {
    fn index_kind(self) -> IndexKind {
        match self {
            RuleFilter::Forcing => IndexKind::Forcing,
            RuleFilter::Yielding => IndexKind::Yielding,
        }
    }
}

/// Outcome of searching `_redirects` for the path of a missing asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssetRule<T> {
    /// A rule matches.
    Found(T),
    /// Only a rule matches that is for pages.
    ForPages,
    /// No rule matches.
    None,
}

/// A `_redirects` rule with a pattern. Only the first matching rule is applied.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// Index of the rule among the site's rules.
    pub ordinal: u32,
    /// Whether the rule takes precedence over an exact path.
    pub force: bool,
    /// Whether missing assets are exempt from this rule.
    pub pages_only: bool,
    /// The pattern, to be matched against the rest of the path after the scope's directory.
    pub pattern: Pieces<'a>,
    /// The record. Its template may refer to captures.
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

    /// Returns the pages in the order they were written.
    #[must_use]
    pub fn pages(&self) -> Entries<'a> {
        Entries(self.pages)
    }

    /// Returns the rules in the order they were written.
    #[must_use]
    pub fn rules(&self) -> Entries<'a> {
        Entries(self.rules)
    }

    /// Returns all entries in the order they were written.
    pub fn entries(&self) -> impl Iterator<Item = Result<ScopeEntry<'a>, Corrupt>> + use<'a> {
        self.pages().chain(self.rules())
    }

    /// Calls `accepts` for rules that might match `path` until a call returns `Some`, and then returns this result.
    ///
    /// `path` is relative to the scope's directory.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if an index or a rule is malformed, or if `accepts` does.
    pub fn first_rule<T>(
        &self,
        filter: RuleFilter,
        path: &[u8],
        candidates: &mut Candidates,
        mut accepts: impl FnMut(Rule<'a>) -> Result<Option<T>, Corrupt>,
    ) -> Result<Option<T>, Corrupt> {
        for index in self.indexes(filter.index_kind()) {
            let index = index?;
            index.search(path, candidates)?;
            let accepted = self.first_accepted(&index, PageRules::Included, candidates, &mut accepts)?;
            if accepted.is_some() {
                return Ok(accepted);
            }
        }
        Ok(None)
    }

    /// Like [`Scope::first_rule`] for the path of a missing asset, which rules for pages do not apply to.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if an index or a rule is malformed, or if `accepts` does.
    pub fn first_rule_for_asset<T>(
        &self,
        path: &[u8],
        candidates: &mut Candidates,
        mut accepts: impl FnMut(Rule<'a>) -> Result<Option<T>, Corrupt>,
    ) -> Result<AssetRule<T>, Corrupt> {
        let mut is_for_pages = false;
        for index in self.indexes(IndexKind::Yielding) {
            let index = index?;
            index.search(path, candidates)?;
            if let Some(accepted) =
                self.first_accepted(&index, PageRules::Skipped, candidates, &mut accepts)?
            {
                return Ok(AssetRule::Found(accepted));
            }
            is_for_pages = is_for_pages
                || self.first_accepted(&index, PageRules::Alone, candidates, &mut accepts)?.is_some();
        }
        Ok(if is_for_pages { AssetRule::ForPages } else { AssetRule::None })
    }

    /// Returns the first candidate of a search that matches. It is up to `accepts` to check this.
    fn first_accepted<T>(
        &self,
        index: &RuleIndex<'a>,
        page_rules: PageRules,
        candidates: &Candidates,
        accepts: &mut impl FnMut(Rule<'a>) -> Result<Option<T>, Corrupt>,
    ) -> Result<Option<T>, Corrupt> {
        for number in index.found(page_rules, candidates) {
            if let ScopeEntry::Rule(rule) = self.rule_at(index.rule_offset(number)?)?
                && let Some(accepted) = accepts(rule)?
            {
                return Ok(Some(accepted));
            }
        }
        Ok(None)
    }

    /// Calls `each` for all header rules that might match `path`, in order.
    ///
    /// Without a path, only rules that match all paths will be passed.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if an index or a rule is malformed, or if `each` does.
    pub fn header_rules(
        &self,
        path: Option<&[u8]>,
        candidates: &mut Candidates,
        mut each: impl FnMut(HeaderRule<'a>) -> Result<(), Corrupt>,
    ) -> Result<(), Corrupt> {
        for index in self.indexes(IndexKind::Header) {
            let index = index?;
            match path {
                Some(path) => index.search(path, candidates)?,
                None => index.search_universal(candidates),
            }

            for number in index.found(PageRules::Included, candidates) {
                if let ScopeEntry::HeaderRule(rule) = self.rule_at(index.rule_offset(number)?)? {
                    each(rule)?;
                }
            }
        }
        Ok(())
    }

    /// Returns all indexes of this kind, in the order of their rules.
    fn indexes(&self, kind: IndexKind) -> impl Iterator<Item = Result<RuleIndex<'a>, Corrupt>> + use<'a> {
        let mut fields = self.indexes;
        let all = std::iter::from_fn(move || {
            if fields.is_empty() {
                return None;
            }
            let index = RuleIndex::decode(&mut fields);
            if index.is_err() {
                fields.skip_rest();
            }
            Some(index)
        });
        all.filter(move |index| index.as_ref().map_or(true, |index| index.kind == kind))
    }

    fn rule_at(&self, offset: usize) -> Result<ScopeEntry<'a>, Corrupt> {
        let mut fields = self.rules;
        fields.take(offset)?;
        decode_entry(&mut fields)
    }

    /// Returns `true` if the indexes are the ones we would build for these rules.
    pub(crate) fn has_valid_indexes(&self) -> Result<bool, Corrupt> {
        let mut rules = Vec::new();
        let mut rest = self.rules;
        while !rest.is_empty() {
            let offset = self.rules.length() - rest.length();
            let offset = u32::try_from(offset).map_err(|_| self.rules.corrupt())?;
            let (kind, pages_only, pattern) = match decode_entry(&mut rest)? {
                ScopeEntry::Rule(rule) => (rule_kind(rule.force), rule.pages_only, rule.pattern),
                ScopeEntry::HeaderRule(rule) => (IndexKind::Header, false, rule.pattern),
                ScopeEntry::Fallback { .. } | ScopeEntry::ErrorPage { .. } => return Ok(false),
            };
            let pattern = pattern.collect::<Result<Vec<_>, _>>()?;
            rules.push(RuleToIndex { kind, rule: IndexedRule { pattern, offset, pages_only } });
        }
        Ok(encode_indexes(&rules) == self.indexes.rest())
    }
}

/// A rule, and which index it should go to.
struct RuleToIndex<'p> {
    kind: IndexKind,
    rule: IndexedRule<'p>,
}

fn rule_kind(force: bool) -> IndexKind {
    if force { IndexKind::Forcing } else { IndexKind::Yielding }
}

fn encode_indexes(rules: &[RuleToIndex<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for kind in [IndexKind::Forcing, IndexKind::Yielding, IndexKind::Header] {
        let rules: Vec<_> = rules.iter().filter(|rule| rule.kind == kind).map(|rule| &rule.rule).collect();
        rule_index::build(&mut out, kind.number(), &rules);
    }
    out
}

/// A scope's entries, decoded one at a time. Stops after an error.
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
            let pattern_bytes = entry.u16()?;
            let pattern = Pieces::new(entry.part(pattern_bytes.into())?);
            Ok(ScopeEntry::Rule(Rule {
                ordinal,
                force: flags & FORCE != 0,
                pages_only: flags & PAGES_ONLY != 0,
                pattern,
                record: Record::decode_fields(entry)?,
            }))
        }
        HEADER_RULE => Ok(ScopeEntry::HeaderRule(HeaderRule::decode(entry)?)),
        _ => Err(fields.corrupt()),
    }
}

/// A scope to write: see [`Scope`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewScope<'p> {
    /// See [`Scope::own_site`].
    pub own_site: bool,
    /// Suffix and record: see [`ScopeEntry::Fallback`].
    pub fallbacks: Vec<(&'p [u8], NewRecord<'p>)>,
    /// Status code and record: see [`ScopeEntry::ErrorPage`].
    pub error_pages: Vec<(u16, NewRecord<'p>)>,
    /// See [`Rule`]. Only a site's root scope may have rules.
    pub rules: Vec<NewRule<'p>>,
    /// See [`HeaderRule`].
    pub header_rules: Vec<NewHeaderRule<'p>>,
}

/// A rule to write: see [`Rule`].
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
    pub(crate) fn encode(&self, format: Format, positions: &impl Positions) -> Result<Vec<u8>, WriteError> {
        // Pages.
        let mut pages = Vec::new();
        for (suffix, record) in &self.fallbacks {
            let mut entry = vec![length_u8("the suffix of a fallback page", suffix.len())?];
            entry.extend_from_slice(suffix);
            record.encode(&mut entry, format, positions)?;
            put_entry(&mut pages, FALLBACK, &entry)?;
        }
        for (status, record) in &self.error_pages {
            let mut entry = status.to_le_bytes().to_vec();
            record.encode(&mut entry, format, positions)?;
            put_entry(&mut pages, ERROR_PAGE, &entry)?;
        }

        // Rules. The index needs to know where each rule starts.
        let mut rules = Vec::new();
        let mut to_index = Vec::new();
        for rule in &self.rules {
            let indexed = IndexedRule {
                pattern: rule.pattern.clone(),
                offset: length_u32(rules.len())?,
                pages_only: rule.pages_only,
            };
            to_index.push(RuleToIndex { kind: rule_kind(rule.force), rule: indexed });

            let mut entry = rule.ordinal.to_le_bytes().to_vec();
            entry.push(if rule.force { FORCE } else { 0 } | if rule.pages_only { PAGES_ONLY } else { 0 });
            let mut pattern = Vec::new();
            piece::encode(&mut pattern, rule.pattern.iter().copied())?;
            entry.extend_from_slice(&length_u16("the pattern of a rule", pattern.len())?.to_le_bytes());
            entry.extend_from_slice(&pattern);
            rule.record.encode(&mut entry, format, positions)?;
            put_entry(&mut rules, RULE, &entry)?;
        }
        for rule in &self.header_rules {
            let offset = length_u32(rules.len())?;
            let indexed = IndexedRule { pattern: rule.pattern.clone(), offset, pages_only: false };
            to_index.push(RuleToIndex { kind: IndexKind::Header, rule: indexed });
            put_entry(&mut rules, HEADER_RULE, &rule.encode()?)?;
        }

        // Now that all rules have their offsets, we can build the indexes.
        let indexes = encode_indexes(&to_index);
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
