//! Field maps of recent responses.
//!
//! Nearly all responses have the fields of an earlier one. A copy of a map costs a tenth of parsing the head again.

use cannery_archive::{Archive, Digest, ETag};
use cannery_site::{Answer, Fields};
use http::header::{self, HeaderMap};

/// The number of maps that a thread keeps, a power of two. A map needs about 1.5 KiB.
const MAPS: usize = 64;

/// Everything that the fields of a response depend on, if they don't depend on more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// The digest of the archive, because another one may have another head at the same address.
    archive: Digest,
    /// Address of the head in the archive.
    head: usize,
    status: u16,
    etag: Option<[u8; ETag::BYTES]>,
    modified: Option<u64>,
    content_length: Option<u64>,
}

impl Key {
    /// Returns the key of an answer, or `None` if its fields also depend on the request or on rules.
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
            // As in the head: never later than the response.
            modified: validators.modified.map(|modified| modified.min(now)),
            content_length: answer.content_length,
        })
    }

    /// Returns the only index that the map of this key can have.
    fn index(&self) -> usize {
        let etag = self.etag.as_ref().and_then(|etag| etag.first_chunk());
        let etag = etag.map_or(0, |start| u64::from_le_bytes(*start));
        // Fibonacci hashing: the upper half depends on all bits.
        let mixed = (etag ^ self.head as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize % MAPS
    }
}

/// The field maps of recent responses of a thread.
#[derive(Debug, Default)]
pub(crate) struct FieldCache {
    /// Empty until the first response.
    maps: Vec<Option<(Key, HeaderMap)>>,
}

impl FieldCache {
    /// Returns the fields of an earlier response with this key, or those that `make` returns.
    pub(crate) fn get_or_make(&mut self, key: Key, make: impl FnOnce() -> HeaderMap) -> HeaderMap {
        if self.maps.is_empty() {
            self.maps.resize_with(MAPS, || None);
        }
        let kept = &mut self.maps[key.index()];
        if let Some((_, fields)) = kept.as_ref().filter(|(other, _)| *other == key) {
            return fields.clone();
        }

        let fields = make();
        // A location also depends on the path that the site is mounted at.
        if !fields.contains_key(header::LOCATION) {
            *kept = Some((key, fields.clone()));
        }
        fields
    }
}
