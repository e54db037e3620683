//! Manifests of build tools, which list the files that a tool has written.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::Value;

use super::names::{BASE64URL_LENGTH, folder_of, hash_in, is_token, is_word_or_date};

/// Manifests of build tools, relative to the site folder.
const MANIFESTS: [&str; 6] = [
    ".vite/manifest.json",
    "manifest.json",
    "asset-manifest.json",
    "assets-manifest.json",
    "parcel-manifest.json",
    "ngsw.json",
];

/// Larger manifests aren't read.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// Returns the existing files that manifests list, if their names look hashed.
pub(super) fn listed(root: &Path) -> HashSet<Vec<u8>> {
    let mut listed = HashSet::new();
    for name in MANIFESTS {
        let path = root.join(name);
        let is_read =
            fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= MANIFEST_BYTES_MAX);
        // A file of this name may be unrelated to build tools, so invalid JSON is no fault.
        let json = is_read.then(|| fs::read(&path).ok()).flatten();
        if let Some(value) = json.and_then(|json| serde_json::from_slice::<Value>(&json).ok())
            // The manifest of a web app lists icons, which people name.
            && !is_of_web_app(&value)
        {
            collect(&value, None, &mut listed);
        }
    }
    listed.retain(|path| root.join(OsStr::from_bytes(path)).is_file());
    listed
}

fn is_of_web_app(manifest: &Value) -> bool {
    ["icons", "start_url", "display"].iter().any(|member| manifest.get(member).is_some())
}

/// Collects the hashed names in a manifest as paths relative to the folder: values, and keys of Angular's table.
///
/// `unhashed` is the name of the file without its hash, if the manifest tells.
fn collect(value: &Value, unhashed: Option<&str>, listed: &mut HashSet<Vec<u8>>) {
    let mut add = |path: &str, unhashed: Option<&str>| {
        let path = path.trim_start_matches("./").trim_start_matches('/').as_bytes();
        let name = &path[folder_of(path).len()..];
        if hash_in(name).is_some() || has_base64url_token(name) || is_hashed_form(name, unhashed) {
            listed.insert(path.to_vec());
        }
    };
    match value {
        Value::String(path) => add(path, unhashed),
        Value::Array(values) => values.iter().for_each(|value| collect(value, None, listed)),
        Value::Object(fields) => {
            let name = fields.get("name").and_then(Value::as_str);
            for key in fields.keys().filter(|key| key.starts_with('/')) {
                add(key, None);
            }
            for (key, value) in fields {
                // Vite names the chunk, and webpack's plugin the file.
                let unhashed = if key == "file" { name.or(unhashed) } else { Some(key.as_str()) };
                collect(value, unhashed, listed);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns `true` if a name is `main-XXXXXXXX.js` for `main`, `main.js` or `src/main.ts`, whatever the hash looks like.
fn is_hashed_form(name: &[u8], unhashed: Option<&str>) -> bool {
    let Some(unhashed) = unhashed.map(str::as_bytes) else { return false };
    let unhashed = &unhashed[folder_of(unhashed).len()..];
    let stem = unhashed.split(|byte| *byte == b'.').next().unwrap_or_default();
    let Some(rest) = name.strip_prefix(stem).filter(|_| !stem.is_empty()) else { return false };
    let Some((b'-' | b'.' | b'_', rest)) = rest.split_first() else { return false };
    let hash = rest.split(|byte| *byte == b'.').next().unwrap_or_default();
    hash.len() >= BASE64URL_LENGTH && is_token(hash) && hash.len() < rest.len()
}

/// Returns `true` if some part of a name has the length of a hash and isn't a word.
fn has_base64url_token(name: &[u8]) -> bool {
    name.split(|byte| *byte == b'.').any(|part| {
        let start = part.len().checked_sub(BASE64URL_LENGTH);
        start.is_some_and(|start| {
            let is_separated = start == 0 || start > 1 && matches!(part[start - 1], b'-' | b'_');
            is_separated && is_token(&part[start..]) && !is_word_or_date(&part[start..])
        })
    })
}
