//! Recognizes fingerprinted names that were made by build tools.
//!
//! Some tools hash their input, or the content before other names are inserted. The hash will not match the content then, so
//! [`fingerprint`](crate::properties::fingerprint) is unable to verify such names. We may still trust them if there is evidence
//! that they were made by a tool:
//!
//! - Its folder: `_app/immutable/` is reserved for fingerprints, as are names with a hash in `_next/static/`, `_astro/` and
//!   `_nuxt/`.
//! - A file that is only written by this tool, together with a name in the tool's style (Gatsby,
//!   Trunk).
//! - A manifest in the tool's own format that lists the name, e.g. `.vite/manifest.json`.
//! - Imports that start from an entry point which Vite or Angular has written into a page.
//! - Earlier releases in which the name of a similar script changed along with its content.
//!
//! However, we must never trust names of pages (by suffix or by a `Content-Type` rule), service workers or manifests, since a
//! browser with a stale copy would never learn about a new one. Any evidence is refuted if an earlier release had other bytes
//! under the same name.
//!
//! Other names that look like they contain a hash are reported, along with the flag that would
//! declare them immutable.

mod evidence;
mod manifests;
mod names;
mod tools;
pub(crate) mod vite;

use std::collections::{BTreeMap, HashSet};

use cannery_archive::{Key, KeyBuffer};

use self::names::{folder_of, split};
use self::tools::{ToolSites, is_in_tool_folder};
use crate::contents::content::Contents;
use crate::ground::diagnostic::Diagnostic;
use crate::hosts::site_path::{Site, site_of};
use crate::properties::caching::is_service_worker;
use crate::properties::classify::{essence, file_name};
use crate::routes::{Routes, site_index};
use crate::rulefiles::headers::{self, HeaderRule};
use crate::settings::error::Error;
use crate::settings::options::Options;
use crate::sources::source::Sources;

pub(crate) use self::evidence::Evidence;

/// Maximum number of folders to report individually.
const FOLDERS_REPORTED_MAX: usize = 5;

/// Maximum number of changed files to report individually.
const CHANGED_REPORTED_MAX: usize = 10;

/// Decides which names may be fingerprints at all.
#[derive(Clone, Copy)]
pub(crate) struct InferableNames<'a> {
    options: &'a Options,
    /// Header rules of each site that set a media type, as well as routes for finding the site of a
    /// path.
    typed: Option<(&'a Routes, &'a [Vec<HeaderRule>])>,
}

impl<'a> InferableNames<'a> {
    pub(super) fn new(options: &'a Options) -> InferableNames<'a> {
        InferableNames { options, typed: None }
    }

    pub(crate) fn with_rules(
        options: &'a Options,
        routes: &'a Routes,
        rules: &'a [Vec<HeaderRule>],
    ) -> InferableNames<'a> {
        let sets_type = |rule: &HeaderRule| rule.fields.iter().any(|field| field.name() == "content-type");
        let typed = rules.iter().flatten().any(sets_type).then_some((routes, rules));
        InferableNames { options, typed }
    }

    /// Returns `false` for pages, service workers and manifests.
    pub(super) fn may_infer(&self, path: &[u8]) -> bool {
        let is_page_by_rule = || self.ruled_type(path).is_some_and(|text| is_entry_type(&text));
        !is_entry_type(self.options.media_types.of(path).text)
            && !is_service_worker(file_name(path))
            && !is_page_by_rule()
    }

    /// Looks up the media type that header rules set for a path in the source folder.
    fn ruled_type(&self, path: &[u8]) -> Option<String> {
        let (routes, rules) = self.typed?;
        let (host, path) = match site_of(path) {
            Site::Default(path) => (None, path),
            Site::Host(name, path) => (routes.host_id(&name)?, path),
            Site::Invalid(_) => return None,
        };
        let mut buffer = KeyBuffer::new();
        let key = Key::from_file(path, &mut buffer).ok()?;
        let merged = headers::merge(rules.get(site_index(host))?, routes.host_name(host), key.bytes());
        merged.fields.into_iter().find(|(name, _)| name == "content-type").map(|(_, value)| value)
    }
}

fn is_entry_type(text: &str) -> bool {
    let entries = ["text/html", "application/xhtml+xml", "application/manifest+json", "text/cache-manifest"];
    entries.iter().any(|entry| essence(text).trim().eq_ignore_ascii_case(entry))
}

/// Removes the mark from names that do contain a verified digest, but can't be fingerprints for some other
/// reason.
pub(crate) fn unmark_entries(names: InferableNames<'_>, sources: &Sources, contents: &mut Contents) {
    for (file, content) in sources.files.iter().zip(&mut contents.by_source) {
        content.fingerprinted &= names.may_infer(&file.path);
    }
}

/// Marks files as fingerprinted if their names were made by a tool. Names that only look like this are reported. The mark is
/// removed when the bytes under a name have changed since an earlier release.
///
/// # Errors
///
/// This will fail if a source cannot be read.
pub(crate) fn mark(
    names: InferableNames<'_>,
    sources: &Sources,
    evidence: &mut Evidence,
    contents: &mut Contents,
) -> Result<Vec<Diagnostic>, Error> {
    let listed = manifests::listed(&sources.root);
    let chunks = vite::chunks(sources, names.options)?;
    let tool_sites = ToolSites::of(sources.files.iter().map(|file| &*file.path));

    let mut unmarked: BTreeMap<&[u8], Unmarked<'_>> = BTreeMap::new();
    let mut mutable_folders = HashSet::new();
    let mut changed = Vec::new();
    let mut newly_mutable = Vec::new();
    for (file, content) in sources.files.iter().zip(&mut contents.by_source) {
        // Earlier releases have the last word: if one of them had other bytes under this name, it is not a
        // fingerprint.
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

        let is_candidate =
            names.may_infer(path) && evidence.refutation(path).is_none() && !evidence.is_kept_mutable(path);
        if !is_candidate {
            mutable_folders.insert(folder_of(path));
        } else if is_in_tool_folder(path)
            || tool_sites.have_made(path)
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

/// Warns about a changed file that used to be immutable, either because of a flag or in an earlier
/// release.
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

/// Names in a folder that look hashed.
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
            // The pattern must not match any other files in this folder, because these may change.
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
