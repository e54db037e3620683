//! Verifies a whole archive: digests, structures, references, and that each record can be found.
//!
//! We skip all this when opening an archive, which should take constant time.

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
use crate::layout::qpack::QpackLine;
use crate::layout::record::Record;
use crate::layout::scope::ScopeEntry;
use crate::reader::Archive;

/// Number of bytes that are read from the disk at once, and processed while they are in memory.
const READ_AHEAD_BYTES: usize = 4 << 20;

/// Statistics from [`Archive::verify`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Number of records of any kind.
    pub records: u64,
    /// Number of bodies.
    pub bodies: u64,
    /// Their total length in bytes.
    pub body_bytes: u64,
    /// Number of paths, including aliases and redirects.
    pub paths: u64,
}

impl Archive {
    /// Verifies the whole archive.
    ///
    /// This checks the digest of the file and of each body. It also ensures that each record is well-formed, refers only to
    /// existing bodies and heads, and can be found by its key. We call `progress` after each record, and every few megabytes in between,
    /// with the number of bytes whose records have been checked.
    ///
    /// # Errors
    /// Returns the first contradiction that was found.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> Result<VerifyReport, VerifyError> {
        self.check_digest(&mut || progress(0))?;

        let mut slots = index::occupied_slots(self.bytes(), self.format())?.into_iter();
        let mut check = Check::new(self);
        for entry in self.entries() {
            let entry = entry?;
            // Since both are in file order, the next slot should belong to this record. Otherwise, the record does not have a slot.
            check.slot(&entry, slots.next())?;
            check.record(&entry, &mut || progress(entry.position))?;
            progress(entry.end());
        }
        if let Some(slot) = slots.next() {
            return Err(Corrupt { what: "a hash table's reference", offset: slot.position }.into());
        }

        check.counts()?;
        Ok(check.seen)
    }

    /// Verifies the digest of the archive, which covers every byte. Takes about a third as long as [`Archive::verify`].
    ///
    /// # Errors
    /// Returns [`VerifyError::Digest`] if a byte has changed since the archive was written, or [`VerifyError::Io`] if one can't be
    /// read.
    pub fn verify_digest(&self) -> Result<(), VerifyError> {
        self.check_digest(&mut || {})
    }

    fn check_digest(&self, between: &mut dyn FnMut()) -> Result<(), VerifyError> {
        let got = self.compute_digest(between)?;
        let expected = self.facts().digest;
        if got == expected { Ok(()) } else { Err(VerifyError::Digest { expected, got }) }
    }

    /// Computes the digest like the writer does: first over the bytes after the facts, then over the bytes up to the end of the
    /// facts, with zeros in place of the digest. Calls `between` after each block.
    fn compute_digest(&self, between: &mut dyn FnMut()) -> Result<Digest, VerifyError> {
        let facts_end = self.facts_position() + FACTS_BYTES;
        let mut hasher = blake3::Hasher::new();
        for start in (facts_end..self.bytes().len()).step_by(READ_AHEAD_BYTES) {
            let end = self.bytes().len().min(start + READ_AHEAD_BYTES);
            self.read_ahead(start..end)?;
            hasher.update(&self.bytes()[start..end]);
            between();
        }

        let mut head = self.bytes()[..facts_end].to_vec();
        head[self.facts_position() + DIGEST_AT..].fill(0);
        hasher.update(&head);
        Ok(Digest(*hasher.finalize().as_bytes()))
    }
}

/// Verification state.
struct Check<'a> {
    archive: &'a Archive,
    seen: VerifyReport,
    /// Positions of bodies we have checked. Bodies always come before the records that refer to them.
    bodies: HashSet<u64>,
    /// Keys of the records checked so far. With two records of the same key, a lookup would never find the second.
    keys: HashSet<&'a [u8]>,
    /// HPACK field lines in the heads we have checked, by ID.
    hpack_lines: HashMap<u8, HpackLine<'a>>,
    /// QPACK field lines in the heads we have checked, by ID.
    qpack_lines: HashMap<u8, QpackLine<'a>>,
}

impl<'a> Check<'a> {
    fn new(archive: &'a Archive) -> Self {
        Check {
            archive,
            seen: VerifyReport::default(),
            bodies: HashSet::new(),
            keys: HashSet::new(),
            hpack_lines: HashMap::new(),
            qpack_lines: HashMap::new(),
        }
    }

    /// Checks that the record would be found by its key. `slot` is the next slot in file order.
    fn slot(&mut self, entry: &Entry<'a>, slot: Option<Slot>) -> Result<(), VerifyError> {
        let hash = self.archive.format().stored_hash(Hash::of(entry.key));
        let expected = Slot { hash, position: entry.position };
        if slot == Some(expected) && self.keys.insert(entry.key) {
            return Ok(());
        }
        Err(Corrupt { what: "a record that a lookup of its key does not find", offset: entry.position }
            .into())
    }

    fn record(&mut self, entry: &Entry<'a>, between: &mut dyn FnMut()) -> Result<(), VerifyError> {
        self.seen.records += 1;
        match entry.kind() {
            RecordKind::Body(digest) => self.body(entry, digest, between)?,
            RecordKind::Head(_) => self.head(entry)?,
            RecordKind::PlainHead(_) => {
                self.archive.head(self.archive.decode_plain_head(entry)?)?;
            }
            RecordKind::Path(_) => {
                self.seen.paths += 1;
                self.path(self.archive.decode_path(entry)?, entry.position)?;
            }
            RecordKind::Scope(_) => self.scope(entry)?,
            RecordKind::Source(_) => {
                let extent = self.archive.decode_source(entry)?;
                self.body_reference(extent.position, entry.position)?;
            }
            RecordKind::Padding(_) if !padding::is_valid(entry.data) => {
                return Err(Corrupt { what: "padding", offset: entry.data_position }.into());
            }
            RecordKind::Padding(_) | RecordKind::Facts | RecordKind::Manifest => {}
            RecordKind::Unknown => {
                return Err(Corrupt { what: "a record of an unknown kind", offset: entry.position }.into());
            }
        }

        Ok(())
    }

    /// Checks that a head is well-formed, and that IDs denote the same field line in all heads.
    ///
    /// The server relies on IDs: if a line is in the client's dynamic table, only its index will be sent.
    fn head(&mut self, entry: &Entry<'a>) -> Result<(), VerifyError> {
        let head = Head::decode(entry.data, entry.data_position)?;
        let corrupt = |what| Err(Corrupt { what, offset: entry.data_position }.into());
        if !head.hpack.is_valid() {
            return corrupt("the HPACK field lines of a head");
        }
        for line in head.hpack.all().filter(|line| line.id != NO_LINE_ID) {
            if *self.hpack_lines.entry(line.id).or_insert(line) != line {
                return corrupt("an ID of two HPACK field lines");
            }
        }

        // The same for QPACK.
        if !head.qpack().is_valid() {
            return corrupt("the QPACK field lines of a head");
        }
        for line in head.qpack().all().filter(|line| line.id != NO_LINE_ID) {
            if *self.qpack_lines.entry(line.id).or_insert(line) != line {
                return corrupt("an ID of two QPACK field lines");
            }
        }
        Ok(())
    }

    fn body(
        &mut self,
        entry: &Entry<'_>,
        expected: Digest,
        between: &mut dyn FnMut(),
    ) -> Result<(), VerifyError> {
        let mut hasher = blake3::Hasher::new();
        for block in entry.data.chunks(READ_AHEAD_BYTES) {
            hasher.update(block);
            between();
        }
        if Digest(*hasher.finalize().as_bytes()) != expected {
            return Err(VerifyError::Body { offset: entry.data_position, expected });
        }
        self.bodies.insert(entry.data_position);
        self.seen.bodies += 1;
        self.seen.body_bytes += entry.data.len() as u64;
        Ok(())
    }

    fn scope(&self, entry: &Entry<'a>) -> Result<(), VerifyError> {
        let scope = self.archive.decode_scope(entry)?;
        if !scope.has_valid_indexes()? {
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
            self.path(record, entry.position)?;
        }
        Ok(())
    }

    fn path(&self, record: Record<'a>, offset: u64) -> Result<(), VerifyError> {
        match record {
            Record::Resource(resource) => {
                for representation in resource.representations() {
                    let representation = representation?;
                    self.archive.head(representation.head)?;
                    self.archive.body(representation.body)?;
                    self.body_reference(representation.body.position, offset)?;
                }
            }
            Record::Redirect(redirect) => {
                redirect.target.into_iter().try_for_each(|piece| piece.map(drop))?;
            }
            Record::Rewrite(rewrite) => rewrite.path.into_iter().try_for_each(|piece| piece.map(drop))?,
        }
        Ok(())
    }

    /// Checks that the record at `offset` refers to an existing body.
    fn body_reference(&self, body: u64, offset: u64) -> Result<(), VerifyError> {
        if self.bodies.contains(&body) {
            return Ok(());
        }
        Err(Corrupt { what: "a reference to a body", offset }.into())
    }

    /// Checks that the facts have the right counts.
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
