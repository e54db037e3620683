//! Cache of compressed contents in memory, between the builds of one process.
//!
//! The bytes of most results are in the archive of the last build, so the cache holds only those of builds that were
//! abandoned. It keeps no result of a content that the last build no longer had.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cannery_archive::Digest;

use crate::compress_cache::{Outcome, ResultKey};
use crate::digest_map::DigestMap;
use crate::snapshot::Snapshot;

/// The cache.
#[derive(Default)]
pub(crate) struct MemoryCache(Mutex<DigestMap<Stored, ResultKey>>);

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
    pub(crate) fn find<'s>(&self, key: &ResultKey, snapshot: Option<&'s Snapshot>) -> Option<Outcome<'s>> {
        let stored = self.lock().get(key)?.clone();
        match stored {
            Stored::Here(bytes, digest) => Some(Outcome::Coded(Cow::Owned(bytes.to_vec()), digest)),
            Stored::InArchive(digest) => {
                Some(Outcome::Coded(Cow::Borrowed(snapshot?.content(&digest)?), digest))
            }
            Stored::NotWorth => Some(Outcome::NotWorth),
        }
    }

    /// Stores a result.
    pub(crate) fn keep(&self, key: &ResultKey, outcome: &Outcome<'_>) {
        let stored = match outcome {
            Outcome::Coded(bytes, digest) => Stored::Here((**bytes).into(), *digest),
            Outcome::NotWorth => Stored::NotWorth,
        };
        self.lock().insert(*key, stored);
    }

    /// Drops bytes that the archive of this build has, and results of contents that it doesn't have.
    pub(crate) fn settle(&self, snapshot: &Snapshot) {
        let mut results = self.lock();
        // A build in memory stores every content uncompressed too, also those of generated pages.
        results.retain(|key, _| snapshot.has(&key.content));
        for stored in results.values_mut() {
            if let Stored::Here(_, digest) = stored
                && snapshot.has(digest)
            {
                *stored = Stored::InArchive(*digest);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, DigestMap<Stored, ResultKey>> {
        // Each change of the map is complete, even if another thread has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
