//! Cache policy by media type and name.
//!
//! We do not read contents here, so callers need to know if a name is fingerprinted.

use crate::properties::classify::{MediaType, essence, file_name};

/// How clients may reuse copies of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// An entry point that refers to other resources, or data that changes under the same name. Clients must revalidate it each
    /// time, because a stale copy would keep the whole site stale.
    Entry,
    /// A resource that is referred to by entry points, for which copies may be up to one hour old.
    Part,
}

/// Returns the default `Cache-Control` value.
///
/// If a name is `fingerprinted`, it never stands for other bytes.
pub fn cache_control(kind: CacheKind, fingerprinted: bool) -> &'static str {
    match (kind, fingerprinted) {
        (_, true) => "public, max-age=31536000, immutable",
        (CacheKind::Entry, false) => "public, no-cache",
        (CacheKind::Part, false) => "public, max-age=3600",
    }
}

/// Returns the cache policy for the file at `path`.
pub fn cache_kind(path: &[u8], media_type: MediaType<'_>) -> CacheKind {
    let essence = essence(media_type.text);
    let is_entry =
        ENTRY_TYPES.contains(&essence) || essence.ends_with("+json") || is_service_worker(file_name(path));
    if is_entry { CacheKind::Entry } else { CacheKind::Part }
}

/// Media types of entry points. All `+json` types are entry points too.
const ENTRY_TYPES: [&str; 7] = [
    "application/atom+xml",
    "application/json",
    "application/rss+xml",
    "application/xhtml+xml",
    "application/xml",
    "text/cache-manifest",
    "text/html",
];

/// Returns `true` for names of service workers and of scripts that register them.
///
/// Note that browsers may keep asking for these under the same name for years.
pub(crate) fn is_service_worker(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let Some(stem) = name.strip_suffix(b".js").or_else(|| name.strip_suffix(b".mjs")) else { return false };
    // Ignore whatever separates words, for example in `service-worker` and `service_worker`.
    let letters: Vec<u8> = stem.iter().copied().filter(|byte| !matches!(byte, b'-' | b'_' | b'.')).collect();
    let mut words = stem.split(|byte| matches!(byte, b'-' | b'_' | b'.'));
    words.any(|word| word == b"sw")
        || letters.starts_with(b"registersw")
        || ["serviceworker", "ngswworker", "onesignalsdkworker", "onesignalsdkupdaterworker"]
            .iter()
            .any(|known| letters.windows(known.len()).any(|window| window == known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::classify::MediaTypes;

    fn kind(path: &str) -> CacheKind {
        let types = MediaTypes::default();
        cache_kind(path.as_bytes(), types.of(path.as_bytes()))
    }

    #[test]
    fn entry_points_are_revalidated_before_each_use() {
        let entries = "index.html a.xhtml data.json map.geojson feed.xml feed.atom feed.rss site.webmanifest sw.js a/sw.js \
                       registerSW.js service-worker.mjs service_worker.js firebase-messaging-sw.js ngsw-worker.js sw-1a2b3c4d.js";
        for path in entries.split(' ') {
            assert_eq!(kind(path), CacheKind::Entry, "{path}");
        }
        for path in
            ["app.js", "app.css", "logo.svg", "a.png", "notes.txt", "answer.js", "swiper.js", "sw.css"]
        {
            assert_eq!(kind(path), CacheKind::Part, "{path}");
        }
    }

    #[test]
    fn only_a_verified_fingerprint_makes_a_copy_immutable() {
        assert_eq!(cache_control(CacheKind::Entry, false), "public, no-cache");
        assert_eq!(cache_control(CacheKind::Part, false), "public, max-age=3600");
        for kind in [CacheKind::Entry, CacheKind::Part] {
            assert_eq!(cache_control(kind, true), "public, max-age=31536000, immutable");
        }
    }
}
