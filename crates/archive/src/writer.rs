//! Streams an archive into a file: facts, bodies, heads and paths, then the hash tables, then the header.
//!
//! Writing is deterministic: the same calls write the same bytes, and the writer never reads a clock. It keeps no body in
//! memory, only sixteen bytes for each record.
//!
//! The file is incomplete until [`Writer::finish`] returns. The caller renames it to its final name afterwards.

mod output;

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;

use crate::checksum::Digest;
use crate::error::WriteError;
use crate::index::{self, Slot};
use crate::key::Key;
use crate::layout::facts::{DIGEST_AT, FACTS_BYTES, Facts};
use crate::layout::format::Format;
use crate::layout::hash::Hash;
use crate::layout::head::NewHead;
use crate::layout::padding::{self, zeros_before_body};
use crate::layout::record::{BodyId, Extent, HeadId, NewRecord, Positions};
use crate::layout::scope::NewScope;
use crate::layout::{BODY_KEY_BYTES, body_key, head_key, name, padding_key, plain_head_key};
use crate::reader::Archive;
use crate::writer::output::{Chunk, Output};

/// Fits into the second-level cache, because the bytes are hashed and then written.
const BUFFER_BYTES: usize = 256 << 10;

/// A shorter run of copied bodies goes through the buffer, because a system call costs as much as copying it.
const RUN_BYTES_MIN: u64 = 32 << 10;

/// A run is passed to the output when it has this length, although the next body may continue it. A longer one, which ends with a
/// large body, is passed in parts of this length.
const RUN_PART_BYTES: u64 = 1 << 20;

/// Writes an archive.
///
/// Another thread writes the file. So the error of a write is returned by the call that caused it or by a later one, at the latest by
/// [`Writer::finish`]. A writer that is dropped before writes nothing more.
pub struct Writer {
    output: Output,
    /// The archive that bodies are copied from.
    source: Option<Arc<Archive>>,
    /// Consecutive records of `source` that come after the buffer, and aren't passed to the output yet.
    run: Range<u64>,
    /// Bytes that aren't passed to the output yet. Hashing many at a time is several times faster.
    buffer: Vec<u8>,
    format: Format,
    /// Position of the next byte.
    position: u64,
    slots: Vec<Slot>,
    positions: PositionTable,
    padding: PaddingTotals,
    facts: Facts,
}

/// The positions of bodies and heads, by their IDs.
#[derive(Default)]
struct PositionTable {
    bodies: Vec<Extent>,
    heads: Vec<u64>,
}

impl Positions for PositionTable {
    fn body(&self, id: BodyId) -> Extent {
        self.bodies[id.0 as usize]
    }

    fn head(&self, id: HeadId) -> u64 {
        self.heads[id.0 as usize]
    }
}

/// Number and total length of the padding records.
#[derive(Default)]
struct PaddingTotals {
    records: u32,
    bytes: u64,
}

/// Summary of a written archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteReport {
    /// The width of the container.
    pub format: Format,
    /// The facts, including the length and the digest of the file.
    pub facts: Facts,
    /// Total length of the padding records in bytes.
    pub padding_bytes: u64,
}

impl Writer {
    /// Starts an archive in `file`, which must be empty and open for reading and writing.
    ///
    /// # Errors
    /// Returns [`WriteError::Io`] if the file cannot be written.
    pub fn new(file: File, format: Format) -> Result<Writer, WriteError> {
        let facts = Facts {
            slash_redirects: true,
            forced_rules: false,
            hosts: false,
            wildcard_hosts: false,
            header_rules: false,
            host_header_rules: false,
            wildcard_labels_max: 0,
            path_bytes_max: 0,
            scope_depth_max: 0,
            paths: 0,
            bodies: 0,
            body_bytes: 0,
            serial: 0,
            file_bytes: 0,
            digest: Digest([0; Digest::BYTES]),
        };

        // The facts are known at the end. The digest covers what comes after them first.
        let facts_position = format.header_bytes();
        let position =
            facts_position + format.record_header_bytes() + name::FACTS.len() as u64 + FACTS_BYTES as u64;
        let facts_slot = Slot { hash: format.stored_hash(Hash::of(name::FACTS)), position: facts_position };

        Ok(Writer {
            output: Output::new(file, position)?,
            source: None,
            run: 0..0,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            format,
            position,
            slots: vec![facts_slot],
            positions: PositionTable::default(),
            padding: PaddingTotals::default(),
            facts,
        })
    }

    /// Sets the archive that [`Writer::copied_body`] copies from. It must have the same format.
    pub fn set_source(&mut self, source: Arc<Archive>) {
        debug_assert!(source.format() == self.format && self.source.is_none());
        self.source = Some(source);
    }

    /// Sets the serial number of the release.
    pub fn set_serial(&mut self, serial: u64) {
        self.facts.serial = serial;
    }

    /// Disables redirects from a path to the same path with or without a slash at its end, which archives have by default.
    pub fn disable_slash_redirects(&mut self) {
        self.facts.slash_redirects = false;
    }

    /// Returns the width of the container.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Continues in `file`, which must be empty and open for reading and writing, with a copy of all bytes before.
    ///
    /// # Errors
    /// Returns [`WriteError::Io`] if one of the files cannot be read or written. Writing has ended then.
    pub fn move_to(&mut self, file: File) -> Result<(), WriteError> {
        self.end_run()?;
        self.flush()?;
        Ok(self.output.move_to(file)?)
    }

    /// Writes a body of `length` bytes from `content`. A large body gets padding before it.
    ///
    /// Must be called at most once for each digest.
    ///
    /// # Errors
    /// Returns [`WriteError::Full`] without any change if the 32-bit format has no room for the body, and
    /// [`WriteError::Io`] if `content` is too short or the file cannot be written.
    pub fn body(
        &mut self,
        digest: &Digest,
        length: u64,
        content: &mut dyn Read,
    ) -> Result<BodyId, WriteError> {
        self.write_body(digest, length, |writer| writer.copy(content, length))
    }

    /// Writes a body as [`Writer::body`] does, from memory.
    ///
    /// # Errors
    /// Returns the errors of [`Writer::body`].
    pub fn body_from_slice(&mut self, digest: &Digest, content: &[u8]) -> Result<BodyId, WriteError> {
        self.write_body(digest, content.len() as u64, |writer| writer.append(content))
    }

    /// Writes the body that has this extent in the source. Bodies that are consecutive there are copied as a whole.
    ///
    /// # Errors
    /// Returns the errors of [`Writer::body`].
    ///
    /// # Panics
    /// If there is no source, or it has no such body.
    pub fn copied_body(&mut self, digest: &Digest, extent: Extent) -> Result<BodyId, WriteError> {
        let source = self.source.as_ref().expect("there is a source");
        assert!(source.body(extent).is_ok(), "the source has the body");
        self.pad_before_body(extent.length)?;
        let key = body_key(digest);
        let bytes_before_data = self.format.record_header_bytes() + key.len() as u64;
        self.require(extent.length.saturating_add(bytes_before_data), 1)?;
        let start = extent.position - bytes_before_data;
        if self.run.end != start {
            self.end_run()?;
            self.run = start..start;
        }

        let hash = self.format.stored_hash(Hash::of(&key));
        self.slots.push(Slot { hash, position: self.position });
        self.run.end = extent.position + extent.length;
        self.position += bytes_before_data;
        let position = self.position;
        self.position += extent.length;
        if self.run.end - self.run.start >= RUN_PART_BYTES {
            self.end_run()?;
        }
        self.add_body(Extent { position, length: extent.length })
    }

    fn write_body(
        &mut self,
        digest: &Digest,
        length: u64,
        write: impl FnOnce(&mut Writer) -> Result<(), WriteError>,
    ) -> Result<BodyId, WriteError> {
        self.pad_before_body(length)?;
        self.start_record(&body_key(digest), length)?;
        let position = self.position;
        write(self)?;
        self.add_body(Extent { position, length })
    }

    fn add_body(&mut self, extent: Extent) -> Result<BodyId, WriteError> {
        let id = BodyId(u32::try_from(self.positions.bodies.len()).map_err(|_| WriteError::Full)?);
        self.positions.bodies.push(extent);
        self.facts.bodies += 1;
        self.facts.body_bytes += extent.length;
        Ok(id)
    }

    /// Returns the length of a body in bytes.
    #[must_use]
    pub fn body_length(&self, id: BodyId) -> u64 {
        self.positions.body(id).length
    }

    /// Returns the extents of all bodies written so far, by their IDs.
    #[must_use]
    pub fn body_extents(&self) -> &[Extent] {
        &self.positions.bodies
    }

    /// Writes a head. Must be called at most once for each head.
    ///
    /// # Errors
    /// Returns [`WriteError`] if a part of the head is too long, the format has no room, or the file cannot be written.
    pub fn head(&mut self, head: &NewHead) -> Result<HeadId, WriteError> {
        let ordinal = u32::try_from(self.positions.heads.len()).map_err(|_| WriteError::Full)?;
        self.positions.heads.push(self.position);
        self.record(&head_key(ordinal), &head.encode()?)?;
        Ok(HeadId(ordinal))
    }

    /// Records that `head` is `plain` with added fields of `_headers`. Must be called at most once for each `head`.
    ///
    /// # Errors
    /// Returns [`WriteError`] if the format has no room or the file cannot be written.
    pub fn plain_head(&mut self, head: HeadId, plain: HeadId) -> Result<(), WriteError> {
        let mut data = Vec::new();
        self.format.put(&mut data, self.positions.head(plain));
        self.record(&plain_head_key(head.0.to_le_bytes()), &data)
    }

    /// Writes the record of a path on `host`, or on the default site if `host` is `None`.
    ///
    /// The host `*.example.com` matches all subdomains. Must be called at most once for each host and key.
    ///
    /// # Errors
    /// Returns [`WriteError`] if a part of the record is too long, the format has no room, or the file cannot be written.
    pub fn path(
        &mut self,
        host: Option<&str>,
        key: Key<'_>,
        record: &NewRecord<'_>,
    ) -> Result<(), WriteError> {
        let mut data = Vec::with_capacity(128);
        record.encode(&mut data, self.format, &self.positions)?;

        self.facts.paths += 1;
        let bytes = u16::try_from(key.bytes().len()).expect("keys have at most 8 KiB");
        self.facts.path_bytes_max = self.facts.path_bytes_max.max(bytes);
        self.add_host(host);
        self.record(&full_key(host, key.bytes(), b""), &data)
    }

    /// Writes the scope of a directory. The key of a directory ends with `/`.
    ///
    /// Must be called at most once for each host and directory.
    ///
    /// # Errors
    /// Returns [`WriteError`] if a part of the scope is too long, the format has no room, or the file cannot be written.
    pub fn scope(
        &mut self,
        host: Option<&str>,
        directory: Key<'_>,
        scope: &NewScope<'_>,
    ) -> Result<(), WriteError> {
        debug_assert!(directory.is_directory());
        let depth = directory.bytes().iter().filter(|byte| **byte == b'/').count() - 1;
        let depth = u16::try_from(depth).expect("keys have at most 8 KiB");
        self.facts.scope_depth_max = self.facts.scope_depth_max.max(depth);

        self.facts.forced_rules |= scope.rules.iter().any(|rule| rule.force);
        self.facts.header_rules |= !scope.header_rules.is_empty();
        let is_for_host = scope.header_rules.iter().any(|rule| !rule.host.is_empty());
        self.facts.host_header_rules |= is_for_host;
        self.facts.hosts |= is_for_host;
        self.add_host(host);

        let data = scope.encode(self.format, &self.positions)?;
        self.record(&full_key(host, directory.bytes(), b"/"), &data)
    }

    /// Writes the record of a source file that is not served under its own name.
    ///
    /// # Errors
    /// Returns [`WriteError`] if the format has no room or the file cannot be written.
    pub fn source(&mut self, path: &[u8], body: BodyId) -> Result<(), WriteError> {
        let mut data = Vec::new();
        let extent = self.positions.body(body);
        self.format.put(&mut data, extent.position);
        self.format.put(&mut data, extent.length);
        self.record(&[&[name::SOURCE], path].concat(), &data)
    }

    /// Writes the manifest.
    ///
    /// # Errors
    /// Returns [`WriteError`] if the format has no room or the file cannot be written.
    pub fn manifest(&mut self, json: &[u8]) -> Result<(), WriteError> {
        self.record(name::MANIFEST, json)
    }

    /// Continues in the 64-bit format, in `file`, which must be empty and open for reading and writing.
    ///
    /// May be called only while all records are bodies, because other records contain positions.
    ///
    /// # Errors
    /// Returns [`WriteError::Io`] if one of the files cannot be read or written.
    pub fn widen(mut self, file: File) -> Result<Writer, WriteError> {
        debug_assert!(self.format == Format::Cdb && self.positions.heads.is_empty());
        let mut wide = Writer::new(file, Format::Cdb64)?;
        let key_position = |body: &Extent| body.position - BODY_KEY_BYTES as u64;
        self.end_run()?;
        self.flush()?;
        let file = self.output.finish()?.into_file();
        let mut source = BufReader::with_capacity(BUFFER_BYTES, file);
        for body in &self.positions.bodies {
            source.seek(SeekFrom::Start(key_position(body)))?;
            let mut key = [0; BODY_KEY_BYTES];
            source.read_exact(&mut key)?;
            let mut digest = Digest([0; Digest::BYTES]);
            digest.0.copy_from_slice(&key[1..]);
            wide.body(&digest, body.length, &mut source)?;
        }
        Ok(wide)
    }

    /// Checks that `records` further records of `bytes` bytes in total fit, including their slots in the hash tables.
    ///
    /// Callers use it before they write the first record that contains a position: [`Writer::widen`] is possible until then.
    ///
    /// # Errors
    /// Returns [`WriteError::Full`] without any change if the 32-bit format has no room for them.
    pub fn require(&self, bytes: u64, records: u64) -> Result<(), WriteError> {
        let length = self.length_with(bytes, records);
        let fits = length.is_some_and(|length| length <= self.format.position_max());
        if fits { Ok(()) } else { Err(WriteError::Full) }
    }

    /// Returns the length of the archive with `records` further records of `bytes` bytes in total, including the hash tables.
    /// Returns `None` if it has more than 64 bits.
    #[must_use]
    pub fn length_with(&self, bytes: u64, records: u64) -> Option<u64> {
        let tables = index::tables_bytes(self.format, records.saturating_add(self.slots.len() as u64));
        self.position.checked_add(bytes)?.checked_add(tables)
    }

    /// Writes the hash tables, the header and the facts, and returns the file, flushed but not synced.
    ///
    /// # Errors
    /// Returns [`WriteError`] if the format has no room, the keys collide too much, or the file cannot be written.
    pub fn finish(mut self) -> Result<(File, WriteReport), WriteError> {
        self.require(0, 0)?;
        let format = self.format;
        let slots = std::mem::take(&mut self.slots);
        let tables_at = self.position;
        let header = index::build(format, slots, tables_at, |table| self.append(table))?;

        self.flush()?;

        // The digest covers the rest of the file first, then the beginning with zeros in place of the digest.
        self.facts.file_bytes = self.position;
        let mut head = header;
        format.put(&mut head, name::FACTS.len() as u64);
        format.put(&mut head, FACTS_BYTES as u64);
        head.extend_from_slice(name::FACTS);
        head.extend_from_slice(&self.facts.encode());
        let (digest, mut file) = self.output.finish()?.into_digest(&head);
        self.facts.digest = digest;
        let digest_at = head.len() - FACTS_BYTES + DIGEST_AT;
        head[digest_at..].copy_from_slice(&self.facts.digest.0);

        file.seek(SeekFrom::Start(0))?;
        file.write_all(&head)?;
        Ok((file, WriteReport { format, facts: self.facts, padding_bytes: self.padding.bytes }))
    }

    /// Adds a host to the facts.
    fn add_host(&mut self, host: Option<&str>) {
        self.facts.hosts |= host.is_some();
        if let Some(name) = host.and_then(|host| host.strip_prefix("*.")) {
            self.facts.wildcard_hosts = true;
            // A valid host name has at most 127 labels, and the server never looks up a longer one.
            let labels = u16::try_from(name.split('.').count()).unwrap_or(u16::MAX);
            self.facts.wildcard_labels_max = self.facts.wildcard_labels_max.max(labels);
        }
    }

    fn record(&mut self, key: &[u8], data: &[u8]) -> Result<(), WriteError> {
        self.start_record(key, data.len() as u64)?;
        self.append(data)
    }

    /// Writes padding before a body of `length` bytes if the body must be page-aligned and would not be.
    ///
    /// # Errors
    /// Returns [`WriteError::Full`] without any change if there is no room for both.
    fn pad_before_body(&mut self, length: u64) -> Result<(), WriteError> {
        let Some(zeros) = zeros_before_body(self.format, self.position, length) else { return Ok(()) };
        let padding_bytes = padding::padding_bytes(self.format, zeros);
        let body_bytes = length.saturating_add(self.format.record_header_bytes() + BODY_KEY_BYTES as u64);
        self.require(body_bytes.saturating_add(padding_bytes), 2)?;

        let ordinal = self.padding.records;
        self.padding.records = ordinal.checked_add(1).ok_or(WriteError::Full)?;
        self.padding.bytes += padding_bytes;
        self.start_record(&padding_key(ordinal), zeros)?;
        self.copy(&mut std::io::repeat(0), zeros)
    }

    /// Writes the lengths and the key of a record, and adds its slot.
    fn start_record(&mut self, key: &[u8], data_bytes: u64) -> Result<(), WriteError> {
        let bytes_before_data = self.format.record_header_bytes() + key.len() as u64;
        self.require(data_bytes.saturating_add(bytes_before_data), 1)?;

        let hash = self.format.stored_hash(Hash::of(key));
        self.slots.push(Slot { hash, position: self.position });

        let mut head = Vec::with_capacity(64);
        self.format.put(&mut head, key.len() as u64);
        self.format.put(&mut head, data_bytes);
        head.extend_from_slice(key);
        self.append(&head)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.end_run()?;
        self.position += bytes.len() as u64;
        self.put(bytes)
    }

    /// Passes the run to the output.
    fn end_run(&mut self) -> Result<(), WriteError> {
        if self.run.is_empty() {
            return Ok(());
        }
        let run = std::mem::take(&mut self.run);
        let source = self.source.clone().expect("a run is of a source");
        let extent = Extent { position: run.start, length: run.end - run.start };
        if extent.length < RUN_BYTES_MIN {
            return self.put(source.body(extent).expect("the source has the body"));
        }
        self.flush()?;
        let mut position = run.start;
        while position < run.end {
            let part = Extent { position, length: (run.end - position).min(RUN_PART_BYTES) };
            self.output.put(Chunk::Copy(Arc::clone(&source), part))?;
            position += part.length;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        // In parts, so that only a few of them are in memory.
        for chunk in bytes.chunks(BUFFER_BYTES) {
            if self.buffer.len() + chunk.len() > BUFFER_BYTES {
                self.flush()?;
            }
            self.buffer.extend_from_slice(chunk);
        }
        Ok(())
    }

    /// Passes the buffer to the output.
    fn flush(&mut self) -> Result<(), WriteError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let next = Vec::with_capacity(BUFFER_BYTES);
        Ok(self.output.put(Chunk::Bytes(std::mem::replace(&mut self.buffer, next)))?)
    }

    /// Reads `length` bytes of `content` into the buffer.
    fn copy(&mut self, content: &mut dyn Read, length: u64) -> Result<(), WriteError> {
        let mut remaining = length;
        while remaining > 0 {
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush()?;
            }
            let start = self.buffer.len();
            let chunk_bytes = bounded(remaining, BUFFER_BYTES - start);
            self.buffer.resize(start + chunk_bytes, 0);
            content.read_exact(&mut self.buffer[start..])?;
            self.position += chunk_bytes as u64;
            remaining -= chunk_bytes as u64;
        }
        Ok(())
    }
}

/// Returns `length`, or `max` if `length` is greater.
fn bounded(length: u64, max: usize) -> usize {
    usize::try_from(length).map_or(max, |length| length.min(max))
}

/// Returns a stored key: `//` and the host if there is one, the path, and `suffix`, which is `/` for a scope.
fn full_key(host: Option<&str>, path: &[u8], suffix: &[u8]) -> Vec<u8> {
    let (slashes, host) = host.map_or((b"".as_slice(), ""), |host| (b"//", host));
    [slashes, host.to_ascii_lowercase().as_bytes(), path, suffix].concat()
}
