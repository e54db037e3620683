//! Assets: files that pages load and that people do not visit, recognized by the suffix of the requested name.
//!
//! Fallback pages do not apply to missing assets: a missing script must be a 404, and not the HTML of the application with
//! status code 200.

/// Suffixes of assets in lower case, sorted. None is longer than [`SUFFIX_BYTES_MAX`].
const ASSETS: [&str; 41] = [
    "aac", "apng", "avif", "avifs", "bmp", "cjs", "css", "cur", "eot", "flac", "gif", "glb", "gltf", "ico",
    "jfif", "jpeg", "jpg", "js", "jxl", "m4a", "m4v", "map", "mjs", "mov", "mp3", "mp4", "mvt", "oga", "ogg",
    "ogv", "opus", "otf", "pbf", "png", "svg", "ttf", "wasm", "webm", "webp", "woff", "woff2",
];

const SUFFIX_BYTES_MAX: usize = 5;

/// Returns `true` if a suffix, without its dot and in any letter case, belongs to assets.
#[must_use]
pub fn is_asset(suffix: &[u8]) -> bool {
    let mut lower = [0; SUFFIX_BYTES_MAX];
    let Some(lower) = lower.get_mut(..suffix.len()) else { return false };
    lower.copy_from_slice(suffix);
    lower.make_ascii_lowercase();
    ASSETS.binary_search_by(|asset| asset.as_bytes().cmp(lower)).is_ok()
}

/// Returns the suffix of a name without its dot, which is empty if the name has no dot.
#[must_use]
pub fn suffix(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'.').map_or(b"", |dot| &name[dot + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_short() {
        assert!(ASSETS.is_sorted());
        assert!(ASSETS.iter().all(|suffix| suffix.len() <= SUFFIX_BYTES_MAX));
    }

    #[test]
    fn assets_are_distinguished_from_pages() {
        for asset in ["js", "CSS", "png", "woff2", "map"] {
            assert!(is_asset(asset.as_bytes()), "{asset}");
        }
        for page in ["", "html", "about", "json", "txt", "0", "woff3", "javascript"] {
            assert!(!is_asset(page.as_bytes()), "{page}");
        }
    }
}
