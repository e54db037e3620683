//! The full check: reads and hashes everything, and sees that every record is found.
//!
//! What opening does not do, so that opening stays constant. Never on the request path.

use std::collections::{HashMap, HashSet};

use crate::checksum::Digest;
use crate::error::{Corrupt, VerifyError};
use crate::index::{self, Slot};
use crate::layout::RecordKind;
use crate::layout::entry::Entry;
use crate::layout::facts::{DIGEST_AT, FACTS_BYTES};
use crate::layout::hash::Hash;
use crate::layout::head::Head;
use crate::layout::hpack::{HpackLine, NO_LINE_ID};
use crate::layout::padding;
use crate::layout::record::Record;
use crate::layout::scope::ScopeEntry;
use crate::reader::Archive;

/// What a full check has seen: for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Records of any kind.
    pub records: u64,
    /// Bodies whose digest was computed and agreed.
    pub bodies: u64,
    /// Bytes of those bodies.
    pub body_bytes: u64,
    /// Paths, aliases and redirects included.
    pub paths: u64,
}

impl Archive {
    /// Reads everything once: the digest of the file, the digest of each body, that each record is well
    /// formed, points only to what it may, and is found under its key. `progress` is told the bytes done.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> Result<VerifyReport, VerifyError> {
        let got = self.compute_digest();
        let expected = self.facts().digest;
        if got != expected {
            return Err(VerifyError::Digest { expected, got });
        }
        let mut slots = index::taken_slots(self.bytes(), self.format())?.into_iter();
        let mut check = Check::new(self);
        for entry in self.entries() {
            let entry = entry?;
            // Both come in the order of the file: the next slot is this record's, or the record has none.
            check.is_found(&entry, slots.next())?;
            check.record(&entry)?;
            progress(entry.end());
        }
        if let Some(slot) = slots.next() {
            return Err(Corrupt { what: "a hash table's reference", offset: slot.position }.into());
        }
        check.counts()?;
        Ok(check.seen)
    }

    /// The digest as the writer computes it: what stands behind the facts first, then the beginning
    /// with the digest itself as zeros.
    fn compute_digest(&self) -> Digest {
        let (head, tail) = self.bytes().split_at(self.facts_position() + FACTS_BYTES);
        let mut head = head.to_vec();
        head[self.facts_position() + DIGEST_AT..].fill(0);
        let mut hasher = blake3::Hasher::new();
        hasher.update(tail).update(&head);
        Digest(*hasher.finalize().as_bytes())
    }
}

struct Check<'a> {
    archive: &'a Archive,
    seen: VerifyReport,
    /// Positions of the bodies met so far: records may refer to nothing else. Bodies come before paths.
    bodies: HashSet<u64>,
    /// Keys met so far: of two records under one key, a search would find the first only.
    keys: HashSet<&'a [u8]>,
    /// Header lines for HTTP/2 met so far, by their numbers.
    lines: HashMap<u8, HpackLine<'a>>,
}

impl<'a> Check<'a> {
    fn new(archive: &'a Archive) -> Self {
        let (bodies, keys, lines) = (HashSet::new(), HashSet::new(), HashMap::new());
        Check { archive, seen: VerifyReport::default(), bodies, keys, lines }
    }

    /// That a search for the record's key ends at the record, whose slot is `slot`.
    fn is_found(&mut self, entry: &Entry<'a>, slot: Option<Slot>) -> Result<(), VerifyError> {
        let hash = self.archive.format().stored_hash(Hash::of(entry.key));
        let expected = Slot { hash, position: entry.position };
        if slot == Some(expected) && self.keys.insert(entry.key) {
            return Ok(());
        }
        Err(Corrupt { what: "a record that its key does not find", offset: entry.position }.into())
    }

    fn record(&mut self, entry: &Entry<'a>) -> Result<(), VerifyError> {
        self.seen.records += 1;
        match entry.kind() {
            RecordKind::Body(digest) => self.body(entry, digest)?,
            RecordKind::Head(_) => self.head(entry)?,
            RecordKind::PlainHead(_) => {
                self.archive.head(self.archive.decode_plain_head(entry)?)?;
            }
            RecordKind::Path(_) => {
                self.seen.paths += 1;
                self.answer(self.archive.decode_path(entry)?, entry.position)?;
            }
            RecordKind::Scope(_) => self.scope(entry)?,
            RecordKind::Source(_) => {
                let extent = self.archive.decode_source(entry)?;
                self.reference(extent.position, entry.position)?;
            }
            RecordKind::Padding(_) if !padding::is_sound(entry.data) => {
                return Err(Corrupt { what: "padding", offset: entry.data_position }.into());
            }
            RecordKind::Padding(_) | RecordKind::Facts | RecordKind::Manifest => {}
            RecordKind::Unknown => {
                return Err(Corrupt { what: "a record of an unknown kind", offset: entry.position }.into());
            }
        }
        Ok(())
    }

    /// That a head is whole, and that its numbered lines are those of the other heads: a peer that has a line in its table
    /// is sent the number alone.
    fn head(&mut self, entry: &Entry<'a>) -> Result<(), VerifyError> {
        let head = Head::decode(entry.data, entry.data_position)?;
        if !head.hpack.is_sound() {
            return Err(
                Corrupt { what: "the lines of a head for HTTP/2", offset: entry.data_position }.into()
            );
        }
        for line in head.hpack.all().filter(|line| line.id != NO_LINE_ID) {
            if *self.lines.entry(line.id).or_insert(line) != line {
                return Err(
                    Corrupt { what: "a number of two header lines", offset: entry.data_position }.into()
                );
            }
        }
        Ok(())
    }

    fn body(&mut self, entry: &Entry<'_>, expected: Digest) -> Result<(), VerifyError> {
        if Digest::of(entry.data) != expected {
            return Err(VerifyError::Body { offset: entry.data_position, expected });
        }
        self.bodies.insert(entry.data_position);
        self.seen.bodies += 1;
        self.seen.body_bytes += entry.data.len() as u64;
        Ok(())
    }

    fn scope(&self, entry: &Entry<'a>) -> Result<(), VerifyError> {
        let scope = self.archive.decode_scope(entry)?;
        if !scope.is_index_sound()? {
            return Err(Corrupt { what: "an index of rules", offset: entry.data_position }.into());
        }
        for inner in scope.entries() {
            let record = match inner? {
                ScopeEntry::Fallback { record, .. } | ScopeEntry::ErrorPage { record, .. } => record,
                ScopeEntry::Rule(rule) => {
                    rule.pattern.into_iter().try_for_each(|piece| piece.map(drop))?;
                    rule.record
                }
                ScopeEntry::HeaderRule(rule) => {
                    rule.pattern.into_iter().try_for_each(|piece| piece.map(drop))?;
                    rule.fields.into_iter().try_for_each(|field| field.map(drop))?;
                    continue;
                }
            };
            self.answer(record, entry.position)?;
        }
        Ok(())
    }

    fn answer(&self, record: Record<'a>, at: u64) -> Result<(), VerifyError> {
        match record {
            Record::Resource(resource) => {
                for representation in resource.representations() {
                    let representation = representation?;
                    self.archive.head(representation.head)?;
                    self.archive.body(representation.body)?;
                    self.reference(representation.body.position, at)?;
                }
            }
            Record::Redirect(redirect) => {
                redirect.target.into_iter().try_for_each(|piece| piece.map(drop))?;
            }
            Record::Rewrite(rewrite) => rewrite.path.into_iter().try_for_each(|piece| piece.map(drop))?,
        }
        Ok(())
    }

    fn reference(&self, body: u64, at: u64) -> Result<(), VerifyError> {
        if self.bodies.contains(&body) {
            return Ok(());
        }
        Err(Corrupt { what: "a reference to a body", offset: at }.into())
    }

    fn counts(&self) -> Result<(), VerifyError> {
        let facts = self.archive.facts();
        let seen = (self.seen.paths, self.seen.bodies, self.seen.body_bytes);
        if seen == (facts.paths, facts.bodies, facts.body_bytes) {
            return Ok(());
        }
        Err(Corrupt { what: "the counts of the facts record", offset: self.archive.format().header_bytes() }
            .into())
    }
}
