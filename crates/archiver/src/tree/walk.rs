//! Walk of the source folder: a sorted list of files and folders.
//!
//! The walk reads names and inodes only; it opens no file, and its result doesn't depend on the order of directory entries.
//! Names are bytes, because a URL can contain any byte.
//!
//! We follow symlinks. A link out of the root is reported or left out unless it is allowed, and a link to a folder above it is
//! left out, as is one into a file system of the kernel (`boundary`). If several links lead to one folder, it is read once per depth. Because each level of links within links can
//! double the number of paths to a folder, we limit that number.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_base::FileStamp;
use rayon::prelude::*;

use crate::ground::diagnostic::Diagnostic;
use crate::tree::boundary::{Boundary, LinksOut, Place};
use crate::tree::folder_file::kind_of;
use crate::tree::skip::{SkipReason, SkipRules};
use crate::tree::sparse::may_be_sparse;

/// Maximum number of paths through links within links to one folder.
const LINKED_PATHS_MAX: usize = 256;

/// Maximum number of links out of the root that are reported individually.
const OUTSIDE_REPORTED_MAX: usize = 5;

/// Code of the warning about a link out of the root.
const OUTSIDE: &str = "symlink-outside";

/// The result of a walk. Each list is sorted by the bytes of the paths.
///
/// Paths are relative to the source root, with `/` between segments and none at either end.
#[derive(Debug, Default)]
pub struct Walked {
    /// The regular files, with symlinks resolved.
    pub files: Vec<SourceFile>,
    /// The folders that were read. The root comes first, with an empty path.
    pub folders: Vec<Box<[u8]>>,
    /// Names that the skip rules left out, without anything below skipped folders.
    pub skipped: Vec<Skipped>,
    /// Files that have far fewer blocks than their length needs.
    pub thin: Vec<Box<[u8]>>,
    /// Names that couldn't be read, and why.
    pub diagnostics: Vec<Diagnostic>,
}

/// A file of the source folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path relative to the source root.
    pub path: Box<[u8]>,
    /// Its version. While it stays the same, so does the content.
    pub stamp: FileStamp,
}

/// A name that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The path relative to the source root.
    pub path: Box<[u8]>,
    /// `true` for a folder, below which nothing was listed.
    pub is_folder: bool,
    /// The rule that left it out.
    pub reason: SkipReason,
}

/// Why a walk can't start. Later errors are diagnostics.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// The source root doesn't exist or can't be read.
    #[error("cannot read the source folder {}: {source}; check that it exists and may be read", path.display())]
    Root {
        /// The source root in the options.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The source root isn't a folder.
    #[error("the source {} is not a folder; name the folder that holds the site", path.display())]
    NotAFolder {
        /// The source root in the options.
        path: PathBuf,
    },
}

/// Lists everything in `root` that `rules` don't leave out, with all threads of the current pool.
///
/// # Errors
/// Returns an error if the root can't be read or isn't a folder.
pub fn walk(root: &Path, rules: &SkipRules, links_out: LinksOut) -> Result<Walked, WalkError> {
    let root_error = |source| WalkError::Root { path: root.to_owned(), source };
    let metadata = fs::metadata(root).map_err(root_error)?;
    if !metadata.is_dir() {
        return Err(WalkError::NotAFolder { path: root.to_owned() });
    }

    // Errors of folders below are warnings; an unreadable root must fail the walk.
    fs::read_dir(root).map_err(root_error)?;
    // Names in the root can be looked up only with the permission to search it.
    fs::metadata(root.join(".")).map_err(root_error)?;
    let boundary = Boundary::of(root, links_out).map_err(root_error)?;

    let walk = Walk { root, boundary, rules };
    let mut walked = Walked::default();
    let mut linked_paths = HashMap::new();
    let mut level = vec![Folder::root(&metadata)];
    // Folders of one depth are read in parallel. Going level by level instead of recursively bounds the stack.
    while !level.is_empty() {
        level
            .sort_unstable_by(|one, other| (one.identity(), &one.path).cmp(&(other.identity(), &other.path)));
        let groups: Vec<&[Folder]> =
            level.chunk_by(|one, other| one.identity() == other.identity()).collect();
        let readings: Vec<Vec<Reading>> = groups.par_iter().map(|group| walk.read(group)).collect();

        let mut next = Vec::new();
        for reading in readings.into_iter().flatten() {
            next.extend(reading.subfolders);
            walked.append(reading.found);
        }

        // The order decides which paths to a folder exceed the limit.
        next.sort_unstable_by(|one: &Folder, other| one.path.cmp(&other.path));
        next.retain(|folder| walked.admit(folder, &mut linked_paths) == Admission::Admitted);
        level = next;
    }

    walked.sort();
    walked.summarize_links_out();
    Ok(walked)
}

impl Walked {
    /// Appends the lists of another walk.
    fn append(&mut self, mut other: Walked) {
        self.files.append(&mut other.files);
        self.folders.append(&mut other.folders);
        self.skipped.append(&mut other.skipped);
        self.thin.append(&mut other.thin);
        self.diagnostics.append(&mut other.diagnostics);
    }

    /// Counts a path to a folder if it has links within links, and warns about the first one that is too many.
    fn admit(&mut self, folder: &Folder, linked_paths: &mut HashMap<(u64, u64), usize>) -> Admission {
        if folder.links < 2 {
            return Admission::Admitted;
        }
        let paths = linked_paths.entry(folder.identity()).or_default();
        *paths += 1;
        if *paths <= LINKED_PATHS_MAX {
            return Admission::Admitted;
        }
        if *paths == LINKED_PATHS_MAX + 1 {
            let message = format!(
                "more than {LINKED_PATHS_MAX} paths through nested symlinks lead to this folder, so it is left out at \
                 this path and later ones; remove some of the links"
            );
            self.diagnostics.push(Diagnostic::warning(&folder.path, "symlink-fan", message));
        }
        Admission::LeftOut
    }

    /// Replaces all but the first few warnings about links out of the root with their number.
    fn summarize_links_out(&mut self) {
        let mut outside = 0;
        self.diagnostics.retain(|diagnostic| {
            outside += usize::from(diagnostic.code == OUTSIDE);
            diagnostic.code != OUTSIDE || outside <= OUTSIDE_REPORTED_MAX
        });
        if outside > OUTSIDE_REPORTED_MAX {
            let more = outside - OUTSIDE_REPORTED_MAX;
            let message = format!("{more} more symlinks lead out of the source folder");
            self.diagnostics.push(Diagnostic::warning(b".", OUTSIDE, message));
        }
    }

    fn sort(&mut self) {
        // No path occurs twice in a list, so an unstable sort is deterministic.
        self.files.par_sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.folders.par_sort_unstable();
        self.skipped.par_sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.diagnostics.sort_by(|a, b| (&a.file, &a.message).cmp(&(&b.file, &b.message)));
    }
}

/// A folder to be read.
struct Folder {
    path: Box<[u8]>,
    lineage: Arc<Lineage>,
    /// Number of symlinks in its path.
    links: u32,
    /// The target of the link by which its path left the root, if it did.
    outside: Option<Arc<Path>>,
}

impl Folder {
    fn root(metadata: &Metadata) -> Folder {
        Folder { path: Box::default(), lineage: Lineage::root(metadata), links: 0, outside: None }
    }

    fn identity(&self) -> (u64, u64) {
        (self.lineage.device, self.lineage.inode)
    }
}

/// The identity of a folder, and of the folders above it.
struct Lineage {
    device: u64,
    inode: u64,
    parent: Option<Arc<Lineage>>,
}

impl Lineage {
    fn root(metadata: &Metadata) -> Arc<Lineage> {
        Arc::new(Lineage { device: metadata.dev(), inode: metadata.ino(), parent: None })
    }

    fn child(self: &Arc<Lineage>, metadata: &Metadata) -> Arc<Lineage> {
        Arc::new(Lineage { device: metadata.dev(), inode: metadata.ino(), parent: Some(Arc::clone(self)) })
    }

    fn contains(&self, metadata: &Metadata) -> bool {
        let mut ancestors = std::iter::successors(Some(self), |lineage| lineage.parent.as_deref());
        ancestors.any(|ancestor| (ancestor.device, ancestor.inode) == (metadata.dev(), metadata.ino()))
    }
}

/// Whether a path to a folder is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    Admitted,
    /// Too many paths through links within links lead to the folder.
    LeftOut,
}

/// The entries of one folder.
#[derive(Default)]
struct Reading {
    found: Walked,
    subfolders: Vec<Folder>,
}

/// State shared by all folders of a walk.
struct Walk<'a> {
    root: &'a Path,
    boundary: Boundary,
    rules: &'a SkipRules,
}

/// A name in a folder.
struct Entry {
    name: Vec<u8>,
    is_link: bool,
    metadata: io::Result<Metadata>,
    place: Place,
}

impl Walk<'_> {
    /// Reads one folder, for each path that leads to it.
    fn read(&self, paths: &[Folder]) -> Vec<Reading> {
        let Some(first) = paths.first() else { return Vec::new() };
        let mut entries = Vec::new();
        let mut read_error = None;

        // Joining an empty path adds a `/`, which is harmless if the root is a symlink.
        match fs::read_dir(self.root.join(OsStr::from_bytes(&first.path))) {
            Ok(found) => {
                for entry in found {
                    match entry {
                        Ok(entry) => entries.push(self.examine(&entry)),
                        Err(error) => {
                            read_error = Some(format!(
                                "the folder cannot be read to the end, so files may be missing; check the disk, and \
                                 build again: {error}"
                            ));
                            break;
                        }
                    }
                }
            }
            // It was removed after its parent was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                let message = format!(
                    "the folder cannot be read and is left out; make it readable for this user, or exclude it with \
                     `.canneryignore`: {error}"
                );
                return paths.iter().map(|folder| Reading::unreadable(folder, message.clone())).collect();
            }
        }

        let reading = |folder: &Folder| {
            let mut reading = Reading::default();
            reading.found.folders.push(folder.path.clone());
            for entry in &entries {
                reading.add(folder, entry, self);
            }
            if let Some(message) = &read_error {
                reading.warn(&folder.path, "unreadable-folder", message.clone());
            }
            reading
        };
        paths.iter().map(reading).collect()
    }

    fn examine(&self, entry: &fs::DirEntry) -> Entry {
        let name = entry.file_name().into_vec();
        // `DirEntry::metadata` saves a path lookup in the kernel. Only a link needs one.
        let found = entry.metadata();
        let is_link = found.as_ref().is_ok_and(Metadata::is_symlink);
        let metadata = if is_link { fs::metadata(entry.path()) } else { found };
        let place = metadata
            .as_ref()
            .map_or(Place::Inside, |metadata| self.boundary.place(&entry.path(), metadata, is_link));
        Entry { name, is_link, metadata, place }
    }
}

impl Reading {
    fn unreadable(folder: &Folder, message: String) -> Reading {
        let mut reading = Reading::default();
        reading.warn(&folder.path, "unreadable-folder", message);
        reading
    }

    /// Adds an entry of a folder: a file, a folder to be read, a skipped name or a warning.
    fn add(&mut self, folder: &Folder, entry: &Entry, walk: &Walk<'_>) {
        let path = join(&folder.path, &entry.name);
        // Before errors are reported, because editors lock files with dangling symlinks, which a rule leaves out.
        let is_folder = entry.metadata.as_ref().is_ok_and(Metadata::is_dir);
        if let Some(reason) = walk.rules.verdict(&path, is_folder) {
            self.found.skipped.push(Skipped { path, is_folder, reason });
            return;
        }
        let metadata = match &entry.metadata {
            Ok(metadata) => metadata,
            // It was removed after its folder was listed.
            Err(error) if !entry.is_link && error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.warn_unresolved(&path, entry, error),
        };

        let leaving = match &entry.place {
            Place::Above => {
                let message = "this leads to a folder that contains the source folder, and is left out; link to a folder beside it";
                return self.warn(&path, "symlink-loop", message.to_owned());
            }
            Place::Kernel => {
                let message = "this leads into a file system of the kernel, such as `/proc`, and is left out; copy the content into \
                               the folder";
                return self.warn(&path, "kernel-file", message.to_owned());
            }
            // A link in a folder outside the root was reported with the link that leads there.
            Place::Outside(target)
                if folder.outside.as_ref().is_some_and(|known| target.starts_with(known)) =>
            {
                None
            }
            Place::Outside(target) => Some(target),
            Place::Inside => None,
        };
        if let Some(target) = leaving
            && (metadata.is_file() || metadata.is_dir())
        {
            let target = target.display();
            if walk.boundary.links_out() == LinksOut::LeftOut {
                let message = format!(
                    "this symlink leads out of the source folder, to {target}, and is left out; `--follow-links` publishes the \
                     targets of such links"
                );
                return self.warn(&path, OUTSIDE, message);
            }
            let message = format!(
                "this symlink leads out of the source folder, to {target}, which is published; leave it out with `--ignore`, \
                 or allow it with `--follow-links`"
            );
            self.warn(&path, OUTSIDE, message);
        }

        if metadata.is_file()
            && let Some(reason) = walk.rules.verdict_of_length(&path, metadata.len())
        {
            self.found.skipped.push(Skipped { path, is_folder, reason });
        } else if metadata.is_file() {
            if may_be_sparse(metadata) {
                self.found.thin.push(path.clone());
            }
            self.found.files.push(SourceFile { path, stamp: FileStamp::of(metadata) });
        } else if !metadata.is_dir() {
            let message = format!("{} cannot be served and is left out", kind_of(metadata));
            self.warn(&path, "not-a-file", message);
        } else if folder.lineage.contains(metadata) {
            let message = "this symlink leads back to a folder above it and is left out; remove it to silence this warning";
            self.warn(&path, "symlink-loop", message.to_owned());
        } else {
            let links = folder.links + u32::from(entry.is_link);
            let outside = leaving.or(folder.outside.as_ref()).cloned();
            self.subfolders.push(Folder { lineage: folder.lineage.child(metadata), path, links, outside });
        }
    }

    fn warn_unresolved(&mut self, path: &[u8], entry: &Entry, error: &io::Error) {
        if entry.is_link {
            let message =
                format!("this symlink cannot be resolved and is left out; fix or remove it: {error}");
            self.warn(path, "broken-symlink", message);
        } else {
            self.warn(
                path,
                "unreadable-file",
                format!(
                    "the metadata of this file cannot be read, so it is left out; make its folder accessible for \
                     this user, or exclude it with `.canneryignore`: {error}"
                ),
            );
        }
    }

    fn warn(&mut self, path: &[u8], code: &'static str, message: String) {
        let shown: &[u8] = if path.is_empty() { b"." } else { path };
        self.found.diagnostics.push(Diagnostic::warning(shown, code, message));
    }
}

fn join(folder: &[u8], name: &[u8]) -> Box<[u8]> {
    if folder.is_empty() { name.into() } else { [folder, b"/", name].concat().into_boxed_slice() }
}

#[cfg(test)]
mod tests;
