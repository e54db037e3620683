//! Puts the parts of an archive together again, bit by bit: see [`crate::Archive::parts`].

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use super::Writer;
use crate::checksum::Digest;
use crate::error::{AssembleError, WriteError};
use crate::index;
use crate::layout::facts::{DIGEST_AT, FACTS_BYTES};
use crate::layout::format::Format;
use crate::layout::record::Extent;
use crate::layout::{RecordKind, body_key, name};
use crate::linked::Targets;
use crate::parts::Alignment;

/// Writes an archive from its parts.
///
/// Until [`Assembler::finish`] returns, the file is not complete, just like the file of a [`Writer`].
pub struct Assembler {
    writer: Writer,
    alignment: Alignment,
    targets: Targets,
}

impl Assembler {
    /// Starts an archive in `file`, which must be empty and open for both reading and writing.
    ///
    /// # Errors
    /// Returns [`WriteError::Io`] if the file cannot be written.
    pub fn new(file: File, format: Format, alignment: Alignment) -> Result<Assembler, WriteError> {
        Ok(Assembler { writer: Writer::new(file, format)?, alignment, targets: Targets::default() })
    }

    /// Writes a body of `length` bytes from `content`. The digest is not checked here, but see [`Assembler::finish`].
    ///
    /// # Errors
    /// Returns [`WriteError`] if `content` is too short, there is no room, or the file cannot be written.
    pub fn body(&mut self, digest: &Digest, length: u64, content: &mut dyn Read) -> Result<(), WriteError> {
        self.start_body(digest, length)?;
        self.writer.copy(content, length)
    }

    /// Writes a body from memory. Apart from that it is the same as [`Assembler::body`].
    ///
    /// # Errors
    /// Same as [`Assembler::body`].
    pub fn body_from_slice(&mut self, digest: &Digest, content: &[u8]) -> Result<(), WriteError> {
        self.start_body(digest, content.len() as u64)?;
        self.writer.append(content)
    }

    fn start_body(&mut self, digest: &Digest, length: u64) -> Result<(), WriteError> {
        if self.alignment == Alignment::Derived {
            self.writer.pad_before_body(length)?;
        }
        self.writer.start_record(&body_key(digest), length)?;
        self.targets.add_body(digest, Extent { position: self.writer.position, length });
        Ok(())
    }

    /// Writes a record byte for byte.
    ///
    /// # Errors
    /// Returns [`WriteError`] if there is no room or the file cannot be written.
    pub fn record(&mut self, key: &[u8], data: &[u8]) -> Result<(), WriteError> {
        if matches!(RecordKind::from_key(key), RecordKind::Head(_)) {
            self.targets.add_head(self.writer.position);
        }
        self.writer.record(key, data)
    }

    /// Writes a path record, given its linked form.
    ///
    /// # Errors
    /// Returns [`AssembleError::Link`] if it refers to something that hasn't been written, and other errors like
    /// [`Assembler::record`].
    pub fn linked(&mut self, key: &[u8], data: &[u8]) -> Result<(), AssembleError> {
        let data = self.targets.resolve(data, self.writer.format).ok_or(AssembleError::Link)?;
        Ok(self.writer.record(key, &data)?)
    }

    /// Writes hash tables, header and facts. The returned file was flushed but not synced.
    ///
    /// # Errors
    /// Returns [`AssembleError::Digest`] if the archive doesn't have the digest that the facts state. In that case, some part differs
    /// from the original. Returns other errors like [`Writer::finish`].
    pub fn finish(self, facts: &[u8; FACTS_BYTES]) -> Result<File, AssembleError> {
        let Assembler { mut writer, .. } = self;
        writer.require(0, 0)?;
        let slots = std::mem::take(&mut writer.slots);
        let tables_at = writer.position;
        let mut head = index::build(writer.format, slots, tables_at, |table| writer.append(table))?;
        writer.flush()?;

        let format = writer.format;
        format.put(&mut head, name::FACTS.len() as u64);
        format.put(&mut head, FACTS_BYTES as u64);
        head.extend_from_slice(name::FACTS);
        let digest_at = head.len() + DIGEST_AT;
        head.extend_from_slice(&facts[..DIGEST_AT]);
        head.extend_from_slice(&[0; Digest::BYTES]);
        let (got, mut file) = writer.output.finish().map_err(WriteError::Io)?.into_digest(&head);

        let mut expected = Digest([0; Digest::BYTES]);
        expected.0.copy_from_slice(&facts[DIGEST_AT..]);
        if got != expected {
            return Err(AssembleError::Digest { expected, got });
        }
        head[digest_at..].copy_from_slice(&expected.0);

        file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&head)).map_err(WriteError::Io)?;
        Ok(file)
    }
}
