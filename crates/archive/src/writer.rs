//! Streams an archive into a file: facts, bodies, heads, paths, then the tables, then the header. Large bodies have
//! padding before them.
//!
//! Same calls, same bytes. Never reads a clock, never holds a body in memory; what it remembers is
//! sixteen bytes for each record. The file is worthless until [`Writer::finish`] has returned; giving it
//! its final name afterwards is the caller's work.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use crate::checksum::Digest;
use crate::error::WriteError;
use crate::index::{self, Slot};
use crate::key::Key;
use crate::layout::facts::{DIGEST_AT, FACTS_BYTES, Facts};
use crate::layout::format::Format;
use crate::layout::hash::Hash;
use crate::layout::head::NewHead;
use crate::layout::padding::{self, zeros_before_body};
use crate::layout::record::{BodyId, Extent, HeadId, NewRecord, Places};
use crate::layout::scope::NewScope;
use crate::layout::{BODY_KEY_BYTES, body_key, head_key, name, padding_key, plain_head_key};

const BUFFER_BYTES: usize = 1 << 20;

/// An archive that is being written.
pub struct Writer {
    file: BufWriter<File>,
    format: Format,
    /// Where the next byte goes.
    position: u64,
    slots: Vec<Slot>,
    /// Of everything behind the facts, in the order of the file.
    hasher: blake3::Hasher,
    places: Placed,
    padding: Padding,
    facts: Facts,
}

/// Where bodies and heads were put, in the order of their numbers.
#[derive(Default)]
struct Placed {
    bodies: Vec<Extent>,
    heads: Vec<u64>,
}

impl Places for Placed {
    fn body(&self, id: BodyId) -> Extent {
        self.bodies[id.0 as usize]
    }

    fn head(&self, id: HeadId) -> u64 {
        self.heads[id.0 as usize]
    }
}

/// What was put before large bodies.
#[derive(Default)]
struct Padding {
    records: u32,
    bytes: u64,
}

/// What was written: for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteReport {
    /// The container's width.
    pub format: Format,
    /// What the archive says of itself, its length and digest included.
    pub facts: Facts,
    /// Bytes of the records that were put before large bodies, so that those begin with a page.
    pub padding_bytes: u64,
}

impl Writer {
    /// Begins an archive in `file`, which is empty and open for reading and writing.
    pub fn new(file: File, format: Format) -> Result<Writer, WriteError> {
        let facts = Facts {
            slash_redirects: false,
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
        let mut writer = Writer {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            format,
            position: format.header_bytes(),
            slots: Vec::new(),
            hasher: blake3::Hasher::new(),
            places: Placed::default(),
            padding: Padding::default(),
            facts,
        };
        writer.file.seek(SeekFrom::Start(writer.position))?;
        writer.record(name::FACTS, &[0; FACTS_BYTES])?;
        // The facts are written last, when they are known: nothing of them belongs into the digest yet.
        writer.hasher = blake3::Hasher::new();
        Ok(writer)
    }

    /// Says which release of the site this is.
    pub fn set_serial(&mut self, serial: u64) {
        self.facts.serial = serial;
    }

    /// The container's width.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Writes a body of `length` bytes from `content`, a large one behind padding. Each digest at most once.
    ///
    /// Fails with [`WriteError::Full`], and changes nothing, if the 32-bit form has no room for it.
    pub fn body(
        &mut self,
        digest: &Digest,
        length: u64,
        content: &mut dyn Read,
    ) -> Result<BodyId, WriteError> {
        self.pad_before_body(length)?;
        self.begin_record(&body_key(digest), length)?;
        let position = self.position;
        self.copy(content, length)?;
        let id = BodyId(u32::try_from(self.places.bodies.len()).map_err(|_| WriteError::Full)?);
        self.places.bodies.push(Extent { position, length });
        self.facts.bodies += 1;
        self.facts.body_bytes += length;
        Ok(id)
    }

    /// How long a body is.
    #[must_use]
    pub fn body_length(&self, id: BodyId) -> u64 {
        self.places.body(id).length
    }

    /// Writes a head. Each head at most once.
    pub fn head(&mut self, head: &NewHead) -> Result<HeadId, WriteError> {
        let ordinal = u32::try_from(self.places.heads.len()).map_err(|_| WriteError::Full)?;
        self.places.heads.push(self.position);
        self.record(&head_key(ordinal), &head.encode()?)?;
        Ok(HeadId(ordinal))
    }

    /// Says that a head was made from another one by adding the fields of `_headers`. Each head at most once.
    pub fn plain_head(&mut self, head: HeadId, plain: HeadId) -> Result<(), WriteError> {
        let mut data = Vec::new();
        self.format.put(&mut data, self.places.head(plain));
        self.record(&plain_head_key(head.0.to_le_bytes()), &data)
    }

    /// Writes the record of a path. Each key at most once. A host `*.example.com` stands for all hosts below.
    pub fn path(
        &mut self,
        host: Option<&str>,
        key: Key<'_>,
        record: &NewRecord<'_>,
    ) -> Result<(), WriteError> {
        let mut data = Vec::with_capacity(128);
        record.encode(&mut data, self.format, &self.places)?;
        self.facts.paths += 1;
        // A key is no longer than 8 KiB.
        let bytes = u16::try_from(key.bytes().len()).unwrap_or(u16::MAX);
        self.facts.path_bytes_max = self.facts.path_bytes_max.max(bytes);
        self.note_host(host);
        self.record(&full_key(host, key.bytes(), b""), &data)
    }

    /// Writes what holds below a folder, whose key ends with `/`. Each folder at most once.
    pub fn scope(
        &mut self,
        host: Option<&str>,
        folder: Key<'_>,
        scope: &NewScope<'_>,
    ) -> Result<(), WriteError> {
        debug_assert!(folder.is_directory());
        let depth = folder.bytes().iter().filter(|byte| **byte == b'/').count() - 1;
        self.facts.scope_depth_max = self.facts.scope_depth_max.max(u16::try_from(depth).unwrap_or(u16::MAX));
        self.facts.forced_rules |= scope.rules.iter().any(|rule| rule.force);
        self.facts.header_rules |= !scope.header_rules.is_empty();
        let is_for_host = scope.header_rules.iter().any(|rule| !rule.host.is_empty());
        self.facts.host_header_rules |= is_for_host;
        self.facts.hosts |= is_for_host;
        self.note_host(host);
        let data = scope.encode(self.format, &self.places)?;
        self.record(&full_key(host, folder.bytes(), b"/"), &data)
    }

    /// Writes where the bytes of a source file lie that is not served under its own name.
    pub fn source(&mut self, path: &[u8], body: BodyId) -> Result<(), WriteError> {
        let mut data = Vec::new();
        let extent = self.places.body(body);
        self.format.put(&mut data, extent.position);
        self.format.put(&mut data, extent.length);
        self.record(&[&[name::SOURCE], path].concat(), &data)
    }

    /// Writes the manifest.
    pub fn manifest(&mut self, json: &[u8]) -> Result<(), WriteError> {
        self.record(name::MANIFEST, json)
    }

    /// Goes on in the 64-bit form, in `file`, which is empty and open for reading and writing.
    ///
    /// Only while nothing but bodies has been written: no record then knows a position.
    pub fn widen(self, file: File) -> Result<Writer, WriteError> {
        debug_assert!(self.format == Format::Cdb && self.places.heads.is_empty());
        let mut wide = Writer::new(file, Format::Cdb64)?;
        let narrow_key_at = |body: &Extent| body.position - BODY_KEY_BYTES as u64;
        let mut source = BufReader::with_capacity(
            BUFFER_BYTES,
            self.file.into_inner().map_err(std::io::IntoInnerError::into_error)?,
        );
        for body in &self.places.bodies {
            source.seek(SeekFrom::Start(narrow_key_at(body)))?;
            let mut key = [0; BODY_KEY_BYTES];
            source.read_exact(&mut key)?;
            let mut digest = Digest([0; Digest::BYTES]);
            digest.0.copy_from_slice(&key[1..]);
            wide.body(&digest, body.length, &mut source)?;
        }
        Ok(wide)
    }

    /// Makes sure that so many bytes of so many records more will fit, with their tables: what the
    /// caller asks before it writes the first record that knows a position.
    ///
    /// Fails with [`WriteError::Full`], and changes nothing, if the 32-bit form has no room for them.
    pub fn require(&self, bytes: u64, records: u64) -> Result<(), WriteError> {
        let tables = index::tables_bytes(self.format, records.saturating_add(self.slots.len() as u64));
        let end = self.position.checked_add(bytes).and_then(|end| end.checked_add(tables));
        if end.is_some_and(|end| end <= self.format.position_max()) { Ok(()) } else { Err(WriteError::Full) }
    }

    /// Writes the tables, the header and the facts, and gives the file back, flushed but not synced.
    pub fn finish(mut self, slash_redirects: bool) -> Result<(File, WriteReport), WriteError> {
        self.require(0, 0)?;
        let slots = std::mem::take(&mut self.slots);
        let (format, tables_at) = (self.format, self.position);
        let header = index::build(format, slots, tables_at, |table| self.append(table))?;

        self.facts.slash_redirects = slash_redirects;
        self.facts.file_bytes = self.position;
        let mut head = header;
        format.put(&mut head, name::FACTS.len() as u64);
        format.put(&mut head, FACTS_BYTES as u64);
        head.extend_from_slice(name::FACTS);
        head.extend_from_slice(&self.facts.encode());
        self.hasher.update(&head);
        self.facts.digest = Digest(*self.hasher.finalize().as_bytes());
        let digest_at = head.len() - FACTS_BYTES + DIGEST_AT;
        head[digest_at..].copy_from_slice(&self.facts.digest.0);

        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&head)?;
        let file = self.file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        Ok((file, WriteReport { format, facts: self.facts, padding_bytes: self.padding.bytes }))
    }

    fn note_host(&mut self, host: Option<&str>) {
        self.facts.hosts |= host.is_some();
        if let Some(name) = host.and_then(|host| host.strip_prefix("*.")) {
            self.facts.wildcard_hosts = true;
            let labels = u16::try_from(name.split('.').count()).unwrap_or(u16::MAX);
            self.facts.wildcard_labels_max = self.facts.wildcard_labels_max.max(labels);
        }
    }

    fn record(&mut self, key: &[u8], data: &[u8]) -> Result<(), WriteError> {
        self.begin_record(key, data.len() as u64)?;
        self.append(data)
    }

    /// Writes padding before a body of `length` bytes, if it shall begin with a page and would not.
    ///
    /// Fails with [`WriteError::Full`], and changes nothing, if there is no room for both.
    fn pad_before_body(&mut self, length: u64) -> Result<(), WriteError> {
        let Some(zeros) = zeros_before_body(self.format, self.position, length) else { return Ok(()) };
        let padding_bytes = padding::padding_bytes(self.format, zeros);
        let body_bytes = length.saturating_add(self.format.record_header_bytes() + BODY_KEY_BYTES as u64);
        self.require(body_bytes.saturating_add(padding_bytes), 2)?;
        let ordinal = self.padding.records;
        self.padding.records = ordinal.checked_add(1).ok_or(WriteError::Full)?;
        self.padding.bytes += padding_bytes;
        self.begin_record(&padding_key(ordinal), zeros)?;
        self.copy(&mut std::io::repeat(0), zeros)
    }

    /// Writes all of a record that stands before its data, and remembers its slot.
    fn begin_record(&mut self, key: &[u8], data_bytes: u64) -> Result<(), WriteError> {
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
        self.hasher.update(bytes);
        self.file.write_all(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn copy(&mut self, content: &mut dyn Read, length: u64) -> Result<(), WriteError> {
        let mut left = length;
        let mut chunk = vec![0; BUFFER_BYTES.min(usize::try_from(length).unwrap_or(BUFFER_BYTES))];
        while left > 0 {
            let room = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            content.read_exact(&mut chunk[..room])?;
            self.append(&chunk[..room])?;
            left -= room as u64;
        }
        Ok(())
    }
}

/// A stored key: `//host` if there is one, the path, and a scope's second slash.
fn full_key(host: Option<&str>, path: &[u8], suffix: &[u8]) -> Vec<u8> {
    let (slashes, host) = host.map_or((b"".as_slice(), ""), |host| (b"//", host));
    [slashes, host.to_ascii_lowercase().as_bytes(), path, suffix].concat()
}
