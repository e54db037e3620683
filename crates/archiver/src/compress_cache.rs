//! Results of compression kept between builds: a folder with one file for each result.
//!
//! A result is found under the digest of its content, the encoder, its version and its level, so nothing
//! in here is ever out of date. Files appear whole by rename, so several builds may share the folder. A
//! file that does not have the digest it states counts as missing: what is read is never trusted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cannery_archive::Digest;

use crate::coders;
use crate::error::Error;
use crate::options::Encoder;

/// First bytes of a file. The digit is the version of what follows, and of the rule that says what pays.
const MAGIC: &[u8; 8] = b"CANRENC1";

/// Bytes before the result: the magic, the content's digest, the result's digest.
const HEADER_BYTES: usize = MAGIC.len() + 2 * Digest::BYTES;

/// A coded content, or that coding it does not pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The coded bytes and their digest.
    Coded(Vec<u8>, Digest),
    /// It is not enough smaller.
    NotWorth,
}

/// A folder of results.
#[derive(Debug)]
pub(crate) struct CompressCache {
    folder: PathBuf,
    /// Makes names of temporary files distinct within this process.
    serial: AtomicU64,
}

impl CompressCache {
    /// Uses `folder`, which is made if it is missing.
    pub(crate) fn open(folder: &Path) -> Result<CompressCache, Error> {
        fs::create_dir_all(folder).map_err(Error::cache(folder))?;
        Ok(CompressCache { folder: folder.to_owned(), serial: AtomicU64::new(0) })
    }

    /// The result for this content, if it is there and sound.
    pub(crate) fn find(&self, content: &Digest, encoder: Encoder, level: i32) -> Option<Outcome> {
        let bytes = fs::read(self.place(content, encoder, level)).ok()?;
        let (header, coded) = bytes.split_at_checked(HEADER_BYTES)?;
        let digest = Digest::of(coded);
        if header != Self::header(content, &digest) {
            return None;
        }
        Some(if coded.is_empty() { Outcome::NotWorth } else { Outcome::Coded(coded.to_vec(), digest) })
    }

    /// Keeps a result.
    pub(crate) fn keep(
        &self,
        content: &Digest,
        encoder: Encoder,
        level: i32,
        outcome: &Outcome,
    ) -> Result<(), Error> {
        // No encoder writes an empty result, so an empty one can say that none was kept.
        let empty = (&[][..], Digest::of(b""));
        let (coded, digest) = match outcome {
            Outcome::Coded(coded, digest) => (coded.as_slice(), *digest),
            Outcome::NotWorth => empty,
        };
        let place = self.place(content, encoder, level);
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let temporary = place.with_extension(format!("{}-{serial}.tmp", std::process::id()));
        let write = || -> io::Result<()> {
            fs::create_dir_all(place.parent().unwrap_or(&self.folder))?;
            fs::write(&temporary, [Self::header(content, &digest).as_slice(), coded].concat())?;
            fs::rename(&temporary, &place)
        };
        write().map_err(Error::cache(&place))
    }

    /// `ab/abcd…-brotli-9.1.1-11`: two digits of folder keep each folder small.
    fn place(&self, content: &Digest, encoder: Encoder, level: i32) -> PathBuf {
        let digest = content.to_string();
        // The level stands behind a dash, and the dots of the version are kept from looking like a suffix.
        let name = format!("{digest}-{}-{level}", coders::version(encoder).replace('.', "_"));
        self.folder.join(&digest[..2]).join(name)
    }

    fn header(content: &Digest, coded: &Digest) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..40].copy_from_slice(&content.0);
        header[40..].copy_from_slice(&coded.0);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(coded: &[u8]) -> Outcome {
        Outcome::Coded(coded.to_vec(), Digest::of(coded))
    }

    #[test]
    fn a_result_is_found_under_its_content_encoder_and_level_only() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CompressCache::open(&folder.path().join("made/when/missing")).unwrap();
        let content = Digest::of(b"content");
        cache.keep(&content, Encoder::Gzip, 12, &outcome(b"coded")).unwrap();
        assert_eq!(cache.find(&content, Encoder::Gzip, 12), Some(outcome(b"coded")));
        assert_eq!(cache.find(&content, Encoder::Gzip, 11), None);
        assert_eq!(cache.find(&content, Encoder::Zopfli, 12), None);
        assert_eq!(cache.find(&Digest::of(b"other"), Encoder::Gzip, 12), None);
    }

    #[test]
    fn that_nothing_was_gained_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CompressCache::open(folder.path()).unwrap();
        let content = Digest::of(b"content");
        cache.keep(&content, Encoder::Brotli, 11, &Outcome::NotWorth).unwrap();
        assert_eq!(cache.find(&content, Encoder::Brotli, 11), Some(Outcome::NotWorth));
    }

    #[test]
    fn a_damaged_result_is_missing_and_can_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CompressCache::open(folder.path()).unwrap();
        let content = Digest::of(b"content");
        cache.keep(&content, Encoder::Brotli, 11, &outcome(b"coded")).unwrap();
        let place = cache.place(&content, Encoder::Brotli, 11);
        let whole = fs::read(&place).unwrap();
        for length in 0..whole.len() {
            fs::write(&place, &whole[..length]).unwrap();
            assert_eq!(cache.find(&content, Encoder::Brotli, 11), None, "cut to {length} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&place, &bytes).unwrap();
            assert_eq!(cache.find(&content, Encoder::Brotli, 11), None, "byte {at} flipped");
        }
        cache.keep(&content, Encoder::Brotli, 11, &outcome(b"coded")).unwrap();
        assert_eq!(cache.find(&content, Encoder::Brotli, 11), Some(outcome(b"coded")));
    }

    #[test]
    fn a_file_in_place_of_the_folder_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"").unwrap();
        let error = CompressCache::open(&path).unwrap_err();
        assert!(matches!(&error, Error::Cache { path: named, .. } if *named == path), "{error}");
    }
}
