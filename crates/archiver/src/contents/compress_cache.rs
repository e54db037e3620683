//! On-disk cache of compressed contents: a directory with a file for each result.
//!
//! Results are keyed by content digest, encoder, encoder version and level, so entries never become stale. Several builds
//! can share the directory, because files are created under a temporary name and then renamed.
//!
//! Entries must not be trusted. A result is only used if it decodes to its content, or if it was verified by an earlier build
//! (according to the sources cache). Invalid entries are replaced and reported. Failure to write to the directory is only a
//! warning.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cannery_archive::{Digest, Extent};

use crate::codings::coders::Coders;
use crate::codings::encoder::Encoder;
use crate::ground::diagnostic::Diagnostic;
use crate::ground::temporary;
use crate::settings::error::Error;

/// Magic bytes. The digit is incremented whenever the format changes, or the rule that decides
/// which results pay off.
const MAGIC: &[u8; 8] = b"CANRENC1";

/// Header length: magic, content digest, result digest.
const HEADER_BYTES: usize = MAGIC.len() + 2 * Digest::BYTES;

/// Mode of new files, subject to the umask.
const MODE: u32 = 0o644;

/// The result of compressing a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The compressed bytes and their digest.
    Coded(Vec<u8>, Digest),
    /// A body in the archive of the last build, with its digest.
    Stored(Extent, Digest),
    /// Compression does not save enough.
    NotWorth,
}

impl Outcome {
    /// Returns the length of the compressed bytes, or 0 if there are none.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Outcome::Coded(bytes, _) => bytes.len() as u64,
            Outcome::Stored(..) | Outcome::NotWorth => 0,
        }
    }
}

/// Identifies a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResultKey {
    /// Digest of the content.
    pub(super) content: Digest,
    pub(super) encoder: Encoder,
    pub(super) level: i32,
}

/// Only hash the content: its few results will then be adjacent in a map, and they are typically looked up together.
impl Hash for ResultKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content.hash(state);
    }
}

/// A directory of results.
#[derive(Debug)]
pub(super) struct CompressCache {
    folder: PathBuf,
    /// Makes temporary file names unique within this process.
    serial: AtomicU64,
    problems: Mutex<Problems>,
}

/// Problems with the directory.
#[derive(Debug, Default)]
struct Problems {
    /// Set once results cannot be stored any more.
    unwritable: Option<io::Error>,
    /// Number of invalid results.
    corrupt: u64,
    /// The first one by name, to make the warning independent of timing.
    first_corrupt: Option<PathBuf>,
}

impl CompressCache {
    /// Uses `folder`, creating it if needed.
    ///
    /// # Errors
    ///
    /// Returns an error if the name exists but is not a directory.
    pub(super) fn open(folder: &Path) -> Result<CompressCache, Error> {
        let mut problems = Problems::default();
        match fs::create_dir_all(folder) {
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => {
                return Err(Error::cache(folder)(error));
            }
            Err(error) => problems.unwritable = Some(error),
            Ok(()) => {}
        }
        Ok(CompressCache {
            folder: folder.to_owned(),
            serial: AtomicU64::new(0),
            problems: Mutex::new(problems),
        })
    }

    /// Looks up the result for a content of `length` bytes. Only valid results are returned.
    ///
    /// If its digest is `verified`, then the result does not have to be decoded again.
    pub(super) fn find(
        &self,
        key: &ResultKey,
        length: u64,
        verified: Option<&Digest>,
        coders: &mut Coders,
    ) -> Option<Outcome> {
        let place = self.place(key);
        match read(&place, key, length, verified, coders) {
            Ok(outcome) => Some(outcome),
            Err(Unusable::Missing) => None,
            Err(Unusable::Corrupt) => {
                let mut problems = self.problems();
                problems.corrupt += 1;
                if problems.first_corrupt.as_ref().is_none_or(|first| place < *first) {
                    problems.first_corrupt = Some(place);
                }
                None
            }
        }
    }

    /// Stores a result, unless storing another one has failed before.
    pub(super) fn keep(&self, key: &ResultKey, outcome: &Outcome) {
        if self.problems().unwritable.is_some() {
            return;
        }

        // No encoder produces empty output, so an empty result can be used to represent "not
        // smaller".
        let empty = (&[][..], Digest::of(b""));
        let (coded, digest) = match outcome {
            Outcome::Coded(coded, digest) => (coded.as_slice(), *digest),
            // `Stored` only occurs with the memory cache.
            Outcome::Stored(..) | Outcome::NotWorth => empty,
        };

        let place = self.place(key);
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let temporary = place.with_extension(format!("{}-{serial}.tmp", std::process::id()));
        let write = || -> io::Result<()> {
            fs::create_dir_all(place.parent().unwrap_or(&self.folder))?;
            let header = header(&key.content, &digest);
            temporary::write_whole(temporary, &place, MODE, &[&header, coded])
        };
        if let Err(error) = write() {
            self.problems().unwritable.get_or_insert(error);
        }
    }

    /// Returns warnings about the directory.
    pub(super) fn warnings(&self) -> Vec<Diagnostic> {
        let problems = self.problems();
        let mut warnings = Vec::new();
        if let Some(error) = &problems.unwritable {
            let message = format!(
                "the compression cache cannot be written, so the next build compresses again: {error}"
            );
            warnings.push(Diagnostic::warning(bytes(&self.folder), "cache-unwritable", message));
        }
        if let Some(first) = &problems.first_corrupt {
            let message = format!(
                "{} of the compression cache did not decode to its content, which was compressed again: the disk is \
                 damaged, or another program writes to the cache",
                if problems.corrupt == 1 {
                    "this result".to_owned()
                } else {
                    format!("one of {} results", problems.corrupt)
                }
            );
            warnings.push(Diagnostic::warning(bytes(first), "cache-untrue", message));
        }
        warnings
    }

    fn problems(&self) -> MutexGuard<'_, Problems> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `ab/abcd…-brotli-9.1.1-11`: subdirectories of two digits keep each directory small.
    fn place(&self, key: &ResultKey) -> PathBuf {
        let digest = key.content.to_string();
        // The version's dots would look like a file extension to `with_extension`.
        let name = format!("{digest}-{}-{}", key.encoder.version().replace('.', "_"), key.level);
        self.folder.join(&digest[..2]).join(name)
    }
}

/// Why an entry cannot be used.
enum Unusable {
    /// It does not exist, or has another format version.
    Missing,
    /// It's invalid.
    Corrupt,
}

fn read(
    place: &Path,
    key: &ResultKey,
    length: u64,
    verified: Option<&Digest>,
    coders: &mut Coders,
) -> Result<Outcome, Unusable> {
    let metadata = fs::metadata(place).map_err(|_| Unusable::Missing)?;
    // Note that reading a pipe would never end. Useful results are never longer than their content.
    if !metadata.is_file() || metadata.len() > length.saturating_add(HEADER_BYTES as u64) {
        return Err(Unusable::Corrupt);
    }

    let mut file = File::open(place).map_err(|_| Unusable::Missing)?.take(metadata.len());
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).map_err(|_| Unusable::Corrupt)?);
    file.read_to_end(&mut bytes).map_err(|_| Unusable::Corrupt)?;

    // Another format version is not corruption. We'll just replace the file.
    let (found, coded) = bytes.split_at_checked(HEADER_BYTES).ok_or(Unusable::Corrupt)?;
    if !found.starts_with(MAGIC) && found.starts_with(&MAGIC[..MAGIC.len() - 1]) {
        return Err(Unusable::Missing);
    }

    let digest = Digest::of(coded);
    if found != header(&key.content, &digest) {
        return Err(Unusable::Corrupt);
    }
    // See `keep`.
    if coded.is_empty() {
        return Ok(Outcome::NotWorth);
    }

    let coding = key.encoder.coding();
    let length = usize::try_from(length).map_err(|_| Unusable::Corrupt)?;
    let is_true = verified == Some(&digest) || coders.decodes_to(coding, coded, length, &key.content);
    if !is_true {
        return Err(Unusable::Corrupt);
    }
    Ok(Outcome::Coded(coded.to_vec(), digest))
}

fn header(content: &Digest, coded: &Digest) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..40].copy_from_slice(&content.0);
    header[40..].copy_from_slice(&coded.0);
    header
}

fn bytes(path: &Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

#[cfg(test)]
mod tests;
