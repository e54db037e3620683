//! Parts of an archive that the rest follows from. [`crate::Assembler`] puts them together again, bit by bit.
//!
//! Hash tables, padding, positions, lengths and entity tags are functions of the other parts, so they are left out.

use crate::checksum::Digest;
use crate::error::{Corrupt, WriteError};
use crate::index::{self, Slot};
use crate::layout::entry::Entry;
use crate::layout::facts::FACTS_BYTES;
use crate::layout::hash::Hash;
use crate::layout::padding::{self, zeros_before_body};
use crate::layout::record::Extent;
use crate::layout::{RecordKind, padding_key};
use crate::linked::Targets;
use crate::reader::Archive;

/// The parts of an archive.
pub struct Parts<'a> {
    /// The data of the facts record, byte for byte.
    pub facts: &'a [u8; FACTS_BYTES],
    /// How padding follows from the bodies.
    pub alignment: Alignment,
    archive: &'a Archive,
}

/// Whether large bodies are page-aligned with padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// Exactly like [`crate::Writer`] aligns them, so padding follows from the bodies and isn't a part.
    Derived,
    /// In some other way. Padding records are parts like others.
    Stored,
}

/// A record, without what follows from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'a> {
    /// A body. Its key is the digest of its content.
    Body {
        /// The digest in the key.
        digest: Digest,
        /// The content.
        content: &'a [u8],
    },
    /// A path record in linked form.
    Linked {
        /// The key.
        key: &'a [u8],
        /// The linked form of the data.
        data: Vec<u8>,
    },
    /// Any other record, byte for byte.
    Record {
        /// The key.
        key: &'a [u8],
        /// The data.
        data: &'a [u8],
    },
}

impl Archive {
    /// Returns the parts of this archive. This doesn't read bodies.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if hash tables or padding aren't what would be derived from the records.
    pub fn parts(&self) -> Result<Parts<'_>, Corrupt> {
        let mut entries = self.entries();
        let corrupt = Corrupt { what: "the facts record", offset: self.format().header_bytes() };
        let facts = entries.next().ok_or(corrupt)??.data.try_into().map_err(|_| corrupt)?;
        let alignment = self.check_derived()?;
        Ok(Parts { facts, alignment, archive: self })
    }

    /// Checks that the hash tables are those that the writer would build, and finds out how bodies are aligned.
    fn check_derived(&self) -> Result<Alignment, Corrupt> {
        let format = self.format();
        let mut slots = Vec::new();
        let mut alignment = Alignment::Derived;
        let mut paddings = 0;
        // Position and length of the padding record right before this record.
        let mut gap = None;
        let mut end = format.header_bytes();
        for entry in self.entries() {
            let entry = entry?;
            slots.push(Slot { hash: format.stored_hash(Hash::of(entry.key)), position: entry.position });
            end = entry.end();
            match entry.kind() {
                RecordKind::Padding(_) => {
                    let is_next = entry.key == padding_key(paddings) && padding::is_valid(entry.data);
                    if gap.is_some() || !is_next {
                        alignment = Alignment::Stored;
                    }
                    paddings += 1;
                    gap = Some((entry.position, entry.data.len() as u64));
                }
                RecordKind::Body(_) => {
                    let start = gap.map_or(entry.position, |(position, _)| position);
                    let zeros = gap.take().map(|(_, zeros)| zeros);
                    if zeros_before_body(format, start, entry.data.len() as u64) != zeros {
                        alignment = Alignment::Stored;
                    }
                }
                // Padding is before bodies only.
                _ if gap.take().is_some() => alignment = Alignment::Stored,
                _ => {}
            }
        }
        if gap.is_some() {
            alignment = Alignment::Stored;
        }

        let corrupt = Corrupt { what: "a hash table", offset: end };
        let (header, mut rest) =
            (self.bytes(), usize::try_from(end).ok().and_then(|end| self.bytes().get(end..)));
        let built = index::build(format, slots, end, |table| {
            rest = rest.and_then(|rest| rest.strip_prefix(table));
            if rest.is_some() { Ok(()) } else { Err(WriteError::Full) }
        });
        let is_same = built.is_ok_and(|built| header.starts_with(&built)) && rest == Some(b"".as_slice());
        if is_same { Ok(alignment) } else { Err(corrupt) }
    }
}

impl<'a> Parts<'a> {
    /// Calls `visit` for each part, in file order. The facts aren't among them.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if a record isn't inside the file.
    pub fn for_each(&self, mut visit: impl FnMut(Part<'a>)) -> Result<(), Corrupt> {
        let mut targets = Targets::default();
        for entry in self.archive.entries().skip(1) {
            let entry = entry?;
            if let Some(part) = self.part(&entry, &mut targets) {
                visit(part);
            }
        }
        Ok(())
    }

    /// Returns the part that a record becomes, or `None` if the record follows from others.
    fn part(&self, entry: &Entry<'a>, targets: &mut Targets) -> Option<Part<'a>> {
        let Entry { key, data, .. } = *entry;
        match entry.kind() {
            RecordKind::Padding(_) if self.alignment == Alignment::Derived => return None,
            RecordKind::Body(digest) => {
                let extent = Extent { position: entry.data_position, length: data.len() as u64 };
                targets.add_body(&digest, extent);
                return Some(Part::Body { digest, content: data });
            }
            RecordKind::Head(_) => targets.add_head(entry.position),
            RecordKind::Path(_) => {
                if let Some(data) = targets.link(data, self.archive.format()) {
                    return Some(Part::Linked { key, data });
                }
            }
            _ => {}
        }
        Some(Part::Record { key, data })
    }
}
