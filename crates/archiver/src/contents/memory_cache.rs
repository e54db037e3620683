//! In-memory cache of compressed contents, for processes that build again and again.
//!
//! Most compressed bytes can be found in the archive of the last build, so the cache itself only needs to hold (up to a
//! limit) the results of builds that are running or were abandoned. If the last build no longer had a content, its bytes are
//! dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cannery_archive::Digest;

use crate::contents::compress_cache::{Outcome, ResultKey};
use crate::ground::digest_map::DigestMap;
use crate::sources::snapshot::Snapshot;

/// Maximum number of bytes held by the cache. Further results are only stored in the archive of their build, so they are
/// lost if that build is abandoned. However, the next build will store everything that is in the cache, making room again.
/// This way, even a large site that is edited frequently will be compressed eventually.
const HELD_BYTES_MAX: usize = 64 << 20;

#[derive(Default)]
pub(crate) struct MemoryCache(Mutex<Results>);

#[derive(Default)]
struct Results {
    stored: DigestMap<Stored, ResultKey>,
    /// Keys of results that may have their bytes in memory.
    here: Vec<ResultKey>,
    /// Total length of these bytes.
    held_bytes: usize,
    /// Number of results left after the last cleanup.
    kept: usize,
}

/// Number of new results after which those of vanished contents are dropped, in addition to the number that was left by the
/// last cleanup. There is no hurry, as such results do not hold any bytes.
const DROPPED_AFTER: usize = 1024;

/// A compression result, or where to find it.
#[derive(Clone)]
enum Stored {
    Here(Arc<[u8]>, Digest),
    /// The bytes are in the archive of the last build, unless they come from a build that was abandoned.
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
    /// Returns the result for this key.
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

        // Concurrent builds may have made the same result, but we should not count its bytes twice.
        results.held_bytes += stored.held_bytes();
        if let Some(before) = results.stored.insert(*key, stored) {
            results.held_bytes -= before.held_bytes();
        }
        results.here.push(*key);
    }

    /// Drops bytes that are in the archive of this build, and bytes of contents that no longer
    /// exist.
    pub(crate) fn settle(&self, snapshot: &Snapshot) {
        let mut results = self.lock();
        let Results { stored, here, held_bytes, kept } = &mut *results;
        here.retain(|key| match stored.get(key) {
            // The content no longer exists. Note that every content is also stored uncompressed in these archives, even if it
            // was generated.
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
        // A poisoned lock is harmless because each update leaves a consistent map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codings::encoder::Encoder;

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
        // This result would have to be made again, unless an archive has it.
        assert!(cache.find(&key(b"too long"), None).is_none());
        assert_eq!(cache.lock().held_bytes, HELD_BYTES_MAX);

        // Two builds at once may store the same result.
        cache.keep(&key(b"short"), &outcome(0));
        assert_eq!(cache.lock().held_bytes, HELD_BYTES_MAX - 10);
    }
}
