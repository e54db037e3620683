//! Cache of compressed contents in memory, between the builds of one process.
//!
//! The bytes of most results are in the archive of the last build, so the cache holds only those of builds that are running or
//! were abandoned, up to a limit. It keeps no bytes of a content that the last build no longer had.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cannery_archive::Digest;

use crate::contents::compress_cache::{Outcome, ResultKey};
use crate::ground::digest_map::DigestMap;
use crate::sources::snapshot::Snapshot;

/// Maximum number of bytes that the cache holds. Those of further results are only in the archive of their build: if it is
/// abandoned, they are made again. The next build stores what the cache holds, so there is room for further results, and edits
/// in quick succession can't keep a large site from being compressed.
const HELD_BYTES_MAX: usize = 64 << 20;

/// The cache.
#[derive(Default)]
pub(crate) struct MemoryCache(Mutex<Results>);

/// The results.
#[derive(Default)]
struct Results {
    stored: DigestMap<Stored, ResultKey>,
    /// The keys of results that may have bytes here.
    here: Vec<ResultKey>,
    /// The length of these bytes.
    held_bytes: usize,
    /// The number of results after those of vanished contents were dropped.
    kept: usize,
}

/// Results of vanished contents are dropped when there are this many new results, and as many as were kept before. They have
/// no bytes.
const DROPPED_AFTER: usize = 1024;

/// A result, and where its bytes are.
#[derive(Clone)]
enum Stored {
    Here(Arc<[u8]>, Digest),
    /// In the archive of the last build, unless the build that made it was abandoned.
    InArchive(Digest),
    NotWorth,
}

impl Stored {
    fn held_bytes(&self) -> usize {
        match self {
            Stored::Here(bytes, _) => bytes.len(),
            Stored::InArchive(_) | Stored::NotWorth => 0,
        }
    }
}

impl MemoryCache {
    /// Returns the result with this key.
    pub(super) fn find(&self, key: &ResultKey, snapshot: Option<&Snapshot>) -> Option<Outcome> {
        let stored = self.lock().stored.get(key)?.clone();
        match stored {
            Stored::Here(bytes, digest) => Some(Outcome::Coded(bytes.to_vec(), digest)),
            Stored::InArchive(digest) => Some(Outcome::Stored(snapshot?.bodies.find(&digest)?, digest)),
            Stored::NotWorth => Some(Outcome::NotWorth),
        }
    }

    /// Stores a result.
    pub(super) fn keep(&self, key: &ResultKey, outcome: &Outcome) {
        let mut results = self.lock();
        let stored = match outcome {
            Outcome::Coded(bytes, digest) if results.held_bytes + bytes.len() <= HELD_BYTES_MAX => {
                Stored::Here(bytes.as_slice().into(), *digest)
            }
            Outcome::Coded(_, digest) | Outcome::Stored(_, digest) => Stored::InArchive(*digest),
            Outcome::NotWorth => Stored::NotWorth,
        };
        results.held_bytes += stored.held_bytes();
        if let Some(before) = results.stored.insert(*key, stored) {
            results.held_bytes -= before.held_bytes();
        }
        results.here.push(*key);
    }

    /// Drops bytes that the archive of this build has, and those of contents that it doesn't have.
    pub(crate) fn settle(&self, snapshot: &Snapshot) {
        let mut results = self.lock();
        let Results { stored, here, held_bytes, kept } = &mut *results;
        here.retain(|key| match stored.get(key) {
            // A build in memory stores every content uncompressed too, also those of generated pages.
            Some(Stored::Here(..)) if !snapshot.has(&key.content) => {
                stored.remove(key);
                false
            }
            Some(Stored::Here(_, digest)) if snapshot.has(digest) => {
                let in_archive = Stored::InArchive(*digest);
                stored.insert(*key, in_archive);
                false
            }
            Some(Stored::Here(..)) => true,
            Some(Stored::InArchive(_) | Stored::NotWorth) | None => false,
        });
        *held_bytes = here.iter().filter_map(|key| stored.get(key)).map(Stored::held_bytes).sum();
        if stored.len() > 2 * *kept + DROPPED_AFTER {
            stored.retain(|key, _| snapshot.has(&key.content));
            *kept = stored.len();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Results> {
        // Each change of the map is complete, even if another thread has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::options::Encoder;

    #[test]
    fn held_bytes_are_limited() {
        let cache = MemoryCache::default();
        let key = |name: &[u8]| ResultKey { content: Digest::of(name), encoder: Encoder::Brotli, level: 11 };
        let most = vec![0; HELD_BYTES_MAX - 10];
        let outcome = |length: usize| Outcome::Coded(most[..length].to_vec(), Digest::of(&[]));
        let is_held = |name: &[u8]| matches!(cache.find(&key(name), None), Some(Outcome::Coded(..)));
        cache.keep(&key(b"long"), &outcome(most.len()));
        cache.keep(&key(b"too long"), &outcome(11));
        cache.keep(&key(b"short"), &outcome(10));
        assert!(is_held(b"long") && is_held(b"short"));
        // It is made again unless an archive has it.
        assert!(cache.find(&key(b"too long"), None).is_none());
        assert_eq!(cache.lock().held_bytes, HELD_BYTES_MAX);
        // The same result from two builds at once.
        cache.keep(&key(b"short"), &outcome(0));
        assert_eq!(cache.lock().held_bytes, HELD_BYTES_MAX - 10);
    }
}
