//! Fingerprinted names of build tools.
//!
//! Some tools hash their input, or the content before other names were inserted. [`fingerprint`](crate::fingerprint) can't
//! verify such a name. Here we trust it if one of these shows that a tool made it:
//!
//! - its folder: `_next/static/`, `_astro/` and `_app/immutable/` are reserved for them;
//! - a manifest of the tool (`.vite/manifest.json` and the like) that lists it;
//! - an entry point that Vite wrote into a page, and the imports from there;
//! - earlier releases, in which names of the same shape changed with their content.
//!
//! We never trust the names of pages, service workers and manifests: a browser with a stale one can't learn of a new one. An
//! earlier release that had other bytes under a name refutes it, whatever else speaks for it.
//!
//! Other names that look hashed are reported, with the flag that declares them immutable.

mod evidence;
mod manifests;
mod names;
pub(crate) mod vite;

use std::collections::{BTreeMap, HashSet};

use self::names::{folder_of, split};
use crate::caching::is_service_worker;
use crate::classify::{essence, file_name};
use crate::content::Contents;
use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::options::Options;
use crate::source::Sources;

pub(crate) use self::evidence::{Evidence, source_path};

/// Last segments of folders that contain fingerprinted files only.
const IMMUTABLE_FOLDERS: [&[u8]; 3] = [b"_next/static/", b"_astro/", b"_app/immutable/"];

/// Maximum number of folders that are reported individually.
const FOLDERS_REPORTED_MAX: usize = 5;

/// Maximum number of files that are reported individually because they have changed.
const CHANGED_REPORTED_MAX: usize = 10;

/// Decides which names may be inferred to be fingerprints at all.
#[derive(Clone, Copy)]
pub(crate) struct InferableNames<'a>(pub(crate) &'a Options);

impl InferableNames<'_> {
    /// Returns `false` for pages, service workers and manifests.
    pub(crate) fn may_infer(&self, path: &[u8]) -> bool {
        let is_entry = matches!(
            essence(self.0.media_types.of(path).text),
            "text/html" | "application/xhtml+xml" | "application/manifest+json" | "text/cache-manifest"
        );
        !is_entry && !is_service_worker(file_name(path))
    }
}

fn is_in_immutable_folder(path: &[u8]) -> bool {
    IMMUTABLE_FOLDERS.iter().any(|folder| {
        path.starts_with(folder)
            || path.windows(folder.len() + 1).any(|window| window[0] == b'/' && window[1..] == **folder)
    })
}

/// Forgets verified digests in names that are no fingerprints all the same.
pub(crate) fn unmark_entries(options: &Options, sources: &Sources, contents: &mut Contents) {
    for (file, content) in sources.files.iter().zip(&mut contents.by_source) {
        content.fingerprinted &= InferableNames(options).may_infer(&file.path);
    }
}

/// Marks files as fingerprinted if a tool made their names, and reports names that only look like it. Files that have changed
/// under their name lose their mark.
///
/// # Errors
///
/// If a source can't be read.
pub(crate) fn mark(
    options: &Options,
    sources: &Sources,
    evidence: &mut Evidence,
    contents: &mut Contents,
) -> Result<Vec<Diagnostic>, Error> {
    let listed = manifests::listed(&sources.root);
    let chunks = vite::chunks(sources, options)?;
    let mut unmarked: BTreeMap<&[u8], Unmarked<'_>> = BTreeMap::new();
    let mut mutable_folders = HashSet::new();
    let mut changed = Vec::new();
    let mut newly_mutable = Vec::new();
    for (file, content) in sources.files.iter().zip(&mut contents.by_source) {
        let path: &[u8] = &file.path;
        if let Some(refuted) = evidence.refutation(path) {
            if content.fingerprinted || refuted.immutable_in.is_some() {
                changed.push(changed_file(path, content.fingerprinted, Some(refuted)));
                newly_mutable.push(path.to_vec());
            }
            content.fingerprinted = false;
        } else if content.fingerprinted && evidence.is_kept_mutable(path) {
            changed.push(changed_file(path, true, None));
            content.fingerprinted = false;
        }
        if content.fingerprinted {
            continue;
        }
        let is_candidate = InferableNames(options).may_infer(path)
            && evidence.refutation(path).is_none()
            && !evidence.is_kept_mutable(path);
        if !is_candidate {
            mutable_folders.insert(folder_of(path));
        } else if is_in_immutable_folder(path)
            || listed.contains(path)
            || chunks.contains(path)
            || evidence.has_fingerprinted(path)
        {
            content.fingerprinted = true;
        } else if split(path).is_some() {
            let unmarked = unmarked.entry(folder_of(path)).or_insert(Unmarked { count: 0, example: path });
            unmarked.count += 1;
        } else {
            mutable_folders.insert(folder_of(path));
        }
    }

    evidence.keep_mutable(&newly_mutable);

    let mut remarks = report(&unmarked, &mutable_folders);
    let more = changed.len().saturating_sub(CHANGED_REPORTED_MAX);
    remarks.extend(changed.into_iter().take(CHANGED_REPORTED_MAX));
    if more > 0 {
        let message =
            format!("{more} more files have other bytes than in an earlier release, and aren't immutable");
        remarks.push(Diagnostic::warning(b".", "immutable-changed", message));
    }
    Ok(remarks)
}

/// Returns the warning about a file that is immutable by a flag, or was in an earlier release, and has changed.
fn changed_file(path: &[u8], is_declared: bool, refuted: Option<&evidence::Refuted>) -> Diagnostic {
    let name = String::from_utf8_lossy(path);
    let immutable_in = refuted.and_then(|refuted| refuted.immutable_in);
    let since =
        refuted.map_or("an earlier release".to_owned(), |refuted| format!("release {}", refuted.serial));
    let message = match immutable_in {
        Some(serial) => format!(
            "`{name}` has other bytes than in release {serial}, which sent it as immutable: clients keep those for up to a \
             year. It isn't immutable any more; give it another name, and refer to that, so that all clients get the new bytes"
        ),
        None if is_declared => format!(
            "`{name}` had other bytes in {since}, so it isn't sent as immutable, although `--immutable` matches it; rename it \
             whenever it changes, or exclude it with `--immutable '!/{name}'`"
        ),
        None => format!("`{name}` had other bytes in {since}, so its name isn't a fingerprint"),
    };
    Diagnostic::warning(path, "immutable-changed", message)
}

/// The names in a folder that look hashed.
struct Unmarked<'s> {
    count: u64,
    example: &'s [u8],
}

fn report(unmarked: &BTreeMap<&[u8], Unmarked<'_>>, mutable_folders: &HashSet<&[u8]>) -> Vec<Diagnostic> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let note = |(folder, Unmarked { count, example }): (&&[u8], &Unmarked<'_>)| {
        let names =
            if *count == 1 { "1 name here looks".to_owned() } else { format!("{count} names here look") };
        let has_others = mutable_folders.iter().any(|other| other.starts_with(folder));
        let pattern = match split(example) {
            _ if folder.is_empty() && *count == 1 => text(example),
            // Another file of the folder may well change.
            Some((before, hash, after)) if has_others || folder.is_empty() => {
                let separator = text(&before[before.len().saturating_sub(1).max(folder.len())..]);
                format!("{}*{separator}{}{}", text(folder), "?".repeat(hash.len()), text(after))
            }
            _ => text(folder),
        };
        let message = format!(
            "{names} fingerprinted (`{}`), but by no hash of the content, so clients ask again after an hour and \
             no later release carries them; `--immutable '/{pattern}'` says that they never change",
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

#[cfg(test)]
mod tests;
