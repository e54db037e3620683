//! On-disk cache of source file digests, which allows us to skip reading unchanged files.
//!
//! The cache is a single file that is loaded and replaced as a whole. An entry is valid as long as the file at its absolute
//! path has exactly the same stamp. Files modified within two seconds before the build are not stored, because they could
//! be modified again within the same tick of the file system's clock (the clock isn't used for anything else). When the
//! cache is damaged or has another version, we start with an empty one.
//!
//! The cache also records which compressed results have been verified, so that each of them has to be decoded only once.
//! It also has extracts of contents, such as the links of a page, so that nothing is parsed twice; only the maker of an extract
//! knows its form. We need to trust all of this, so the cache is only used if no other user except root can write to it.
//! A cache copied from another machine is harmless: inodes will differ, so nothing matches. Problems with the cache are
//! reported as warnings.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cannery_archive::Digest;
use cannery_base::{FileStamp, FileVersion};

use crate::codings::encoder::Encoder;
use crate::contents::compress_cache::ResultKey;
use crate::ground::diagnostic::Diagnostic;
use crate::ground::temporary;
use crate::settings::error::Error;
use crate::sources::source_facts::{Probe, SourceFacts};

/// Magic bytes. The digit is the format version.
const MAGIC: &[u8; 8] = b"CANRSRC4";

/// Minimum age, in nanoseconds, of files to be stored, as some file systems have a resolution of two seconds.
const RACY_NS: i128 = 2_000_000_000;

/// File mode. We trust this file, so other users must not be able to write to it.
const MODE: u32 = 0o600;

/// Permission bits that would let other users write.
const OTHERS_WRITE: u32 = 0o022;

const UTF8: u8 = 1 << 0;
const FINGERPRINTED: u8 = 1 << 1;
const PROBED: u8 = 1 << 2;
const COMPRESSIBLE: u8 = 1 << 3;

/// Length of an entry without its path: path length, stamp, digest, flags.
const ENTRY_BYTES: usize = 4 + 56 + Digest::BYTES + 1;

/// As long as a file has this stamp, it has these properties.
type Entry = (FileStamp, SourceFacts);

/// Entries, by absolute path.
type Entries = BTreeMap<Box<[u8]>, Entry>;

/// Digests of verified compression results.
pub(super) type Verified = BTreeMap<ResultKey, Digest>;

/// The digest of a content, and what someone has extracted from it.
pub(crate) type Extract = (Digest, Box<[u8]>);

/// Extracts, by the digest of the content.
pub(crate) type Extracts = BTreeMap<Digest, Box<[u8]>>;

/// The limit on all extracts. They are loaded for each build, and a page has some kilobytes. Contents without an extract are parsed.
const EXTRACTS_BYTES_MAX: usize = 64 << 20;

/// Findings of a build about contents.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) verified: Verified,
    pub(crate) extracts: Extracts,
}

/// Decoded contents of the cache file.
#[derive(Debug, Default)]
struct Memory {
    entries: Entries,
    verified: Verified,
    extracts: Extracts,
}

#[derive(Debug)]
pub(super) struct SourcesCache {
    place: PathBuf,
    memory: Memory,
    /// When the build started, in nanoseconds since 1970.
    began_ns: i128,
    /// Why we ignored the existing file.
    unused: Option<String>,
}

impl SourcesCache {
    /// Loads the cache at `place`. When it does not exist or we should not trust it, we start
    /// with an empty one.
    ///
    /// # Errors
    ///
    /// Returns an error if the name exists but is not a regular file.
    pub(super) fn load(place: &Path) -> Result<SourcesCache, Error> {
        let (bytes, unused) = match read(place) {
            Ok(bytes) => (bytes, None),
            Err(Unusable::Missing) => (Vec::new(), None),
            Err(Unusable::Kind(error)) => return Err(Error::cache(place)(error)),
            Err(Unusable::Warning(why)) => (Vec::new(), Some(why)),
        };

        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began_ns =
            i128::try_from(since_1970.as_nanos()).expect("2^64 seconds are fewer than 2^127 nanoseconds");
        let memory = decode(&bytes).unwrap_or_default();
        Ok(SourcesCache { place: place.to_owned(), memory, began_ns, unused })
    }

    /// Looks up the properties of the file at this absolute path. If its stamp has changed, this returns
    /// `None`.
    pub(super) fn find(&self, path: &[u8], stamp: &FileStamp) -> Option<SourceFacts> {
        self.memory.entries.get(path).filter(|(known, _)| known == stamp).map(|(_, facts)| *facts)
    }

    /// Returns the digest of a verified compression result.
    pub(super) fn verified(&self, key: &ResultKey) -> Option<&Digest> {
        self.memory.verified.get(key)
    }

    /// Returns the extract of a content.
    pub(super) fn extract(&self, content: &Digest) -> Option<&[u8]> {
        self.memory.extracts.get(content).map(AsRef::as_ref)
    }

    /// Replaces all entries below the folder `root` with `files` (absolute path, stamp, properties), adds `news` and writes
    /// the cache to disk, returning any warnings.
    pub(super) fn replace(
        mut self,
        root: &[u8],
        files: impl Iterator<Item = (Box<[u8]>, FileStamp, SourceFacts)>,
        news: News,
    ) -> Vec<Diagnostic> {
        // Several sites may share a cache, so we should keep the entries of other folders.
        let Memory { entries, verified, extracts } = &mut self.memory;
        entries.retain(|path, _| !path.strip_prefix(root).is_some_and(|rest| rest.starts_with(b"/")));
        let racy_ns = self.began_ns - RACY_NS;
        let settled = files.filter(|(_, stamp, _)| stamp.version.modified_ns.max(stamp.changed_ns) < racy_ns);
        entries.extend(settled.map(|(path, stamp, facts)| (path, (stamp, facts))));

        // Forget what is known of contents that no file has any more.
        verified.extend(news.verified);
        extracts.extend(news.extracts);
        let contents: HashSet<Digest> = entries.values().map(|(_, facts)| facts.digest).collect();
        verified.retain(|key, _| contents.contains(&key.content));
        let mut kept_bytes = 0;
        extracts.retain(|content, extract| {
            let is_kept = contents.contains(content) && kept_bytes + extract.len() <= EXTRACTS_BYTES_MAX;
            kept_bytes += if is_kept { extract.len() } else { 0 };
            is_kept
        });

        let mut name = self.place.clone().into_os_string();
        name.push(format!(".{}.tmp", std::process::id()));
        let written = temporary::write_whole(name.into(), &self.place, MODE, &[&encode(&self.memory)]);
        let warning =
            |code, message: String| Diagnostic::warning(self.place.as_os_str().as_bytes(), code, message);
        let unused = self.unused.iter().map(|why| {
            warning("cache-unused", format!("the sources cache was not used, and is made again: {why}"))
        });
        let unwritten = written.err().map(|error| {
            let message =
                format!("the sources cache cannot be written, so the next build reads all files: {error}");
            warning("cache-unwritable", message)
        });
        unused.chain(unwritten).collect()
    }
}

/// Why the cache file cannot be used.
enum Unusable {
    /// It does not exist.
    Missing,
    /// It is not a regular file.
    Kind(io::Error),
    /// It cannot be read, or should not be trusted.
    Warning(String),
}

/// Reads the cache file, unless another user could have written it.
fn read(place: &Path) -> Result<Vec<u8>, Unusable> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => Unusable::Missing,
        _ => Unusable::Warning(error.to_string()),
    };
    let metadata = fs::metadata(place).map_err(failed)?;
    if metadata.is_dir() {
        return Err(Unusable::Kind(ErrorKind::IsADirectory.into()));
    }
    if !metadata.is_file() {
        return Err(Unusable::Kind(io::Error::other("it is not a regular file")));
    }

    // From here on, it's about trust.
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(Unusable::Warning(format!("it belongs to another user ({owner})")));
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        let mode = metadata.mode() & 0o777;
        return Err(Unusable::Warning(format!("other users can write it (mode {mode:o})")));
    }

    fs::read(place).map_err(failed)
}

fn encode(memory: &Memory) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(memory.entries.len() as u64).to_le_bytes());
    for (path, (stamp, facts)) in &memory.entries {
        let path_bytes = u32::try_from(path.len()).expect("the kernel limits paths to 4,096 bytes");
        out.extend_from_slice(&path_bytes.to_le_bytes());

        out.extend_from_slice(&stamp.version.size.to_le_bytes());
        out.extend_from_slice(&stamp.version.modified_ns.to_le_bytes());
        out.extend_from_slice(&stamp.changed_ns.to_le_bytes());
        out.extend_from_slice(&stamp.version.device.to_le_bytes());
        out.extend_from_slice(&stamp.version.inode.to_le_bytes());

        out.extend_from_slice(&facts.digest.0);
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let probe = match facts.probe {
            Probe::Missing => 0,
            Probe::Incompressible => PROBED,
            Probe::Compressible => PROBED | COMPRESSIBLE,
        };
        out.push(flag(facts.utf8, UTF8) | flag(facts.fingerprinted, FINGERPRINTED) | probe);
        out.extend_from_slice(path);
    }

    out.extend_from_slice(&(memory.verified.len() as u64).to_le_bytes());
    for (key, digest) in &memory.verified {
        out.extend_from_slice(&key.content.0);
        out.push(key.encoder as u8);
        out.extend_from_slice(&key.level.to_le_bytes());
        out.extend_from_slice(&digest.0);
    }

    for (content, extract) in &memory.extracts {
        out.extend_from_slice(&content.0);
        out.extend_from_slice(&(extract.len() as u64).to_le_bytes());
        out.extend_from_slice(extract);
    }

    let digest = Digest::of(&out);
    out.extend_from_slice(&digest.0);
    out
}

/// Decodes the cache file, if its digest is correct.
fn decode(bytes: &[u8]) -> Option<Memory> {
    let (written, digest) = bytes.split_last_chunk::<{ Digest::BYTES }>()?;
    if Digest::of(written).0 != *digest {
        return None;
    }
    let mut rest = written.strip_prefix(MAGIC)?;

    let count = u64::from_le_bytes(take(&mut rest)?);
    // The count is untrusted, so the capacity has to be derived from the length of the file instead.
    let mut entries = Vec::with_capacity(rest.len() / (ENTRY_BYTES + 48));
    for _ in 0..count {
        entries.push(decode_entry(&mut rest)?);
    }

    let mut verified = Verified::new();
    for _ in 0..u64::from_le_bytes(take(&mut rest)?) {
        let content = Digest(take(&mut rest)?);
        let [encoder] = take(&mut rest)?;
        let encoder = *Encoder::ALL.get(usize::from(encoder))?;
        let level = i32::from_le_bytes(take(&mut rest)?);
        verified.insert(ResultKey { content, encoder, level }, Digest(take(&mut rest)?));
    }

    let mut extracts = Extracts::new();
    while !rest.is_empty() {
        let content = Digest(take(&mut rest)?);
        let length = usize::try_from(u64::from_le_bytes(take(&mut rest)?)).ok()?;
        let (extract, after) = rest.split_at_checked(length)?;
        rest = after;
        extracts.insert(content, extract.into());
    }
    Some(Memory { entries: entries.into_iter().collect(), verified, extracts })
}

/// Decodes a path, with its stamp and facts.
fn decode_entry(rest: &mut &[u8]) -> Option<(Box<[u8]>, Entry)> {
    let path_bytes = u32::from_le_bytes(take(rest)?) as usize;

    let size = u64::from_le_bytes(take(rest)?);
    let modified_ns = i128::from_le_bytes(take(rest)?);
    let changed_ns = i128::from_le_bytes(take(rest)?);
    let device = u64::from_le_bytes(take(rest)?);
    let inode = u64::from_le_bytes(take(rest)?);
    let version = FileVersion { device, inode, size, modified_ns };
    let stamp = FileStamp { version, changed_ns };

    let digest = Digest(take(rest)?);
    let [flags] = take(rest)?;
    let facts = SourceFacts {
        digest,
        utf8: flags & UTF8 != 0,
        fingerprinted: flags & FINGERPRINTED != 0,
        probe: match (flags & PROBED != 0, flags & COMPRESSIBLE != 0) {
            (false, _) => Probe::Missing,
            (true, false) => Probe::Incompressible,
            (true, true) => Probe::Compressible,
        },
    };

    let (path, after) = rest.split_at_checked(path_bytes)?;
    *rest = after;
    Some((path.into(), (stamp, facts)))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

#[cfg(test)]
mod tests;
