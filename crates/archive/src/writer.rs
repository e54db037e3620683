//! Streams an archive into a file: facts, bodies, heads and paths, then the hash tables, and finally the header.
//!
//! Output is deterministic: the same calls write the same bytes, and we never read the clock. The writer does not keep bodies in
//! memory, it only needs sixteen bytes per record.
//!
//! Until [`Writer::finish`] returns, the file is not complete. Callers should only rename it to its final name after that.

pub(crate) mod assembler;
pub(crate) mod layout;
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

/// The buffer should fit into the L2 cache, since we hash the bytes and then write them.
const BUFFER_BYTES: usize = 256 << 10;

/// Minimum length of a run of copied bodies that we pass on its own. Shorter runs go through the buffer, since copying them costs
/// about as much as a system call.
const RUN_BYTES_MIN: u64 = 32 << 10;

/// Length at which we pass a run to the output, even if the next body might continue it. Should a large body make the run longer
/// than this, it is passed in parts.
const RUN_PART_BYTES: u64 = 1 << 20;

/// Writes an archive.
///
/// Writing happens on another thread, so errors may be delayed. A failed write will be reported by the same call or by a later one,
/// at the latest by [`Writer::finish`]. If you drop the writer before that, it will stop writing.
pub struct Writer {
    output: Output,
    /// The archive we copy bodies from.
    source: Option<Arc<Archive>>,
    /// Consecutive records of `source` that have not been passed to the output yet. They come after the buffer.
    run: Range<u64>,
    /// Bytes that have not been passed to the output yet. Hashing many bytes at a time is several times faster.
    buffer: Vec<u8>,
    format: Format,
    /// Position of the next byte.
    position: u64,
    slots: Vec<Slot>,
    positions: PositionTable,
    padding: PaddingTotals,
    facts: Facts,
}

/// Positions of bodies and heads, by ID.
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

/// Number and total length of padding records.
#[derive(Default)]
struct PaddingTotals {
    records: u32,
    bytes: u64,
}

/// Summary of a written archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteReport {
    /// Width of the container.
    pub format: Format,
    /// The facts, including the file's length and digest.
    pub facts: Facts,
    /// Total length of padding records in bytes.
    pub padding_bytes: u64,
}

impl Writer {
    /// Starts an archive in `file`, which must be empty and open for both reading and writing.
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

        // We will only know the facts at the end. The digest therefore starts after them and covers them last.
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

    /// Sets the archive that [`Writer::copied_body`] copies from. It must have the same width.
    pub fn set_source(&mut self, source: Arc<Archive>) {
        debug_assert!(source.format() == self.format && self.source.is_none());
        self.source = Some(source);
    }

    /// Sets the serial number of the release.
    pub fn set_serial(&mut self, serial: u64) {
        self.facts.serial = serial;
    }

    /// Disables redirects that add or remove a slash at the end of a path (they are enabled by default).
    pub fn disable_slash_redirects(&mut self) {
        self.facts.slash_redirects = false;
    }

    /// Returns how wide the container is.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Copies everything written so far to `file` and continues there. `file` must be empty, and open for both reading and writing.
    ///
    /// # Errors
    /// Returns [`WriteError::Io`] if one of the files cannot be read or written. The writer is no longer usable then.
    pub fn move_to(&mut self, file: File) -> Result<(), WriteError> {
        self.end_run()?;
        self.flush()?;
        Ok(self.output.move_to(file)?)
    }

    /// Writes a body of `length` bytes from `content`. Padding will precede large bodies.
    ///
    /// This must not be called twice with the same digest.
    ///
    /// # Errors
    /// Returns [`WriteError::Full`] if the body does not fit the 32-bit format. In this case nothing was written. Returns
    /// [`WriteError::Io`] if `content` is too short or the file cannot be written.
    pub fn body(
        &mut self,
        digest: &Digest,
        length: u64,
        content: &mut dyn Read,
    ) -> Result<BodyId, WriteError> {
        self.write_body(digest, length, |writer| writer.copy(content, length))
    }

    /// Writes a body from memory. Apart from that it is the same as [`Writer::body`].
    ///
    /// # Errors
    /// Same as [`Writer::body`].
    pub fn body_from_slice(&mut self, digest: &Digest, content: &[u8]) -> Result<BodyId, WriteError> {
        self.write_body(digest, content.len() as u64, |writer| writer.append(content))
    }

    /// Copies a body from the source, given its extent there. If bodies are consecutive in the source, they will be copied
    /// together.
    ///
    /// # Errors
    /// Same as [`Writer::body`].
    ///
    /// # Panics
    /// Panics if there is no source, or if it does not have this body.
    pub fn copied_body(&mut self, digest: &Digest, extent: Extent) -> Result<BodyId, WriteError> {
        let source = self.source.as_ref().expect("there is a source");
        assert!(source.body(extent).is_ok(), "the source has the body");
        self.pad_before_body(extent.length)?;

        let key = body_key(digest);
        let bytes_before_data = self.format.record_header_bytes() + key.len() as u64;
        self.require(extent.length.saturating_add(bytes_before_data), 1)?;
        // If the body comes right after the current run, continue the run, including the record's header and key.
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

    /// Returns the length of a body, in bytes.
    #[must_use]
    pub fn body_length(&self, id: BodyId) -> u64 {
        self.positions.body(id).length
    }

    /// Returns the extents of all bodies written so far, indexed by ID.
    #[must_use]
    pub fn body_extents(&self) -> &[Extent] {
        &self.positions.bodies
    }

    /// Writes a head. This must not be called twice for the same head.
    ///
    /// # Errors
    /// Returns [`WriteError`] if a part of the head is too long, there is no room, or the file cannot be written.
    pub fn head(&mut self, head: &NewHead) -> Result<HeadId, WriteError> {
        let ordinal = u32::try_from(self.positions.heads.len()).map_err(|_| WriteError::Full)?;
        self.positions.heads.push(self.position);
        self.record(&head_key(ordinal), &head.encode()?)?;
        Ok(HeadId(ordinal))
    }

    /// Records that `head` is the same as `plain` except for fields added by `_headers`. Callers MUST NOT do this twice for the
    /// same `head`.
    ///
    /// # Errors
    /// Returns [`WriteError`] if there is no room or the file cannot be written.
    pub fn plain_head(&mut self, head: HeadId, plain: HeadId) -> Result<(), WriteError> {
        let mut data = Vec::new();
        self.format.put(&mut data, self.positions.head(plain));
        self.record(&plain_head_key(head.0.to_le_bytes()), &data)
    }

    /// Writes the record for a path on `host`, or on the default site if `host` is `None`.
    ///
    /// The host `*.example.com` matches all subdomains. Callers MUST NOT use the same host and key twice.
    ///
    /// # Errors
    /// Returns [`WriteError`] if a part of the record is too long, there is no room, or the file cannot be written.
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

    /// Writes a directory's scope. The directory's key must end with `/`.
    ///
    /// This must not be called twice for the same host and directory.
    ///
    /// # Errors
    /// Returns [`WriteError`] if a part of the scope is too long, there is no room, or the file cannot be written.
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

    /// Writes a record for a source file that is not served under its own name, e.g. `_redirects`.
    ///
    /// # Errors
    /// Returns [`WriteError`] if there is no room or the file cannot be written.
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
    /// Returns [`WriteError`] if there is no room or the file cannot be written.
    pub fn manifest(&mut self, json: &[u8]) -> Result<(), WriteError> {
        self.record(name::MANIFEST, json)
    }

    /// Starts over in the 64-bit format. `file` must be empty, and open for both reading and writing.
    ///
    /// This is only possible while there are just bodies, since other records contain positions.
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
        // Each body must be written again because positions change. Keys have the digests.
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

    /// Checks that there is room for `records` more records with a total of `bytes` bytes, and for their hash table slots.
    ///
    /// You should call this before writing the first record that contains a position because it would be too late for
    /// [`Writer::widen`] afterwards.
    ///
    /// # Errors
    /// Returns [`WriteError::Full`] if they do not fit the 32-bit format. Nothing is written in either case.
    pub fn require(&self, bytes: u64, records: u64) -> Result<(), WriteError> {
        let length = self.length_with(bytes, records);
        let fits = length.is_some_and(|length| length <= self.format.position_max());
        if fits { Ok(()) } else { Err(WriteError::Full) }
    }

    /// Returns the length that the archive would have with `records` more records of `bytes` bytes in total, including the hash
    /// tables, or `None` if it does not fit 64 bits.
    #[must_use]
    pub fn length_with(&self, bytes: u64, records: u64) -> Option<u64> {
        let tables = index::tables_bytes(self.format, records.saturating_add(self.slots.len() as u64));
        self.position.checked_add(bytes)?.checked_add(tables)
    }

    /// Writes the hash tables, the header and the facts. The returned file was flushed but not synced.
    ///
    /// # Errors
    /// Returns [`WriteError`] if there is no room, too many keys collide, or the file cannot be written.
    pub fn finish(mut self) -> Result<(File, WriteReport), WriteError> {
        self.require(0, 0)?;
        let format = self.format;
        let slots = std::mem::take(&mut self.slots);
        let tables_at = self.position;
        let header = index::build(format, slots, tables_at, |table| self.append(table))?;

        self.flush()?;

        // The digest covers everything else first, and then the start of the file with zeros in place of the digest.
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

    fn add_host(&mut self, host: Option<&str>) {
        self.facts.hosts |= host.is_some();
        if let Some(name) = host.and_then(|host| host.strip_prefix("*.")) {
            self.facts.wildcard_hosts = true;
            // A valid host name has at most 127 labels, and the server will never look up a longer one.
            let labels = u16::try_from(name.split('.').count()).unwrap_or(u16::MAX);
            self.facts.wildcard_labels_max = self.facts.wildcard_labels_max.max(labels);
        }
    }

    fn record(&mut self, key: &[u8], data: &[u8]) -> Result<(), WriteError> {
        self.start_record(key, data.len() as u64)?;
        self.append(data)
    }

    /// Writes padding if the next body must be page-aligned. `length` is the body's length in bytes.
    ///
    /// # Errors
    /// Returns [`WriteError::Full`] if there is not room for both. Nothing is written in this case.
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

    /// Writes a record's lengths and key and adds its slot.
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
        // Split it to ensure that only a few chunks are in memory at a time.
        for chunk in bytes.chunks(BUFFER_BYTES) {
            if self.buffer.len() + chunk.len() > BUFFER_BYTES {
                self.flush()?;
            }
            self.buffer.extend_from_slice(chunk);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let next = Vec::with_capacity(BUFFER_BYTES);
        Ok(self.output.put(Chunk::Bytes(std::mem::replace(&mut self.buffer, next)))?)
    }

    /// Moves `length` bytes from `content` to the buffer.
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

fn bounded(length: u64, max: usize) -> usize {
    usize::try_from(length).map_or(max, |length| length.min(max))
}

/// Returns a stored key: `//` and the host (if any), the path, and `suffix` (`/` for a scope).
fn full_key(host: Option<&str>, path: &[u8], suffix: &[u8]) -> Vec<u8> {
    let (slashes, host) = host.map_or((b"".as_slice(), ""), |host| (b"//", host));
    [slashes, host.to_ascii_lowercase().as_bytes(), path, suffix].concat()
}
