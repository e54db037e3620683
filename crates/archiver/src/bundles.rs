//! Fingerprinted names of build tools.
//!
//! Some tools hash their input, or the content before other names were inserted. [`fingerprint`](crate::fingerprint) can't
//! verify such a name. Here we trust it if one of these shows that a tool made it:
//!
//! - its folder: `_next/static/`, `_astro/` and `_app/immutable/` are reserved for them;
//! - a manifest of the tool (`.vite/manifest.json` and the like) that lists it;
//! - an earlier release in which the same file had another hash, or already was immutable. Then we trust all names of that
//!   folder that look hashed, in the earlier release too.
//!
//! Other names that look hashed are reported, with the flag that declares them immutable. Contents aren't read.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cannery_archive::{Corrupt, Record, RecordKind, split_host};
use cannery_site::is_immutable;
use serde_json::Value;

use crate::content::Contents;
use crate::diagnostic::Diagnostic;
use crate::error::{Error, PreviousError};
use crate::previous::Previous;
use crate::source::Sources;

/// Last segments of folders that contain fingerprinted files only.
const IMMUTABLE_FOLDERS: [&[u8]; 3] = [b"_next/static/", b"_astro/", b"_app/immutable/"];

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

/// Lengths of hashes in names.
const HASH_LENGTHS: std::ops::RangeInclusive<usize> = 8..=64;

/// Length of the base64url hashes of Vite, Rollup and esbuild.
const BASE64URL_LENGTH: usize = 8;

/// Maximum number of folders that are reported individually.
const FOLDERS_REPORTED_MAX: usize = 5;

/// Returns the range of what looks like a hash in a file name: before a full stop, after a separator.
pub(crate) fn hash_in(name: &[u8]) -> Option<Range<usize>> {
    let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(end, _)| end);
    ends.filter(|end| *end > 0).find_map(|end| {
        let is_separator = |byte: &u8| matches!(byte, b'.' | b'-' | b'_');
        let plain = name[..end].iter().rposition(is_separator).map_or(0, |before| before + 1)..end;
        if looks_hashed(&name[plain.clone()]) {
            return Some(plain);
        }
        // `-` and `_` may be base64url digits if the name has a part before them.
        let start = end.checked_sub(BASE64URL_LENGTH).filter(|start| *start > 1)?;
        let token = &name[start..end];
        let is_token = token.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let letters: Vec<u8> = token.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
        let is_hash = is_token && is_separator(&name[start - 1]) && letters.len() >= 6 && is_mixed(&letters);
        is_hash.then_some(start..end)
    })
}

/// Returns `true` if letters and digits are most likely a hash, and not a word, number, date or version.
fn looks_hashed(token: &[u8]) -> bool {
    let is_alphanumeric = token.iter().all(u8::is_ascii_alphanumeric);
    let is_base32 = || token.len() == 8 && token.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7'));
    is_alphanumeric
        && HASH_LENGTHS.contains(&token.len())
        && !is_number(token)
        && (is_mixed(token) || is_base32())
}

/// Returns `true` for a number, or the width and height of an image.
fn is_number(token: &[u8]) -> bool {
    token.split(|byte| *byte == b'x').count() <= 2
        && token.iter().all(|byte| byte.is_ascii_digit() || *byte == b'x')
}

/// Returns `true` if letters and digits alternate as in no word: `3c2a7e1f` and `DKwAzefS`, but not `chapter12` or
/// `GettingStarted`.
fn is_mixed(token: &[u8]) -> bool {
    let turns = token.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    if turns >= 2 {
        return true;
    }
    let letters: Vec<u8> = token.iter().copied().filter(u8::is_ascii_alphabetic).collect();
    let capitals = letters.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    if capitals == 0 || capitals == letters.len() {
        // With letters of one case, digits at one end suggest hexadecimal.
        let digits = token.len() - letters.len();
        return turns == 1 && token.iter().all(u8::is_ascii_hexdigit) && digits >= 2;
    }
    // In words in camel case, each capital starts a word of three letters or more on average.
    let begins_words =
        letters.windows(2).all(|pair| !pair[0].is_ascii_uppercase() || pair[1].is_ascii_lowercase())
            && letters.last().is_some_and(u8::is_ascii_lowercase);
    let words = capitals + usize::from(letters.first().is_some_and(u8::is_ascii_lowercase));
    !begins_words || letters.len() < 3 * words
}

/// Splits a path at its hash: folder and name before it, and the rest after it.
fn stem(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let name_at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let hash = hash_in(&path[name_at..])?;
    Some((&path[..name_at + hash.start], &path[name_at + hash.end..]))
}

/// The separators and lengths of the hashes in folders of build tools.
///
/// Some hashes resemble a word or a number: `77229645` in hexadecimal, `BfRhxndv` in base64url. In a folder of such names, we
/// recognize them by their shape, unless they really are a word or a date.
struct Shapes<'s>(HashSet<(&'s [u8], u8, usize)>);

impl<'s> Shapes<'s> {
    fn of(sources: &'s Sources, known: &BTreeSet<Vec<u8>>) -> Shapes<'s> {
        let shapes = sources.files.iter().filter_map(|file| {
            let folder = folder_of(&file.path);
            let name = &file.path[folder.len()..];
            let hash = hash_in(name).filter(|_| known.contains(folder))?;
            let separator = name[..hash.start].last()?;
            Some((folder, *separator, hash.len()))
        });
        Shapes(shapes.collect())
    }

    /// Returns `true` if a name contains what is most likely a hash with the shape of others in its folder.
    fn contain(&self, path: &[u8]) -> bool {
        let folder = folder_of(path);
        let mut shapes = self.0.iter().filter(|(known, _, _)| *known == folder);
        shapes.any(|(_, separator, length)| has_hash_of_shape(&path[folder.len()..], *separator, *length))
    }
}

fn has_hash_of_shape(name: &[u8], separator: u8, length: usize) -> bool {
    let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(end, _)| end);
    ends.filter_map(|end| end.checked_sub(length).map(|start| start..end)).any(|range| {
        let token = &name[range.clone()];
        let is_token = token.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        range.start > 0 && name[range.start - 1] == separator && is_token && !is_word_or_date(token)
    })
}

/// Returns `true` unless letters are combined as in no word, or digits as in no date.
fn is_word_or_date(token: &[u8]) -> bool {
    if token.iter().all(u8::is_ascii_digit) {
        let number = |range: Range<usize>| std::str::from_utf8(&token[range]).ok()?.parse::<u16>().ok();
        return token.len() == 8
            && matches!(number(0..4), Some(1900..=2099))
            && matches!(number(4..6), Some(1..=12))
            && matches!(number(6..8), Some(1..=31));
    }
    let is_separator = |byte: &u8| matches!(byte, b'-' | b'_');
    let has_odd_separator = token.first().is_some_and(is_separator)
        || token.last().is_some_and(is_separator)
        || token.windows(2).any(|pair| pair.iter().all(is_separator));
    // A capital starts a word, and so does the last one of an abbreviation.
    let words = token.chunk_by(|one, next| {
        one.is_ascii_alphabetic() && next.is_ascii_lowercase()
            || one.is_ascii_uppercase() && next.is_ascii_uppercase()
    });
    !has_odd_separator && words.filter(|word| word[0].is_ascii_alphabetic()).all(is_pronounceable)
}

/// Returns `true` unless a word of letters has no vowel, too many consonants in a row, or a `q` without `u`.
fn is_pronounceable(word: &[u8]) -> bool {
    let start = word.iter().take_while(|byte| byte.is_ascii_uppercase()).count().saturating_sub(1);
    let word = &word[start..];
    let is_vowel = |byte: &u8| b"aeiouy".contains(&byte.to_ascii_lowercase());
    let longest = word.split(is_vowel).map(<[u8]>::len).max().unwrap_or(0);
    let first = word.iter().take_while(|byte| !is_vowel(byte)).count();
    let has_lone_q = word.windows(2).any(|pair| pair[0] == b'q' && pair[1] != b'u');
    longest < 6 && first < 4 && !has_lone_q
}

fn folder_of(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)]
}

fn is_in_immutable_folder(path: &[u8]) -> bool {
    IMMUTABLE_FOLDERS.iter().any(|folder| {
        path.starts_with(folder)
            || path.windows(folder.len() + 1).any(|window| window[0] == b'/' && window[1..] == **folder)
    })
}

/// The folders that build tools write to, as earlier releases show, and the names there.
pub(crate) struct ToolFolders<'s> {
    /// Each with a slash at its end, except for the site folder itself, which is empty.
    folders: BTreeSet<Vec<u8>>,
    shapes: Shapes<'s>,
}

impl<'s> ToolFolders<'s> {
    /// Finds the folders by comparing the sources with earlier releases.
    ///
    /// # Errors
    ///
    /// If an earlier archive is corrupt.
    pub(crate) fn find(sources: &'s Sources, previous: &Previous) -> Result<Self, Error> {
        let folders = folders_known(sources, previous)?;
        let shapes = Shapes::of(sources, &folders);
        Ok(Self { folders, shapes })
    }

    /// Returns `true` if a file of this release is in such a folder, and its name looks fingerprinted.
    fn has_fingerprinted(&self, path: &[u8]) -> bool {
        self.shapes.contain(path) || stem(path).is_some() && self.folders.contains(folder_of(path))
    }

    /// Returns `true` if a path of an archive is in such a folder, and its name looks fingerprinted.
    pub(crate) fn has_fingerprinted_key(&self, stored: &[u8]) -> bool {
        !self.folders.is_empty() && self.has_fingerprinted(&source_path(stored))
    }
}

/// Marks files as fingerprinted if a tool made their names, and reports names that only look like it.
pub(crate) fn mark(
    sources: &Sources,
    tool_folders: &ToolFolders<'_>,
    contents: &mut Contents,
) -> Vec<Diagnostic> {
    let listed = listed_in_manifests(&sources.root);
    let mut unmarked: BTreeMap<&[u8], (u64, &[u8])> = BTreeMap::new();
    for (file, content) in sources.files.iter().zip(&mut contents.by_source) {
        if content.fingerprinted {
            continue;
        }
        let path: &[u8] = &file.path;
        if is_in_immutable_folder(path) || listed.contains(path) || tool_folders.has_fingerprinted(path) {
            content.fingerprinted = true;
        } else if stem(path).is_some() {
            let (count, _) = unmarked.entry(folder_of(path)).or_insert((0, path));
            *count += 1;
        }
    }
    report(&unmarked)
}

fn report(unmarked: &BTreeMap<&[u8], (u64, &[u8])>) -> Vec<Diagnostic> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let note = |(folder, (count, example)): (&&[u8], &(u64, &[u8]))| {
        let names =
            if *count == 1 { "1 name here looks".to_owned() } else { format!("{count} names here look") };
        let pattern =
            if folder.is_empty() { format!("/{}", text(example)) } else { format!("/{}", text(folder)) };
        let message = format!(
            "{names} fingerprinted (`{}`), but by no hash of the content, so clients ask again after an hour and \
             no later release carries them; `--immutable '{pattern}'` says that they never change",
            text(&example[folder.len()..])
        );
        Diagnostic::note(if folder.is_empty() { b"." } else { folder }, "looks-fingerprinted", message)
    };
    let mut notes: Vec<Diagnostic> = unmarked.iter().take(FOLDERS_REPORTED_MAX).map(note).collect();
    if let Some(more) = unmarked.len().checked_sub(FOLDERS_REPORTED_MAX).filter(|more| *more > 0) {
        let message = format!("{more} more folders have names that look fingerprinted");
        notes.push(Diagnostic::note(b".", "looks-fingerprinted", message));
    }
    notes
}

/// Returns the existing files that manifests list, if their names look hashed.
fn listed_in_manifests(root: &Path) -> HashSet<Vec<u8>> {
    let mut listed = HashSet::new();
    for name in MANIFESTS {
        let path = root.join(name);
        let is_read =
            fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= MANIFEST_BYTES_MAX);
        // A file of this name may be unrelated to build tools, so invalid JSON is no fault.
        let json = is_read.then(|| fs::read(&path).ok()).flatten();
        if let Some(value) = json.and_then(|json| serde_json::from_slice::<Value>(&json).ok()) {
            collect(&value, &mut listed);
        }
    }
    listed.retain(|path| {
        let is_file = root.join(OsStr::from_bytes(path)).is_file();
        // The manifest is evidence enough for a looser look at the name.
        let name = &path[folder_of(path).len()..];
        is_file && (hash_in(name).is_some() || has_token(name))
    });
    listed
}

/// Collects all strings of a manifest as paths relative to the folder: values, and keys of Angular's table.
fn collect(value: &Value, listed: &mut HashSet<Vec<u8>>) {
    match value {
        Value::String(path) => {
            listed.insert(path.trim_start_matches("./").trim_start_matches('/').as_bytes().to_vec());
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, listed)),
        Value::Object(fields) => {
            for (key, value) in fields {
                collect(value, listed);
                if key.starts_with('/') {
                    listed.insert(key.trim_start_matches('/').as_bytes().to_vec());
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns `true` if some part of a name between separators has the length of a hash.
fn has_token(name: &[u8]) -> bool {
    let mut parts = name.split(|byte| *byte == b'.');
    let has_base64url = |part: &[u8]| {
        let start = part.len().checked_sub(BASE64URL_LENGTH).filter(|start| *start > 1);
        start.is_some_and(|start| part[start - 1] == b'-' || part[start - 1] == b'_')
    };
    parts.any(|part| part.len() == BASE64URL_LENGTH || has_base64url(part))
}

/// Returns the folders of build tools, as earlier releases show.
fn folders_known(sources: &Sources, previous: &Previous) -> Result<BTreeSet<Vec<u8>>, Error> {
    let mut folders = BTreeSet::new();
    let paths: HashSet<&[u8]> = sources.files.iter().map(|file| &*file.path).collect();
    let stems: HashSet<(&[u8], &[u8])> = sources.files.iter().filter_map(|file| stem(&file.path)).collect();
    if stems.is_empty() {
        return Ok(folders);
    }

    for earlier in &previous.archives {
        let failed = |source: Corrupt| Error::Previous {
            path: earlier.path.clone(),
            source: PreviousError::Corrupt(source),
        };
        for entry in earlier.archive.entries() {
            let entry = entry.map_err(failed)?;
            let RecordKind::Path(stored) = entry.kind() else { continue };
            let path = source_path(stored);
            let Some(stem) = stem(&path) else { continue };
            let Record::Resource(resource) = earlier.archive.decode_path(&entry).map_err(failed)? else {
                continue;
            };
            // The name is new, and the same name with another hash is gone.
            let is_renamed = stems.contains(&stem) && !paths.contains(&*path);
            if is_renamed || is_immutable(&earlier.archive, &resource).map_err(failed)? {
                folders.insert(folder_of(&path).to_vec());
            }
        }
    }
    Ok(folders)
}

/// Returns the path in the source folder of a stored key.
fn source_path(stored: &[u8]) -> Vec<u8> {
    let (host, key) = split_host(stored);
    let key = key.strip_prefix(b"/").unwrap_or(key);
    match host {
        Some(host) => [b"_hosts", host, key].join(&b'/'),
        None => key.to_vec(),
    }
}

#[cfg(test)]
mod tests;
