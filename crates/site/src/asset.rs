//! Which suffixes belong to assets: what a page loads, not what a person visits.
//!
//! A fallback page never answers for a missing asset: a script that is gone must be a 404, not the
//! application's HTML with status 200. Never looks at media types: only the requested name is known.

/// Suffixes of assets, in lower case, sorted.
const ASSETS: [&str; 40] = [
    "aac", "apng", "avif", "avifs", "bmp", "cjs", "css", "cur", "eot", "flac", "gif", "glb", "gltf", "ico",
    "jfif", "jpeg", "jpg", "js", "jxl", "m4a", "m4v", "map", "mjs", "mov", "mp3", "mp4", "mvt", "oga", "ogg",
    "ogv", "opus", "otf", "pbf", "png", "svg", "ttf", "wasm", "webm", "webp", "woff",
];

/// Whether a name with this suffix (without its dot, any letter case) is an asset's.
#[must_use]
pub fn is_asset(suffix: &[u8]) -> bool {
    let mut lower = [0; 5];
    let Some(lower) = lower.get_mut(..suffix.len()) else { return false };
    lower.copy_from_slice(suffix);
    lower.make_ascii_lowercase();
    lower == b"woff2" || ASSETS.binary_search_by(|asset| asset.as_bytes().cmp(lower)).is_ok()
}

/// What stands behind the last dot of a name, or nothing.
#[must_use]
pub fn suffix(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'.').map_or(b"", |dot| &name[dot + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(ASSETS.is_sorted());
    }

    #[test]
    fn assets_are_told_from_pages() {
        for asset in ["js", "CSS", "png", "woff2", "map"] {
            assert!(is_asset(asset.as_bytes()), "{asset}");
        }
        for page in ["", "html", "about", "json", "txt", "0", "woff3", "javascript"] {
            assert!(!is_asset(page.as_bytes()), "{page}");
        }
    }
}
