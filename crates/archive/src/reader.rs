//! An open archive: constant time to open, two touches of memory to find a record.
//!
//! No number from the file is trusted: each is checked where it is used, and what does not fit is
//! [`Corrupt`]. Never copies a body, never allocates after opening.

use std::fs::{File, FileType, OpenOptions};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

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
use crate::layout::{Fields, name, plain_head_key};
use crate::lease::Lease;
use crate::map::{Bytes, Loading};

/// An open archive.
pub struct Archive {
    bytes: Bytes,
    format: Format,
    facts: Facts,
}

impl Archive {
    /// Opens the archive at `path`. Takes constant time, however large it is, unless it is to be read
    /// into memory.
    pub fn open(path: &Path, loading: Loading) -> Result<Archive, OpenError> {
        Archive::load(&mut open_file(path)?, loading)
    }

    /// The same, with a lease on the file if one can be had: then nobody changes it under its readers.
    pub fn open_leased(path: &Path, loading: Loading) -> Result<(Archive, Option<Lease>), OpenError> {
        let mut file = open_file(path)?;
        // Before the map: what is mapped is what the lease keeps.
        let loading = loading.of(&file)?;
        let lease = if loading == Loading::InMemory { None } else { Lease::take(&file)? };
        Ok((Archive::load(&mut file, loading)?, lease))
    }

    fn load(file: &mut File, loading: Loading) -> Result<Archive, OpenError> {
        Archive::from_loaded(Bytes::load(file, loading)?)
    }

    /// Opens an archive that is in memory already.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Archive, OpenError> {
        let expected = Format::Cdb.header_bytes();
        if (bytes.len() as u64) < expected {
            return Err(OpenError::TooShort { expected, got: bytes.len() as u64 });
        }
        Archive::from_loaded(Bytes::Owned(bytes))
    }

    fn from_loaded(bytes: Bytes) -> Result<Archive, OpenError> {
        let file = bytes.as_slice();
        let (format, entry) = first_record(file).ok_or(OpenError::Foreign)?;
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

    /// Whether the bytes are memory of our own, which nobody else can change, and not a file's that is mapped.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.bytes.are_ours()
    }

    /// Where the data of the facts stands in the file.
    pub(crate) fn facts_position(&self) -> usize {
        let before = self.format.header_bytes() + self.format.record_header_bytes();
        usize::try_from(before).unwrap_or(usize::MAX).saturating_add(name::FACTS.len())
    }

    /// Copies the bytes into memory of our own, in the place where they are: for when a [`Lease`] is called,
    /// before it is dropped. Readers notice nothing. Fails where there is no memory for the copy; then nothing
    /// has changed.
    pub fn detach(&self) -> std::io::Result<()> {
        self.bytes.detach()
    }

    /// The container's width.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// What holds for the archive as a whole.
    #[must_use]
    #[inline]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The whole file.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// The record of a path: on `host` if one is given, in any letter case, else of the default site. A host
    /// that begins with `.` stands for all below: `.example.com` finds what was written for `*.example.com`.
    // A step of every request: what it finds need not be written to memory where the caller takes it apart.
    #[inline(always)]
    pub fn path(&self, host: Option<&[u8]>, key: Key<'_>) -> Result<Option<Record<'_>>, Corrupt> {
        // What is longer than all that there is need not be hashed.
        if key.bytes().len() > usize::from(self.facts.path_bytes_max) {
            return Ok(None);
        }
        let hash = prefix_hash(host).extend(key.bytes());
        let matches = |found: &[u8]| strip_host(found, host) == Some(key.bytes());
        let Some(entry) = index::find(self.bytes(), self.format, hash, matches)? else { return Ok(None) };
        Record::decode(entry.data, self.format, entry.data_position).map(Some)
    }

    /// The record of the folder of this name: of the path with a `/` added to its end. Nothing for a path
    /// that ends with one already: two of them mark a scope.
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

    /// Returns what holds below the root of a site.
    pub fn root<'a>(&'a self, host: Option<&'a [u8]>) -> Result<Option<Scope<'a>>, Corrupt> {
        self.scopes(host, Key::ROOT).next().transpose().map(|scope| scope.map(|(_, scope)| scope))
    }

    /// The scopes that a path lies in, from the root down, and how many bytes of the key each covers.
    ///
    /// Takes one pass over the key and a lookup for each folder, no deeper than the deepest scope.
    pub fn scopes<'a>(&'a self, host: Option<&'a [u8]>, key: Key<'a>) -> Scopes<'a> {
        Scopes { archive: self, host, key, at: 0, hash: prefix_hash(host), depth: 0 }
    }

    /// The head at a place that a representation names.
    // A step of every request: see `Archive::path`.
    #[inline(always)]
    pub fn head(&self, position: u64) -> Result<Head<'_>, Corrupt> {
        let entry = Entry::at(self.bytes(), self.format, position)?;
        if entry.key.first() != Some(&name::HEAD) {
            return Err(Corrupt { what: "a reference to a head", offset: position });
        }
        Head::decode(entry.data, entry.data_position)
    }

    /// The head without the fields of `_headers`, of the head at this place: the same if `_headers` says nothing of it.
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

    /// Decodes the data of the record of a plain head: where the head is.
    pub fn decode_plain_head(&self, entry: &Entry<'_>) -> Result<u64, Corrupt> {
        let corrupt = Corrupt { what: "a reference to a plain head", offset: entry.data_position };
        Fields::new(entry.data, self.format, entry.data_position, corrupt.what).quantity()
    }

    /// The bytes of a body, or of a part of one.
    #[inline]
    pub fn body(&self, extent: Extent) -> Result<&[u8], Corrupt> {
        slice(self.bytes(), extent).ok_or(Corrupt { what: "a reference to a body", offset: extent.position })
    }

    /// The record under exactly this key, whatever it is.
    pub fn entry(&self, key: &[u8]) -> Result<Option<Entry<'_>>, Corrupt> {
        index::find(self.bytes(), self.format, Hash::of(key), |found| found == key)
    }

    /// The manifest: JSON for people and tools.
    pub fn manifest(&self) -> Result<Option<&[u8]>, Corrupt> {
        Ok(self.entry(name::MANIFEST)?.map(|entry| entry.data))
    }

    /// Decodes the data of a path's record that [`Archive::entries`] gave.
    pub fn decode_path<'a>(&'a self, entry: &Entry<'a>) -> Result<Record<'a>, Corrupt> {
        Record::decode(entry.data, self.format, entry.data_position)
    }

    /// Decodes the data of a scope's record that [`Archive::entries`] gave.
    pub fn decode_scope<'a>(&'a self, entry: &Entry<'a>) -> Result<Scope<'a>, Corrupt> {
        Scope::decode(entry.data, self.format, entry.data_position)
    }

    /// Decodes the data of a source file's record that [`Archive::entries`] gave: where its bytes lie.
    pub fn decode_source(&self, entry: &Entry<'_>) -> Result<Extent, Corrupt> {
        let corrupt = Corrupt { what: "a source record", offset: entry.data_position };
        let (position, length) = self.format.pair(entry.data, 0).ok_or(corrupt)?;
        Ok(Extent { position, length })
    }

    /// Every record, in the order of the file. Not for the request path.
    #[must_use]
    pub fn entries(&self) -> Entries<'_> {
        Entries { archive: self, position: self.format.header_bytes(), end: self.records_end() }
    }

    /// Where the records end and the hash tables begin: the first table's position.
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

/// Opens a file that may be an archive.
fn open_file(path: &Path) -> Result<File, OpenError> {
    // A FIFO under this name must not make the caller wait for its other end. Regular files do not notice the flags.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory).into());
    }
    if !kind.is_file() {
        return Err(OpenError::NotRegular { kind: name_of_kind(kind) });
    }
    let expected = Format::Cdb.header_bytes();
    if metadata.len() < expected {
        return Err(OpenError::TooShort { expected, got: metadata.len() });
    }
    Ok(file)
}

fn name_of_kind(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_block_device() || kind.is_char_device() => "a device",
        kind if kind.is_socket() => "a socket",
        _ => "a special file",
    }
}

/// Looks for the facts in the two places where they can stand.
fn first_record(file: &[u8]) -> Option<(Format, Entry<'_>)> {
    [Format::Cdb, Format::Cdb64].into_iter().find_map(|format| {
        let entry = Entry::at(file, format, format.header_bytes()).ok()?;
        (entry.key == name::FACTS && entry.data.len() == FACTS_BYTES).then_some((format, entry))
    })
}

/// The hash of what stands in a key before the path: nothing, or `//` and the host.
#[inline]
fn prefix_hash(host: Option<&[u8]>) -> Hash {
    host.map_or(Hash::EMPTY, |host| {
        let start = if is_wildcard(host) { WILDCARD_START } else { HOST_START };
        host.iter().fold(Hash::of(start), |hash, byte| hash.push(byte.to_ascii_lowercase()))
    })
}

/// What stands before a host in a key.
const HOST_START: &[u8] = b"//";

/// What stands before `.example.com` in a key.
const WILDCARD_START: &[u8] = b"//*";

fn is_wildcard(host: &[u8]) -> bool {
    host.starts_with(b".")
}

/// What stands in a stored key behind the host, if it is this one.
#[inline]
fn strip_host<'k>(stored: &'k [u8], host: Option<&[u8]>) -> Option<&'k [u8]> {
    let Some(host) = host else { return Some(stored) };
    let start = if is_wildcard(host) { WILDCARD_START } else { HOST_START };
    let (prefix, path) = stored.strip_prefix(start)?.split_at_checked(host.len())?;
    prefix.eq_ignore_ascii_case(host).then_some(path)
}

/// The scopes that a path lies in: see [`Archive::scopes`].
pub struct Scopes<'a> {
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    /// Bytes of the key hashed so far.
    at: usize,
    hash: Hash,
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
            match self.look() {
                Ok(None) => {}
                Ok(Some(scope)) => return Some(Ok((self.at, scope))),
                Err(corrupt) => return Some(Err(corrupt)),
            }
        }
        None
    }
}

impl<'a> Scopes<'a> {
    /// The scope of the folder that was hashed last: its key is the folder's and one more `/`.
    fn look(&self) -> Result<Option<Scope<'a>>, Corrupt> {
        let archive = self.archive;
        let folder = &self.key.bytes()[..self.at];
        let matches = |found: &[u8]| {
            strip_host(found, self.host).and_then(|path| path.strip_suffix(b"/")) == Some(folder)
        };
        let found = index::find(archive.bytes(), archive.format, self.hash.push(b'/'), matches)?;
        found.map(|entry| Scope::decode(entry.data, archive.format, entry.data_position)).transpose()
    }
}

/// Every record in the order of the file: see [`Archive::entries`].
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
mod tests {
    use super::*;
    use crate::{KeyBuffer, NewScope, Writer};
    use std::io::Read;

    /// An archive with a scope at each of these folders.
    fn archive(folders: &[&str]) -> Archive {
        let mut writer = Writer::new(tempfile::tempfile().unwrap(), Format::Cdb).unwrap();
        for folder in folders {
            let mut buffer = KeyBuffer::new();
            let key = Key::from_target(folder.as_bytes(), &mut buffer).unwrap();
            writer.scope(None, key, &NewScope::default()).unwrap();
        }
        let (mut file, _) = writer.finish(true).unwrap();
        let mut bytes = Vec::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        Archive::from_bytes(bytes).unwrap()
    }

    #[test]
    fn a_search_up_the_tree_looks_once_for_each_folder_and_no_deeper_than_there_are_scopes() {
        let long = format!("/{}", "a/".repeat(4000));
        let deep = "/a/".to_owned() + &"a/".repeat(99);
        for (folders, lookups, found) in
            [(&["/"][..], 1, 1), (&["/", "/a/"], 2, 2), (&["/b/c/"], 3, 0), (&[deep.as_str()], 101, 1)]
        {
            let archive = archive(folders);
            let mut buffer = KeyBuffer::new();
            let key = Key::from_target(long.as_bytes(), &mut buffer).unwrap();
            let mut scopes = archive.scopes(None, key);
            assert_eq!(scopes.by_ref().filter(Result::is_ok).count(), found, "{folders:?}");
            assert_eq!(usize::from(scopes.depth), lookups, "{folders:?}");
            // Each byte is hashed once: the hash of a folder goes on from that of the one around it.
            assert_eq!(scopes.at, long.match_indices('/').nth(lookups - 1).unwrap().0 + 1, "{folders:?}");
        }
    }
}
