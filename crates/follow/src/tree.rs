//! Walks the folder: its directories with their identities, and the metadata of its files.
//!
//! Symlinks are followed, and each directory is read once, so cycles end. Errors are passed over: a file that can't be read
//! now may be readable at the next walk.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns `true` if a path, relative to the folder, is followed; the second argument is `true` for a directory.
pub type Filter = Arc<dyn Fn(&Path, bool) -> bool + Send + Sync>;

/// The identity of a directory: device and inode.
pub(crate) type Identity = (u64, u64);

/// A thread reads at least this many directories, because starting it costs as much as reading a few.
const DIRECTORIES_MIN: usize = 8;

/// An entry of the folder.
pub(crate) enum Entry<'a> {
    Directory(Identity),
    File { metadata: &'a Metadata, is_link: bool },
}

/// The amount of metadata that a walk needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Directories, and the targets of symlinks. Saves a system call for each other file.
    Directories,
    /// Everything.
    Files,
}

/// Returns the identity of a directory.
pub(crate) fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// A directory that was found.
struct Found {
    path: PathBuf,
    identity: Identity,
}

/// Visits the root and everything below it that `filter` accepts.
pub(crate) fn walk(root: &Path, filter: &Filter, detail: Detail, visit: impl FnMut(&Path, Entry<'_>) + Send) {
    let mut visit = Some(visit);
    let start = || visit.take().expect("one thread has one state");
    walk_in_parallel(root, filter, detail, 1, start, |visit, path, entry| visit(path, entry));
}

/// Visits as [`walk`] does, from up to `threads` threads, each with a state of its own. Returns the states.
///
/// The directories of one depth are read in parallel. The path by which a directory is visited doesn't depend on timing.
pub(crate) fn walk_in_parallel<S: Send>(
    root: &Path,
    filter: &Filter,
    detail: Detail,
    threads: usize,
    mut start: impl FnMut() -> S,
    visit: impl Fn(&mut S, &Path, Entry<'_>) + Sync,
) -> Vec<S> {
    let mut states = vec![start()];
    let Ok(metadata) = fs::metadata(root) else { return states };
    if !metadata.is_dir() {
        return states;
    }
    let first = identity(&metadata);
    visit(&mut states[0], root, Entry::Directory(first));
    let mut visited = HashSet::from([first]);
    let mut level = vec![Found { path: root.to_owned(), identity: first }];
    while !level.is_empty() {
        let parts = level.len().div_ceil(DIRECTORIES_MIN).clamp(1, threads);
        while states.len() < parts {
            states.push(start());
        }
        let read = |state: &mut S, directories: &[Found]| {
            let mut found = Vec::new();
            for directory in directories {
                read_directory(
                    &directory.path,
                    root,
                    filter,
                    detail,
                    |path, entry| visit(state, path, entry),
                    &mut found,
                );
            }
            found
        };
        let mut next = if parts == 1 {
            read(&mut states[0], &level)
        } else {
            let chunks = level.chunks(level.len().div_ceil(parts));
            std::thread::scope(|scope| {
                let running =
                    states.iter_mut().zip(chunks).map(|(state, chunk)| scope.spawn(|| read(state, chunk)));
                let running: Vec<_> = running.collect();
                let results = running.into_iter().map(|thread| thread.join().unwrap_or_default());
                results.flatten().collect()
            })
        };
        next.sort_unstable_by(|one: &Found, other| one.path.cmp(&other.path));
        next.retain(|found| visited.insert(found.identity));
        for found in &next {
            visit(&mut states[0], &found.path, Entry::Directory(found.identity));
        }
        level = next;
    }
    states
}

/// Visits the files of a directory, and adds its directories to `found`.
fn read_directory(
    directory: &Path,
    root: &Path,
    filter: &Filter,
    detail: Detail,
    mut visit: impl FnMut(&Path, Entry<'_>),
    found: &mut Vec<Found>,
) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let is_plain_file = !kind.is_dir() && !kind.is_symlink();
        if is_plain_file && detail == Detail::Directories {
            continue;
        }

        let path = entry.path();
        let metadata = if kind.is_symlink() { fs::metadata(&path) } else { entry.metadata() };
        let Ok(metadata) = metadata else { continue };
        let is_followed = path.strip_prefix(root).is_ok_and(|path| filter(path, metadata.is_dir()));
        if !is_followed {
            continue;
        }
        if metadata.is_dir() {
            found.push(Found { path, identity: identity(&metadata) });
        } else {
            visit(&path, Entry::File { metadata: &metadata, is_link: kind.is_symlink() });
        }
    }
}
