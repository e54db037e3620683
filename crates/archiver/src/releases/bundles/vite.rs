//! Chunks of Vite: its entry points in pages, and the scripts and style sheets that they import.
//!
//! Vite writes entry points into pages with attributes in one order, which is unlikely in a page written by hand. The hash of a chunk covers
//! the names of the chunks that it imports, so it can't be verified; but a bundler resolves all imports, so what a chunk
//! refers to by a relative path is a chunk too. Images and other files are not taken from here: their hashes are digests of
//! their content, and files of `public/` may lie beside them.

use std::collections::{HashMap, HashSet};

use super::names::{BASE64URL_LENGTH, folder_of, is_token, is_word_or_date};
use crate::properties::classify::essence;
use crate::settings::error::Error;
use crate::settings::options::Options;
use crate::sources::source::{SourceId, Sources};

/// The beginnings of the elements for entry points, up to the URL.
const ENTRY_ELEMENTS: [&[u8]; 3] = [
    b"<script type=\"module\" crossorigin src=\"",
    b"<link rel=\"modulepreload\" crossorigin href=\"",
    b"<link rel=\"stylesheet\" crossorigin href=\"",
];

/// Maximum number of pages that are searched for entry points.
const PAGES_MAX: usize = 100;

/// Larger pages and chunks aren't read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Returns the paths of Vite's chunks.
///
/// # Errors
///
/// If a source can't be read.
pub(crate) fn chunks(sources: &Sources, options: &Options) -> Result<HashSet<Vec<u8>>, Error> {
    let by_path: HashMap<&[u8], SourceId> = (0..)
        .zip(&sources.files)
        .filter(|(_, file)| has_chunk_name(&file.path))
        .map(|(id, file)| (&*file.path, id))
        .collect();
    let mut found = HashSet::new();
    if by_path.is_empty() {
        return Ok(found);
    }

    let mut text = Vec::new();
    let mut pending = Vec::new();
    let is_page = |path: &[u8]| essence(options.media_types.of(path).text) == "text/html";
    let pages = (0..).zip(&sources.files).filter(|(id, file)| is_page(&file.path) && is_read(sources, *id));
    for (id, page) in pages.take(PAGES_MAX) {
        if !read(sources, id, &mut text)? {
            continue;
        }
        for url in entry_urls(&text) {
            if let Some((path, _)) = source_of(url, folder_of(&page.path), &by_path)
                && found.insert(path.to_vec())
            {
                pending.push(path);
            }
        }
    }

    while let Some(path) = pending.pop() {
        let id = by_path[path];
        if !path.ends_with(b".js") || !is_read(sources, id) {
            continue;
        }
        if !read(sources, id, &mut text)? {
            continue;
        }
        for name in imported_names(&text) {
            let sibling = [folder_of(path), name].concat();
            if let Some((sibling, _)) = by_path.get_key_value(sibling.as_slice())
                && found.insert(sibling.to_vec())
            {
                pending.push(sibling);
            }
        }
    }

    // Without hashes in its names (`entryFileNames: '[name].js'`), a tool may write `main-settings.js`.
    let is_hashed = found.iter().any(|path| !is_word_or_date(hash_of(path).unwrap_or_default()));
    Ok(if is_hashed { found } else { HashSet::new() })
}

/// Replaces `text` by a source. Returns `false` if the source can't be read and the folder is being edited.
fn read(sources: &Sources, id: SourceId, text: &mut Vec<u8>) -> Result<bool, Error> {
    match sources.read(id, text) {
        Ok(_) => Ok(true),
        Err(error) if sources.set_aside(id, &error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_read(sources: &Sources, id: SourceId) -> bool {
    sources.length(id) <= FILE_BYTES_MAX
}

/// Returns `true` for `name-XXXXXXXX.js` and `.css`.
fn has_chunk_name(path: &[u8]) -> bool {
    hash_of(path).is_some()
}

fn hash_of(path: &[u8]) -> Option<&[u8]> {
    let name = &path[folder_of(path).len()..];
    let stem = name.strip_suffix(b".js").or_else(|| name.strip_suffix(b".css"))?;
    let start = stem.len().checked_sub(BASE64URL_LENGTH)?;
    (start > 1 && stem[start - 1] == b'-' && is_token(&stem[start..])).then_some(&stem[start..])
}

/// Returns the URLs of the entry points in a page.
fn entry_urls(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = page.iter().enumerate().filter(|(_, byte)| **byte == b'<').map(|(start, _)| start);
    starts.filter_map(|start| {
        let url = ENTRY_ELEMENTS.iter().find_map(|element| page[start..].strip_prefix(*element))?;
        url.iter().position(|byte| *byte == b'"').map(|end| &url[..end])
    })
}

/// Returns the source at a URL, which may have the site's base path or another origin before it.
fn source_of<'s>(
    url: &[u8],
    folder: &[u8],
    by_path: &HashMap<&'s [u8], SourceId>,
) -> Option<(&'s [u8], SourceId)> {
    let relative = url.strip_prefix(b"./").unwrap_or(url);
    let mut rest = [folder, relative].concat();
    loop {
        if let Some((path, id)) = by_path.get_key_value(rest.as_slice()) {
            return Some((path, *id));
        }
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        rest.drain(..=slash);
    }
}

/// Returns the names of chunks that a chunk refers to: `"./name.js"` in imports, `"assets/name.js"` in the list of files to
/// preload, `"/assets/name.js"` for workers.
fn imported_names(chunk: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_quote = |byte: &u8| matches!(byte, b'"' | b'\'' | b'`');
    chunk.split(is_quote).filter_map(|text| {
        let is_short = text.len() <= 1024;
        let name = text.rsplit(|byte| *byte == b'/').next()?;
        let is_relative = text.starts_with(b"./") || !text.starts_with(b"/");
        let hash = hash_of(name).filter(|_| is_short)?;
        (is_relative || !is_word_or_date(hash)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_are_found_in_pages() {
        let page =
            b"<head><script type=\"module\" crossorigin src=\"/base/assets/index-BIOfnJmv.js\"></script>\
                     <link rel=\"stylesheet\" crossorigin href=\"./assets/index-B-Ombg3M.css\">\
                     <script type=module src=/assets/other-CAh_XF9s.js></script>";
        let urls: Vec<&[u8]> = entry_urls(page).collect();
        assert_eq!(urls, [&b"/base/assets/index-BIOfnJmv.js"[..], b"./assets/index-B-Ombg3M.css"]);
        let by_path = HashMap::from([(&b"assets/index-BIOfnJmv.js"[..], 7)]);
        let found = source_of(urls[0], b"", &by_path);
        assert_eq!(found, Some((&b"assets/index-BIOfnJmv.js"[..], 7)));
    }

    #[test]
    fn imports_are_found_in_chunks() {
        let chunk = b"import{s}from\"./shared-BfRhxndv.js\";const d=[\"assets/lazy-xwbrHUwT.css\"];\
                      new Worker(new URL(`/assets/worker-BZo5ctSZ.js`,import.meta.url));\
                      load('/assets/legacy-settings.js');load(\"/assets/item-B08N5WRWNW.jpg\")";
        let names: Vec<&[u8]> = imported_names(chunk).collect();
        assert_eq!(names, [&b"shared-BfRhxndv.js"[..], b"lazy-xwbrHUwT.css", b"worker-BZo5ctSZ.js"]);
    }
}
