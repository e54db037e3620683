//! Lists files in folders that were left out, but may contain code and configuration which protect pages.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::pieces::SEARCHED_BYTES_MAX;
use super::{CODE, kind_of_file, path_in_site, unsearchable};
use crate::ground::diagnostic::Diagnostic;
use crate::tree::folder_file::full_path;

/// Folders, in the root of a site, with code or configuration of other hosts, and whether there should be a warning if they have
/// too many files. See [`super::FILES`].
const FOLDERS: [(&str, bool); 13] = [
    (".netlify", true),
    (".platform", true),
    (".vercel", true),
    ("_worker.js", true),
    ("api", false),
    ("conf.d", true),
    ("edge-functions", true),
    ("functions", true),
    ("netlify", true),
    ("nginx", true),
    ("sites-enabled", true),
    ("src", false),
    ("supabase", false),
];

/// Folders with many files, but none that a host would run.
const PACKAGES: [&str; 2] = [".git", "node_modules"];

/// Maximum number of names to list in a folder.
const NAMES_MAX: usize = 10_000;

/// Maximum number of bytes to search in a folder.
const BYTES_MAX: u64 = 64 << 20;

const DEPTH_MAX: usize = 12;

/// Whether a path leads into a package or a repository.
pub(super) fn is_in_package(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| PACKAGES.iter().any(|known| name == known.as_bytes()))
}

/// Lists all files to search in a folder that was left out, and reports problems.
pub(super) fn list(root: &Path, folder: &[u8]) -> (Vec<Box<[u8]>>, Vec<Diagnostic>) {
    let mut files = Vec::new();
    let mut diagnostics = Vec::new();
    if is_in_package(folder) {
        return (files, diagnostics);
    }
    let top = path_in_site(folder).split(|byte| *byte == b'/').next().unwrap_or_default();
    let Some((_, warns)) = FOLDERS.iter().find(|(name, _)| top.eq_ignore_ascii_case(name.as_bytes())) else {
        return (files, diagnostics);
    };

    let mut names_left = NAMES_MAX;
    let mut bytes_left = BYTES_MAX;
    let mut is_cut = false;
    // Files close to the top should be found first, since there might be too many.
    let mut queue: VecDeque<(Box<[u8]>, usize)> = VecDeque::from([(folder.into(), 0)]);
    while let Some((folder, depth)) = queue.pop_front() {
        let entries = match fs::read_dir(full_path(root, &folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                if *warns {
                    diagnostics.push(unsearchable(&folder, &format!("cannot be read ({error})")));
                }
                continue;
            }
        };
        let mut found: Vec<_> = entries.flatten().take(names_left + 1).collect();
        is_cut |= found.len() > names_left;
        names_left = names_left.saturating_sub(found.len());
        found.sort_unstable_by_key(fs::DirEntry::file_name);

        for entry in found {
            let name = entry.file_name();
            let path = [&*folder, b"/", name.as_bytes()].concat().into_boxed_slice();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if is_in_package(name.as_bytes()) {
                    continue;
                }
                is_cut |= depth >= DEPTH_MAX;
                if depth < DEPTH_MAX {
                    queue.push_back((path, depth + 1));
                }
            } else if kind_of_file(&path, true).is_some() {
                let length = fs::metadata(entry.path()).map_or(0, |metadata| metadata.len());
                match bytes_left.checked_sub(length.min(SEARCHED_BYTES_MAX)) {
                    Some(left) => {
                        bytes_left = left;
                        files.push(path);
                    }
                    None => is_cut = true,
                }
            }
        }
        if names_left == 0 {
            is_cut |= !queue.is_empty();
            break;
        }
    }

    if is_cut && *warns {
        let predicate = "has too many files to search all of them for access control, so pages that they protect may be public; move \
                         it out of the source folder";
        diagnostics.push(Diagnostic::warning_that(folder, CODE, predicate));
    }
    (files, diagnostics)
}
