//! How long a copy may be used before asking again: by type and name.
//!
//! Never looks at content: whoever calls says whether a name carries a digest of it.

use crate::classify::{MediaType, essence, file_name};

/// How the copies of a resource are to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// A way in: it names the other resources, or is data that changes under a constant name.
    /// A stale copy of it keeps the whole site stale, so a copy is checked before each use.
    Entry,
    /// What an entry leads to: a copy may be an hour old.
    Part,
}

/// The `Cache-Control` value for a resource whose site says nothing about it.
///
/// `fingerprinted` means that the name was checked to carry a digest of the content (see
/// [`crate::fingerprint`]): such a name never stands for anything else.
pub fn cache_control(kind: CacheKind, fingerprinted: bool) -> &'static str {
    match (kind, fingerprinted) {
        (_, true) => "public, max-age=31536000, immutable",
        (CacheKind::Entry, false) => "public, no-cache",
        (CacheKind::Part, false) => "public, max-age=3600",
    }
}

/// How the copies of the file at `path`, of the type `media_type`, are to be treated.
pub fn cache_kind(path: &[u8], media_type: MediaType<'_>) -> CacheKind {
    let essence = essence(media_type.text);
    let is_entry = ENTRY_TYPES.contains(&essence)
        || essence.ends_with("+json")
        || SERVICE_WORKERS.iter().any(|name| file_name(path) == name.as_bytes());
    if is_entry { CacheKind::Entry } else { CacheKind::Part }
}

/// Types of which a stale copy keeps a site stale. All `+json` types are meant as well.
const ENTRY_TYPES: [&str; 7] = [
    "application/atom+xml",
    "application/json",
    "application/rss+xml",
    "application/xhtml+xml",
    "application/xml",
    "text/cache-manifest",
    "text/html",
];

/// Names under which service workers are registered by the tools that make them.
const SERVICE_WORKERS: [&str; 8] = [
    "firebase-messaging-sw.js",
    "ngsw-worker.js",
    "service-worker.js",
    "service-worker.mjs",
    "service_worker.js",
    "serviceworker.js",
    "sw.js",
    "sw.mjs",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::MediaTypes;

    fn kind(path: &str) -> CacheKind {
        let types = MediaTypes::default();
        cache_kind(path.as_bytes(), types.of(path.as_bytes()))
    }

    #[test]
    fn entries_are_checked_before_each_use_and_parts_are_not() {
        let entries = "index.html a.xhtml data.json map.geojson feed.xml feed.atom feed.rss site.webmanifest sw.js a/sw.js";
        for path in entries.split(' ') {
            assert_eq!(kind(path), CacheKind::Entry, "{path}");
        }
        for path in ["app.js", "app.css", "logo.svg", "a.png", "notes.txt", "answer.js"] {
            assert_eq!(kind(path), CacheKind::Part, "{path}");
        }
    }

    #[test]
    fn only_a_checked_fingerprint_makes_a_copy_immutable() {
        assert_eq!(cache_control(CacheKind::Entry, false), "public, no-cache");
        assert_eq!(cache_control(CacheKind::Part, false), "public, max-age=3600");
        for kind in [CacheKind::Entry, CacheKind::Part] {
            assert_eq!(cache_control(kind, true), "public, max-age=31536000, immutable");
        }
    }
}
