//! What holds below a folder: its fallback pages, its error pages, and the rules that begin there.
//!
//! A request that finds no path of its own collects the scopes from the root down. Never decides which
//! of them wins.

use super::format::Format;
use super::piece::{self, Piece, Pieces};
use super::record::{NewRecord, Places, Record};
use super::{Fields, length_u8, length_u16};
use crate::{Corrupt, WriteError};

const OWN_SITE: u8 = 1 << 0;

const FALLBACK: u8 = 1;
const ERROR_PAGE: u8 = 2;
const RULE: u8 = 3;

const FORCE: u8 = 1 << 0;

/// What holds below a folder.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// On the root of a host: the host has a site of its own, and nothing of the default site is looked
    /// at for it.
    pub own_site: bool,
    fields: Fields<'a>,
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
}

/// A rule with a pattern: the first one in the order of the rules counts, wherever its scope lies.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// Its place in the order of all rules.
    pub ordinal: u32,
    /// Whether it counts before an exact path does.
    pub force: bool,
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
        Ok(Scope { own_site: flags & OWN_SITE != 0, fields })
    }

    /// What holds below the folder, in the order in which it was written.
    #[must_use]
    pub fn entries(&self) -> Entries<'a> {
        Entries(self.fields)
    }
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
            let force = entry.u8()? & FORCE != 0;
            let pattern_bytes = entry.u16()?;
            let pattern = Pieces::new(entry.part(pattern_bytes.into())?);
            Ok(ScopeEntry::Rule(Rule { ordinal, force, pattern, record: Record::decode_fields(entry)? }))
        }
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
    /// See [`Rule`].
    pub rules: Vec<NewRule<'p>>,
}

/// A rule to be written: see [`Rule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRule<'p> {
    /// See [`Rule::ordinal`].
    pub ordinal: u32,
    /// See [`Rule::force`].
    pub force: bool,
    /// See [`Rule::pattern`].
    pub pattern: Vec<Piece<'p>>,
    /// See [`Rule::record`].
    pub record: NewRecord<'p>,
}

impl NewScope<'_> {
    pub(crate) fn encode(&self, format: Format, places: &impl Places) -> Result<Vec<u8>, WriteError> {
        let mut out = vec![if self.own_site { OWN_SITE } else { 0 }];
        for (suffix, record) in &self.fallbacks {
            let mut entry = vec![length_u8("the suffix of a fallback page", suffix.len())?];
            entry.extend_from_slice(suffix);
            record.encode(&mut entry, format, places)?;
            put_entry(&mut out, FALLBACK, &entry)?;
        }
        for (status, record) in &self.error_pages {
            let mut entry = status.to_le_bytes().to_vec();
            record.encode(&mut entry, format, places)?;
            put_entry(&mut out, ERROR_PAGE, &entry)?;
        }
        for rule in &self.rules {
            let mut entry = rule.ordinal.to_le_bytes().to_vec();
            entry.push(if rule.force { FORCE } else { 0 });
            let mut pattern = Vec::new();
            piece::encode(&mut pattern, rule.pattern.iter().copied())?;
            entry.extend_from_slice(&length_u16("the pattern of a rule", pattern.len())?.to_le_bytes());
            entry.extend_from_slice(&pattern);
            rule.record.encode(&mut entry, format, places)?;
            put_entry(&mut out, RULE, &entry)?;
        }
        Ok(out)
    }
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
