//! Manifests in which build tools list the files that they have written, in the root of a site.
//!
//! Only formats that belong to a tool are considered, because any site may have its own `manifest.json`, and the manifest of
//! a web app lists images that were named by people. Angular's `ngsw.json` is not considered either, because it lists files
//! from `public/` too.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Map, Value};

use super::names::{BASE64URL_LENGTH, Family, folder_of, has_base64url_end, hash_in, is_token};
use crate::tree::folder_file;

/// Manifests of build tools, relative to a site's folder.
const MANIFESTS: [&str; 5] = [
    ".vite/manifest.json",
    "manifest.json",
    "asset-manifest.json",
    "assets-manifest.json",
    "parcel-manifest.json",
];

/// Manifests larger than this are not read.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// Returns all existing files that a site's manifests list, if their names look hashed.
pub(super) fn listed(root: &Path) -> HashSet<Vec<u8>> {
    let hosts = fs::read_dir(root.join("_hosts")).into_iter().flatten().filter_map(Result::ok);
    let hosts = hosts.map(|host| [b"_hosts/", host.file_name().as_bytes(), b"/"].concat());
    let mut listed = HashSet::new();
    for site in hosts.chain([Vec::new()]) {
        for name in MANIFESTS {
            let path = root.join(OsStr::from_bytes(&site)).join(name);
            // Files with these names are not necessarily from a build tool, so invalid JSON should not be
            // treated as an error.
            let json = read(&path);
            if let Some(Value::Object(manifest)) = json.and_then(|json| serde_json::from_slice(&json).ok()) {
                let paths = hashed_paths(&manifest).into_iter();
                listed.extend(paths.map(|path| [&*site, path].concat()));
            }
        }
    }
    // Manifests may be outdated.
    listed.retain(|path| root.join(OsStr::from_bytes(path)).is_file());
    listed
}

/// Returns the content of a manifest, if there is one that is not too long.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut json = Vec::new();
    let file = folder_file::open(path).ok()?;
    file.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut json).ok()?;
    (json.len() as u64 <= MANIFEST_BYTES_MAX).then_some(json)
}

/// Returns the hashed paths in a manifest, relative to its site.
fn hashed_paths(manifest: &Map<String, Value>) -> Vec<&[u8]> {
    // Vite's format: `{"src/main.js": {"file": "assets/main-XXXXXXXX.js", "css": […], "assets": […]}}`.
    let is_chunk = |value: &Value| value.get("file").is_some_and(Value::is_string);
    if !manifest.is_empty() && manifest.values().all(is_chunk) {
        return manifest.iter().flat_map(|(source, chunk)| chunk_paths(source, chunk)).collect();
    }

    // Create React App has a table named `files`, whereas Parcel and webpack plugins write
    // `{"main.js": "main.XXXXXXXX.js"}`.
    let table = manifest.get("files").and_then(Value::as_object).unwrap_or(manifest);
    let entries = table.iter().filter_map(|(name, value)| {
        let path = value.as_str().or_else(|| value.get("src")?.as_str())?;
        let path = relative(path);
        let file = &path[folder_of(path).len()..];
        // webpack's chunks do not have any other name.
        let is_chunk =
            relative(name).ends_with(file) && Family::of(path) == Family::Code && looks_hashed(file);
        (is_chunk || is_hashed_form(file, name)).then_some(path)
    });
    entries.collect()
}

fn chunk_paths<'m>(source: &'m str, chunk: &'m Value) -> Vec<&'m [u8]> {
    let name = chunk.get("name").and_then(Value::as_str).unwrap_or(source);
    let file = chunk.get("file").and_then(Value::as_str).map(|path| (path, Some(name)));
    let lists = ["css", "assets"].into_iter().filter_map(|list| chunk.get(list)?.as_array());
    let others = lists.flatten().filter_map(Value::as_str).map(|path| (path, None));
    let is_hashed = |(path, unhashed): (&'m str, Option<&str>)| {
        let path = relative(path);
        let file = &path[folder_of(path).len()..];
        let is_form =
            unhashed.is_some_and(|unhashed| is_hashed_form(file, unhashed) || is_hashed_form(file, source));
        (looks_hashed(file) || is_form).then_some(path)
    };
    file.into_iter().chain(others).filter_map(is_hashed).collect()
}

fn relative(path: &str) -> &[u8] {
    path.trim_start_matches("./").trim_start_matches('/').as_bytes()
}

fn looks_hashed(name: &[u8]) -> bool {
    hash_in(name).is_some() || name.split(|byte| *byte == b'.').any(has_base64url_end)
}

/// Returns `true` for names such as `main-XXXXXXXX.js` if `unhashed` is `main`, `main.js` or `src/main.ts`. There are no
/// requirements for the hash.
fn is_hashed_form(name: &[u8], unhashed: &str) -> bool {
    let unhashed = unhashed.as_bytes();
    let unhashed = &unhashed[folder_of(unhashed).len()..];
    let stem = unhashed.split(|byte| *byte == b'.').next().unwrap_or_default();
    let Some(rest) = name.strip_prefix(stem).filter(|_| !stem.is_empty()) else { return false };
    let Some((b'-' | b'.' | b'_', rest)) = rest.split_first() else { return false };
    let hash = rest.split(|byte| *byte == b'.').next().unwrap_or_default();
    hash.len() >= BASE64URL_LENGTH && is_token(hash) && hash.len() < rest.len()
}
