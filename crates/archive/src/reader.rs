//! Reads archives. Opening takes constant time, and finding a record takes two memory accesses.
//!
//! We do not trust any number in the file. Instead, we check each of them when we use it, and report contradictions as [`Corrupt`].
//! Bodies are never copied, and an open archive never allocates.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use crate::checksum::Digest;
use crate::error::{Corrupt, OpenError};
use crate::index;
use crate::key::Key;
use crate::layout::entry::{Entry, slice};
use crate::layout::facts::{FACTS_BYTES, Facts, FactsError};
use crate::layout::format::{Format, TABLES};
use crate::layout::hash::Hash;
use crate::layout::head::Head;
use crate::layout::record::{Extent, Record};
use crate::layout::scope::Scope;
use crate::layout::{Fields, body_key, name, plain_head_key};
use crate::lease::Lease;
use crate::map::{Bytes, BytesOwner, Loading};
use crate::program;

/// An open archive.
pub struct Archive {
    bytes: Bytes,
    format: Format,
    facts: Facts,
}

/// Something that contains an archive whose bytes are shared.
struct Shared<T>(Arc<T>);

impl<T: AsRef<Archive> + Send + Sync> BytesOwner for Shared<T> {
    fn bytes(&self) -> &Bytes {
        &(*self.0).as_ref().bytes
    }
}

impl Archive {
    /// Opens the archive at `path` in constant time (unless `loading` reads it into memory).
    ///
    /// The file can also be a program with an archive appended to it.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the file cannot be read or is not an archive of this version.
    pub fn open(path: &Path, loading: Loading) -> Result<Archive, OpenError> {
        let (file, part) = open_file(path)?;
        Archive::load(&file, &part, loading)
    }

    /// Opens the archive at `path` and takes a lease on the file to prevent changes while we map it.
    ///
    /// The lease is `None` if the file is read into memory, or if the system refuses to give us one.
    ///
    /// # Errors
    /// Same as [`Archive::open`].
    pub fn open_leased(path: &Path, loading: Loading) -> Result<(Archive, Option<Lease>), OpenError> {
        let (file, part) = open_file(path)?;
        let loading = loading.resolve(part.end - part.start);
        // Take the lease first, so that the file can't change in between.
        let lease = if loading == Loading::InMemory { None } else { Lease::take(&file)? };
        Ok((Archive::load(&file, &part, loading)?, lease))
    }

    /// Opens the archive in an open file, e.g. one without a name.
    ///
    /// While the file is mapped, no process may change it. You may want to seal it (`F_SEAL_WRITE`).
    ///
    /// # Errors
    /// Returns [`OpenError`] if the file cannot be read or is not an archive of this version.
    pub fn from_file(file: &File, loading: Loading) -> Result<Archive, OpenError> {
        check_file(&file.metadata()?)?;
        Archive::load(file, &program::locate(file)?, loading)
    }

    fn load(file: &File, part: &Range<u64>, loading: Loading) -> Result<Archive, OpenError> {
        Archive::from_loaded(Bytes::load(file, part, loading)?)
    }

    /// Opens an archive from bytes in memory.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the bytes are not an archive of this version.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Archive, OpenError> {
        check_length(bytes.len() as u64)?;
        Archive::from_loaded(Bytes::owned(bytes))
    }

    /// Opens an archive that is part of the program, without copying it.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the bytes are not an archive of this version.
    pub fn from_static(bytes: &'static [u8]) -> Result<Archive, OpenError> {
        check_length(bytes.len() as u64)?;
        Archive::from_loaded(Bytes::from_static(bytes))
    }

    /// Returns an archive that shares the bytes of the one that `owner` contains.
    #[must_use]
    pub fn sharing<T: AsRef<Archive> + Send + Sync + 'static>(owner: Arc<T>) -> Archive {
        let Archive { format, facts, .. } = *(*owner).as_ref();
        Archive { bytes: Bytes::shared(Box::new(Shared(owner))), format, facts }
    }

    fn from_loaded(bytes: Bytes) -> Result<Archive, OpenError> {
        let file = bytes.as_slice();
        let (format, entry) = first_record(file).ok_or_else(|| {
            if is_cut(file) { OpenError::Cut { got: file.len() as u64 } } else { OpenError::Foreign }
        })?;
        let facts = Facts::decode(entry.data, entry.data_position).map_err(|error| match error {
            FactsError::Foreign => OpenError::Foreign,
            FactsError::Version(got) => OpenError::Version { expected: crate::SCHEMA_VERSION, got },
            FactsError::Corrupt(corrupt) => corrupt.into(),
        })?;

        let got = file.len() as u64;
        if got != facts.file_bytes {
            return Err(OpenError::Length { expected: facts.file_bytes, got });
        }
        Ok(Archive { bytes, format, facts })
    }

    /// Returns `true` if the bytes are in private memory. Otherwise they are in a mapped file that other processes could change.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.bytes.is_private()
    }

    /// Returns `true` if the bytes are in a mapped file that has a name, so that other programs could open it and change it. Temporary
    /// files without a name are not found by others.
    #[must_use]
    pub fn may_change(&self) -> bool {
        self.bytes.may_change()
    }

    /// Returns `true` if ranges of the archive may be sent zero-copy: nothing can change the bytes, and the kernel may still read
    /// them after the archive was dropped.
    #[must_use]
    pub fn may_be_sent_zero_copy(&self) -> bool {
        self.bytes.may_be_sent_zero_copy()
    }

    pub(crate) fn facts_position(&self) -> usize {
        let key_position = self.format.header_bytes() + self.format.record_header_bytes();
        usize::try_from(key_position).expect("headers have a few thousand bytes") + name::FACTS.len()
    }

    /// Replaces a mapped file with a private copy at the same addresses, after which the file may change.
    ///
    /// You should call this when a [`Lease`] is being broken, before you drop the lease. Borrowed bytes will stay valid.
    ///
    /// # Errors
    /// Returns the system's error if there is not enough memory for the copy. The archive remains usable, but still depends on the
    /// file.
    pub fn detach(&self) -> std::io::Result<()> {
        self.bytes.detach()
    }

    /// Returns how wide the container is.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the facts, which describe the archive as a whole.
    #[must_use]
    #[inline]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the whole file as bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Reads a range of the file from the disk. If that fails, accessing it would end the process.
    pub(crate) fn read_ahead(&self, range: Range<usize>) -> std::io::Result<()> {
        self.bytes.read_ahead(range)
    }

    /// Finds the record for a path on `host`, or on the default site if `host` is `None`.
    ///
    /// `host` is case-insensitive. You can find records written for `*.example.com` by passing `.example.com`.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the lookup finds a contradiction in the file.
    // Inlined because this is on the request path and the record should stay in registers when the caller destructures it.
    #[inline(always)]
    pub fn path(&self, host: Option<&[u8]>, key: Key<'_>) -> Result<Option<Record<'_>>, Corrupt> {
        // When it is longer than any path in the archive, we do not need to hash it.
        if key.bytes().len() > usize::from(self.facts.path_bytes_max) {
            return Ok(None);
        }
        let hash = prefix_hash(host).extend(key.bytes());
        let matches = |found: &[u8]| strip_host(found, host) == Some(key.bytes());
        let Some(entry) = index::find(self.bytes(), self.format, hash, matches)? else { return Ok(None) };
        Record::decode(entry.data, self.format, entry.data_position).map(Some)
    }

    /// Finds the record for `key` with a `/` appended.
    ///
    /// Returns `None` if `key` already ends with `/`, because two slashes would mean a scope.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the lookup finds a contradiction in the file.
    pub fn directory(&self, host: Option<&[u8]>, key: Key<'_>) -> Result<Option<Record<'_>>, Corrupt> {
        if key.is_directory() || key.bytes().len() >= usize::from(self.facts.path_bytes_max) {
            return Ok(None);
        }
        let hash = prefix_hash(host).extend(key.bytes()).push(b'/');
        let matches = |found: &[u8]| {
            strip_host(found, host).and_then(|path| path.strip_suffix(b"/")) == Some(key.bytes())
        };
        let found = index::find(self.bytes(), self.format, hash, matches)?;
        found.map(|entry| Record::decode(entry.data, self.format, entry.data_position)).transpose()
    }

    /// Finds the scope at a site's root.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the lookup finds a contradiction in the file.
    pub fn root<'a>(&'a self, host: Option<&'a [u8]>) -> Result<Option<Scope<'a>>, Corrupt> {
        let Some(root) = self.scopes(host, Key::ROOT).next() else { return Ok(None) };
        let (_, scope) = root?;
        Ok(Some(scope))
    }

    /// Returns the scopes that a path is in, from the root down, with the number of key bytes that each scope covers.
    ///
    /// This takes a single pass over the key with one lookup per directory, down to the depth of the deepest scope.
    pub fn scopes<'a>(&'a self, host: Option<&'a [u8]>, key: Key<'a>) -> Scopes<'a> {
        Scopes { archive: self, host, key, at: 0, hash: prefix_hash(host), depth: 0 }
    }

    /// Reads the head at `position`, as given by a representation.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if there is not a head at `position`.
    // On the request path: see `Archive::path`.
    #[inline(always)]
    pub fn head(&self, position: u64) -> Result<Head<'_>, Corrupt> {
        let entry = Entry::at(self.bytes(), self.format, position)?;
        if entry.key.first() != Some(&name::HEAD) {
            return Err(Corrupt { what: "a reference to a head", offset: position });
        }
        Head::decode(entry.data, entry.data_position)
    }

    /// Returns the head at `position`, but without fields that `_headers` has added.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if there is not a head at `position`.
    pub fn plain_head(&self, position: u64) -> Result<Head<'_>, Corrupt> {
        let corrupt = Corrupt { what: "a reference to a head", offset: position };
        let entry = Entry::at(self.bytes(), self.format, position)?;
        let [name::HEAD, ordinal @ ..] = entry.key else { return Err(corrupt) };
        let ordinal = ordinal.try_into().map_err(|_| corrupt)?;
        match self.entry(&plain_head_key(ordinal))? {
            Some(plain) => self.head(self.decode_plain_head(&plain)?),
            None => Head::decode(entry.data, entry.data_position),
        }
    }

    /// Decodes a plain head record, which contains the position of a head.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the record is too short.
    pub fn decode_plain_head(&self, entry: &Entry<'_>) -> Result<u64, Corrupt> {
        let corrupt = Corrupt { what: "a reference to a plain head", offset: entry.data_position };
        Fields::new(entry.data, self.format, entry.data_position, corrupt.what).quantity()
    }

    /// Returns the bytes of a body, or of a part of it.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the extent is not inside the file.
    #[inline]
    pub fn body(&self, extent: Extent) -> Result<&[u8], Corrupt> {
        slice(self.bytes(), extent).ok_or(Corrupt { what: "a reference to a body", offset: extent.position })
    }

    /// Finds the body with this digest.
    ///
    /// This does *not* check the bytes against the digest. On the request path, you should use the extent instead.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the lookup finds a contradiction in the file.
    pub fn find_body(&self, digest: &Digest) -> Result<Option<&[u8]>, Corrupt> {
        Ok(self.entry(&body_key(digest))?.map(|entry| entry.data))
    }

    /// Finds a record of any kind by its key.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the lookup finds a contradiction in the file.
    pub fn entry(&self, key: &[u8]) -> Result<Option<Entry<'_>>, Corrupt> {
        index::find(self.bytes(), self.format, Hash::of(key), |found| found == key)
    }

    /// Returns the manifest, a JSON document for people and tools.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the lookup finds a contradiction in the file.
    pub fn manifest(&self) -> Result<Option<&[u8]>, Corrupt> {
        Ok(self.entry(name::MANIFEST)?.map(|entry| entry.data))
    }

    /// Decodes a path record from [`Archive::entries`].
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the record is malformed.
    pub fn decode_path<'a>(&'a self, entry: &Entry<'a>) -> Result<Record<'a>, Corrupt> {
        Record::decode(entry.data, self.format, entry.data_position)
    }

    /// Decodes a scope record from [`Archive::entries`].
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the record is malformed.
    pub fn decode_scope<'a>(&'a self, entry: &Entry<'a>) -> Result<Scope<'a>, Corrupt> {
        Scope::decode(entry.data, self.format, entry.data_position)
    }

    /// Decodes a source record from [`Archive::entries`] and returns the extent of the file's bytes.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the record is too short.
    pub fn decode_source(&self, entry: &Entry<'_>) -> Result<Extent, Corrupt> {
        let corrupt = Corrupt { what: "a source record", offset: entry.data_position };
        let (position, length) = self.format.pair(entry.data, 0).ok_or(corrupt)?;
        Ok(Extent { position, length })
    }

    /// Returns all records in file order. Not for the request path.
    #[must_use]
    pub fn entries(&self) -> Entries<'_> {
        Entries { archive: self, position: self.format.header_bytes(), end: self.records_end() }
    }

    /// Returns where the records end and the hash tables start.
    fn records_end(&self) -> u64 {
        let tables = (0..TABLES as u64).map(|table| table * 2 * self.format.quantity_bytes());
        let starts = tables.filter_map(|at| self.format.pair(self.bytes(), at)).map(|(start, _)| start);
        starts.min().unwrap_or(0)
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive").field("format", &self.format).field("facts", &self.facts).finish()
    }
}

/// Opens a regular file that is long enough for an archive and locates the archive in it.
fn open_file(path: &Path) -> Result<(File, Range<u64>), OpenError> {
    // If this is a FIFO, we must not block until its other end is open. For regular files, these flags do not matter.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    check_file(&file.metadata()?)?;
    let part = program::locate(&file)?;
    Ok((file, part))
}

/// Checks that this is a regular file, and that it is long enough.
fn check_file(metadata: &Metadata) -> Result<(), OpenError> {
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory).into());
    }
    if !kind.is_file() {
        return Err(OpenError::NotRegular { kind: file_type_name(kind) });
    }
    check_length(metadata.len())
}

/// Refuses anything that is shorter than an empty 32-bit archive.
fn check_length(got: u64) -> Result<(), OpenError> {
    let expected = Format::Cdb.header_bytes();
    if got < expected { Err(OpenError::TooShort { expected, got }) } else { Ok(()) }
}

fn file_type_name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_block_device() || kind.is_char_device() => "a device",
        kind if kind.is_socket() => "a socket",
        _ => "a special file",
    }
}

/// Finds the facts record. We need to try both widths because its position depends on the width.
fn first_record(file: &[u8]) -> Option<(Format, Entry<'_>)> {
    [Format::Cdb, Format::Cdb64].into_iter().find_map(|format| {
        let entry = Entry::at(file, format, format.header_bytes()).ok()?;
        (entry.key == name::FACTS && entry.data.len() == FACTS_BYTES).then_some((format, entry))
    })
}

/// Returns `true` if the file has the key of the facts record, but ends before the end of this record.
fn is_cut(file: &[u8]) -> bool {
    [Format::Cdb, Format::Cdb64].into_iter().any(|format| {
        let key = usize::try_from(format.header_bytes() + format.record_header_bytes());
        let after_headers = key.ok().and_then(|key| file.get(key..));
        let has_key = after_headers.is_some_and(|rest| rest.starts_with(name::FACTS));
        has_key && Entry::at(file, format, format.header_bytes()).is_err()
    })
}

/// Returns the hash of everything before the path in a stored key: `//` and the host in lower case, or nothing.
#[inline]
fn prefix_hash(host: Option<&[u8]>) -> Hash {
    host.map_or(Hash::EMPTY, |host| {
        let start = host_prefix(host);
        host.iter().fold(Hash::of(start), |hash, byte| hash.push(byte.to_ascii_lowercase()))
    })
}

/// Returns what precedes `host` in a stored key. A host that starts with `.` is stored as a wildcard.
#[inline]
fn host_prefix(host: &[u8]) -> &'static [u8] {
    if host.starts_with(b".") { b"//*" } else { b"//" }
}

/// Returns the path in a stored key. This is `None` if the key is for another host.
#[inline]
fn strip_host<'k>(stored: &'k [u8], host: Option<&[u8]>) -> Option<&'k [u8]> {
    let Some(host) = host else { return Some(stored) };
    let (prefix, path) = stored.strip_prefix(host_prefix(host))?.split_at_checked(host.len())?;
    prefix.eq_ignore_ascii_case(host).then_some(path)
}

/// Iterator over scopes: see [`Archive::scopes`].
pub struct Scopes<'a> {
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    /// Number of bytes of the key that `hash` covers.
    at: usize,
    hash: Hash,
    /// Number of directories looked up so far.
    depth: u16,
}

impl<'a> Iterator for Scopes<'a> {
    type Item = Result<(usize, Scope<'a>), Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.depth <= self.archive.facts.scope_depth_max {
            let rest = &self.key.bytes()[self.at..];
            let segment = rest.iter().position(|byte| *byte == b'/')? + 1;
            self.hash = self.hash.extend(&rest[..segment]);
            self.at += segment;
            self.depth += 1;
            match self.find_scope() {
                Ok(None) => {}
                Ok(Some(scope)) => return Some(Ok((self.at, scope))),
                Err(corrupt) => return Some(Err(corrupt)),
            }
        }
        None
    }
}

impl<'a> Scopes<'a> {
    /// Finds the scope of the last directory we hashed. Note that the scope's key has one more `/` than the directory's.
    fn find_scope(&self) -> Result<Option<Scope<'a>>, Corrupt> {
        let archive = self.archive;
        let directory = &self.key.bytes()[..self.at];
        let matches = |found: &[u8]| {
            strip_host(found, self.host).and_then(|path| path.strip_suffix(b"/")) == Some(directory)
        };
        let found = index::find(archive.bytes(), archive.format, self.hash.push(b'/'), matches)?;
        found.map(|entry| Scope::decode(entry.data, archive.format, entry.data_position)).transpose()
    }
}

/// Iterator over records: see [`Archive::entries`].
pub struct Entries<'a> {
    archive: &'a Archive,
    position: u64,
    end: u64,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.end {
            return None;
        }
        let entry = Entry::at(self.archive.bytes(), self.archive.format, self.position);
        self.position = entry.as_ref().map_or(self.end, Entry::end);
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
