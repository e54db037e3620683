//! Header maps of recent responses.
//!
//! Almost all responses have the same fields as some earlier response, and cloning a map takes only a tenth of the time needed
//! to parse the head again.

use cannery_archive::{Archive, Digest, ETag};
use cannery_site::{Answer, Fields};
use http::header::{self, HeaderMap};

/// Number of maps per thread, at about 1.5 KiB each. This must be a power of two.
const MAPS: usize = 64;

/// Everything that affects a response's fields, for responses that can be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// Digest of the archive. We need this because another archive may have a different head at the same
    /// address.
    archive: Digest,
    /// Address of the head.
    head: usize,
    status: u16,
    etag: Option<[u8; ETag::BYTES]>,
    modified: Option<u64>,
    content_length: Option<u64>,
}

impl Key {
    /// Returns the key for an answer. When the fields also depend on the request or on rules,
    /// there is none.
    pub(crate) fn new(archive: &Archive, answer: &Answer<'_>, now: u64) -> Option<Key> {
        let (Fields::Canned { head, validators } | Fields::NotModified { head, validators }) = answer.fields
        else {
            return None;
        };
        answer.site_fields.is_none().then_some(Key {
            archive: archive.facts().digest,
            head: head.text.as_ptr().addr(),
            status: answer.status,
            etag: validators.etag.copied(),
            // As in the head, this is never later than the response.
            modified: validators.modified.map(|modified| modified.min(now)),
            content_length: answer.content_length,
        })
    }

    /// Returns the index for this key.
    ///
    /// Since there is only one per key, collisions are resolved by replacing the older map.
    fn index(&self) -> usize {
        let etag = self.etag.as_ref().and_then(|etag| etag.first_chunk());
        let etag = etag.map_or(0, |start| u64::from_le_bytes(*start));
        // Fibonacci hashing. The upper half depends on all bits, so that is what we should use.
        let mixed = (etag ^ self.head as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize % MAPS
    }
}

/// A thread's header maps.
#[derive(Debug, Default)]
pub(crate) struct FieldCache {
    /// Allocated with the first response.
    maps: Vec<Option<(Key, HeaderMap)>>,
}

impl FieldCache {
    /// Looks for the fields of an earlier response with the same key. If there are none, this
    /// calls `make`.
    pub(crate) fn get_or_make(&mut self, key: Key, make: impl FnOnce() -> HeaderMap) -> HeaderMap {
        if self.maps.is_empty() {
            self.maps.resize_with(MAPS, || None);
        }
        let kept = &mut self.maps[key.index()];
        if let Some((_, fields)) = kept.as_ref().filter(|(other, _)| *other == key) {
            return fields.clone();
        }

        let fields = make();
        // `Location` also depends on the path at which the site is mounted, so it must not be cached.
        if !fields.contains_key(header::LOCATION) {
            *kept = Some((key, fields.clone()));
        }
        fields
    }
}
