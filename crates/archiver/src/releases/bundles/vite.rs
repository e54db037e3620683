//! Finds chunks of Vite and Angular by following imports, starting from entry points in pages.
//!
//! When Vite writes an entry point into a page, it adds a `crossorigin` attribute. People rarely do this for their own files.
//! Minifiers may change the order of attributes; however, we insist on Vite's own order when the name may be a word such as
//! `main-settings.js`. Angular's entry points have fixed names with hashes in capital letters.
//!
//! The hash of a chunk also covers the names of imported chunks, so we are not able to verify it. However, bundlers resolve
//! all imports. This means that everything that a chunk refers to with a relative path must be a chunk too. This does not
//! apply to images and other files: their hashes are digests of the content, and there may be files from `public/` next to
//! them.

use std::collections::{HashMap, HashSet};

use super::names::{BASE64URL_LENGTH, angular_hash, folder_of, is_mixed, is_token, is_word_or_date};
use crate::properties::classify::essence;
use crate::settings::error::Error;
use crate::settings::options::Options;
use crate::sources::source::{SourceId, Sources};

/// Elements for entry points up to the URL, exactly as Vite writes them.
const ENTRY_ELEMENTS: [&[u8]; 3] = [
    b"<script type=\"module\" crossorigin src=\"",
    b"<link rel=\"modulepreload\" crossorigin href=\"",
    b"<link rel=\"stylesheet\" crossorigin href=\"",
];

/// IDs of scripts added by the plugin for legacy browsers.
const LEGACY_IDS: [&[u8]; 2] = [b"vite-legacy-entry", b"vite-legacy-polyfill"];

/// If a tag is longer than this, it is not an entry point.
const TAG_BYTES_MAX: usize = 4096;

/// Maximum number of pages to search for entry points.
const PAGES_MAX: usize = 100;

/// We do not read pages or chunks that are larger than this.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Returns the paths of all chunks.
///
/// # Errors
///
/// Returns an error if a source cannot be read.
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

    // Start with the entry points.
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

    // Then follow imports.
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

    // With `entryFileNames: '[name].js'`, names do not contain hashes, so `main-settings.js` would just be a
    // name.
    let is_hashed = found
        .iter()
        .any(|path| angular_hash(path).is_some() || !is_word_or_date(hash_of(path).unwrap_or_default()));
    Ok(if is_hashed { found } else { HashSet::new() })
}

/// Replaces `text` with a source.
///
/// Returns `false` if the source cannot be read and the folder is being edited.
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

/// Returns `true` for `name-XXXXXXXX.js` and `name-XXXXXXXX.css`.
fn has_chunk_name(path: &[u8]) -> bool {
    hash_of(path).is_some()
}

fn hash_of(path: &[u8]) -> Option<&[u8]> {
    let name = &path[folder_of(path).len()..];
    let stem = name.strip_suffix(b".js").or_else(|| name.strip_suffix(b".css"))?;
    let start = stem.len().checked_sub(BASE64URL_LENGTH)?;
    (start > 1 && stem[start - 1] == b'-' && is_token(&stem[start..])).then_some(&stem[start..])
}

/// Returns the URLs of a page's entry points.
fn entry_urls(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = page.iter().enumerate().filter(|(_, byte)| **byte == b'<').map(|(start, _)| start);
    starts.filter_map(|start| entry_url(&page[start..]))
}

/// If the text starts with an element for an entry point, returns its URL.
fn entry_url(text: &[u8]) -> Option<&[u8]> {
    let written_by_vite = ENTRY_ELEMENTS.iter().find_map(|element| text.strip_prefix(*element));
    if let Some(url) = written_by_vite {
        return url.iter().position(|byte| *byte == b'"').map(|end| &url[..end]);
    }

    let (is_script, tag) = match text.get(..8)?.to_ascii_lowercase().as_slice() {
        b"<script " | b"<script\n" => (true, &text[7..]),
        [b'<', b'l', b'i', b'n', b'k', b' ' | b'\n', ..] => (false, &text[5..]),
        _ => return None,
    };

    let attributes = Attributes::of(&tag[..tag.len().min(TAG_BYTES_MAX)])?;
    let is = |name: &str, value: &[u8]| {
        attributes.get(name).is_some_and(|found| found.eq_ignore_ascii_case(value))
    };
    if is_script && LEGACY_IDS.iter().any(|id| is("id", id)) {
        return attributes.get("data-src").or_else(|| attributes.get("src"));
    }

    let url = attributes.get(if is_script { "src" } else { "href" })?;
    let is_module = is_script && is("type", b"module");
    let is_linked = !is_script && (is("rel", b"modulepreload") || is("rel", b"stylesheet"));
    if (is_module || is_linked) && angular_hash(url).is_some() {
        return Some(url);
    }
    let may_be_word = hash_of(url).is_none_or(|hash| {
        let digits: Vec<u8> = hash.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
        is_word_or_date(hash) && !is_mixed(&digits)
    });
    ((is_module || is_linked) && is("crossorigin", b"") && !may_be_word).then_some(url)
}

/// Attributes of a tag and their values. If an attribute does not have a value, this will be empty.
struct Attributes<'p>(Vec<(&'p [u8], &'p [u8])>);

impl<'p> Attributes<'p> {
    /// Parses attributes up to the end of a tag.
    ///
    /// If the tag does not end, `None` is returned.
    fn of(text: &'p [u8]) -> Option<Attributes<'p>> {
        let mut attributes = Vec::new();
        let mut rest = text;
        loop {
            let start = rest.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b'/')?;
            rest = &rest[start..];
            if rest[0] == b'>' {
                return Some(Attributes(attributes));
            }
            let ends_name = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'=' | b'>' | b'/');
            // A name may begin with `=`, so start with the second byte.
            let end = 1 + rest[1..].iter().position(ends_name)?;
            let (name, after) = rest.split_at(end);
            let spaces = after.iter().position(|byte| !byte.is_ascii_whitespace())?;

            let value;
            (value, rest) = match after[spaces..].strip_prefix(b"=") {
                Some(text) => attribute_value(text)?,
                None => (&b""[..], after),
            };
            attributes.push((name, value));
        }
    }

    fn get(&self, name: &str) -> Option<&'p [u8]> {
        let found = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, value)| *value)
    }
}

/// Parses the value of an attribute after the `=`. Returns the value and the rest of the tag.
fn attribute_value(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    match text.first()? {
        quote @ (b'"' | b'\'') => {
            let end = text[1..].iter().position(|byte| byte == quote)?;
            Some((&text[1..=end], &text[end + 2..]))
        }
        _ => {
            let end = text.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'>')?;
            Some(text.split_at(end))
        }
    }
}

/// Looks up the source for a URL. It can begin with the site's base path or another origin.
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

/// Finds the names of chunks that a chunk refers to, e.g. `"./name.js"` in imports, `"assets/name.js"` in the list of files
/// to preload, or `"/assets/name.js"` for workers.
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

    /// Order, letter case and quotes should not matter, except that Vite's order is required for names
    /// that may be words.
    #[test]
    fn entry_points_are_recognized_by_their_attributes() {
        for (element, url) in [
            (
                "<script crossorigin src=/assets/index-BIOfnJmv.js type=module></script>",
                "/assets/index-BIOfnJmv.js",
            ),
            ("<script src='./index-BIOfnJmv.js' crossorigin=\"\" TYPE=Module>", "./index-BIOfnJmv.js"),
            ("<link href=\"/a-B-Ombg3M.css\" rel=\"stylesheet\" crossorigin/>", "/a-B-Ombg3M.css"),
            ("<link crossorigin href = '/a-CAh_XF9s.js' rel=modulepreload>", "/a-CAh_XF9s.js"),
            (
                "<script nomodule crossorigin id=\"vite-legacy-polyfill\" src=\"/p-legacy-D9kLm2xQ.js\">",
                "/p-legacy-D9kLm2xQ.js",
            ),
            (
                "<script nomodule crossorigin id=\"vite-legacy-entry\" data-src=\"/i-legacy-D9kLm2xQ.js\">System.import(document\
                 .getElementById('vite-legacy-entry').getAttribute('data-src'))</script>",
                "/i-legacy-D9kLm2xQ.js",
            ),
            ("<script src=\"main-ABCDEFGH.js\" type=\"module\"></script>", "main-ABCDEFGH.js"),
            ("<link rel=\"stylesheet\" href=\"styles-5QOZHB7U.css\" media=\"print\">", "styles-5QOZHB7U.css"),
            (
                "<script type=\"module\" crossorigin src=\"/assets/main-settings.js\">",
                "/assets/main-settings.js",
            ),
        ] {
            let urls: Vec<&[u8]> = entry_urls(element.as_bytes()).collect();
            assert_eq!(urls, [url.as_bytes()], "{element}");
        }

        for element in [
            "<script type=module src=/assets/index-BIOfnJmv.js></script>",
            "<script crossorigin src=/assets/index-BIOfnJmv.js></script>",
            "<script type=module crossorigin=anonymous src=/assets/index-BIOfnJmv.js></script>",
            "<script crossorigin type=module src=/assets/main-settings.js></script>",
            "<link crossorigin rel=icon href=/a-CAh_XF9s.png>",
            "<link href=/site-settings.css rel=stylesheet crossorigin>",
            "<script src=logo-ABSTRACT.js type=module></script>",
            "<script src=main-abstract.js type=module></script>",
            "<script crossorigin type=module src=\"/a-CAh_XF9s.js",
            "<script crossorigin type=module src",
            "<script ",
            "<scripts crossorigin type=module src=/a-CAh_XF9s.js>",
        ] {
            assert_eq!(entry_urls(element.as_bytes()).count(), 0, "{element}");
        }
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
