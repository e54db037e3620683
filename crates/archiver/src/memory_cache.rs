//! Cache of compressed contents in memory, between the builds of one process.
//!
//! The bytes of most results are in the archive of the last build, so the cache holds only those of builds that were
//! abandoned. It keeps no bytes of a content that the last build no longer had.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cannery_archive::Digest;

use crate::compress_cache::{Outcome, ResultKey};
use crate::digest_map::DigestMap;
use crate::snapshot::Snapshot;

/// The cache.
#[derive(Default)]
pub(crate) struct MemoryCache(Mutex<Results>);

/// The results.
#[derive(Default)]
struct Results {
    stored: DigestMap<Stored, ResultKey>,
    /// The keys of results that may have bytes here.
    here: Vec<ResultKey>,
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
    /// In the archive of the last build.
    InArchive(Digest),
    NotWorth,
}

impl MemoryCache {
    /// Returns the result with this key.
    pub(crate) fn find(&self, key: &ResultKey, snapshot: Option<&Snapshot>) -> Option<Outcome> {
        let stored = self.lock().stored.get(key)?.clone();
        match stored {
            Stored::Here(bytes, digest) => Some(Outcome::Coded(bytes.to_vec(), digest)),
            Stored::InArchive(digest) => Some(Outcome::Stored(snapshot?.bodies.find(&digest)?, digest)),
            Stored::NotWorth => Some(Outcome::NotWorth),
        }
    }

    /// Stores a result.
    pub(crate) fn keep(&self, key: &ResultKey, outcome: &Outcome) {
        let stored = match outcome {
            Outcome::Coded(bytes, digest) => Stored::Here(bytes.as_slice().into(), *digest),
            Outcome::Stored(_, digest) => Stored::InArchive(*digest),
            Outcome::NotWorth => Stored::NotWorth,
        };
        let mut results = self.lock();
        results.stored.insert(*key, stored);
        results.here.push(*key);
    }

    /// Drops bytes that the archive of this build has, and those of contents that it doesn't have.
    pub(crate) fn settle(&self, snapshot: &Snapshot) {
        let mut results = self.lock();
        let Results { stored, here, kept } = &mut *results;
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
