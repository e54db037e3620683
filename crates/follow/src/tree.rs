//! Walks the folder: its directories with their identities, and the metadata of its files.
//!
//! Symlinks are followed, and each directory is read once, so cycles end. Errors are passed over: a file that can't be read
//! now may be readable at the next walk.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// Returns `true` if a path, relative to the folder, is followed; the second argument is `true` for a directory.
type NameFilter = Arc<dyn Fn(&Path, bool) -> bool + Send + Sync>;

/// Returns `true` if a symlink to a directory is followed. The arguments are its path and the metadata of the directory.
type LinkFilter = Arc<dyn Fn(&Path, &Metadata) -> bool + Send + Sync>;

/// The part of a folder that is followed.
#[derive(Clone)]
pub struct Filter {
    names: NameFilter,
    links: LinkFilter,
}

impl Filter {
    /// Follows the names for which `names` returns `true`, and all symlinks among them. Its arguments are a path relative to the
    /// folder, and `true` for a directory.
    pub fn new(names: impl Fn(&Path, bool) -> bool + Send + Sync + 'static) -> Filter {
        Filter { names: Arc::new(names), links: Arc::new(|_, _| true) }
    }

    /// Follows only symlinks to directories for which `links` returns `true`. Its arguments are the path of the symlink and the
    /// metadata of the directory.
    #[must_use]
    pub fn with_links(self, links: impl Fn(&Path, &Metadata) -> bool + Send + Sync + 'static) -> Filter {
        Filter { links: Arc::new(links), ..self }
    }

    pub(crate) fn includes(&self, path: &Path, is_directory: bool) -> bool {
        (self.names)(path, is_directory)
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filter").finish_non_exhaustive()
    }
}

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

/// A directory that a walk has found.
struct FoundDirectory {
    path: PathBuf,
    identity: Identity,
}

/// A walk through the root and everything below it that `filter` accepts.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a> {
    pub(crate) root: &'a Path,
    pub(crate) filter: &'a Filter,
    pub(crate) detail: Detail,
}

impl Walk<'_> {
    /// Visits everything, from one thread.
    pub(crate) fn run(&self, visit: impl FnMut(&Path, Entry<'_>) + Send) {
        let mut visit = Some(visit);
        let start = || visit.take().expect("one thread has one state");
        self.run_in_parallel(1, start, |visit, path, entry| visit(path, entry));
    }

    /// Visits everything, from up to `threads` threads, each with a state of its own. Returns the states.
    ///
    /// The directories of one depth are read in parallel. The path by which a directory is visited doesn't depend on timing.
    pub(crate) fn run_in_parallel<S: Send>(
        &self,
        threads: usize,
        mut start: impl FnMut() -> S,
        visit: impl Fn(&mut S, &Path, Entry<'_>) + Sync,
    ) -> Vec<S> {
        let mut states = vec![start()];
        let Ok(metadata) = fs::metadata(self.root) else { return states };
        if !metadata.is_dir() {
            return states;
        }

        let first = FoundDirectory { path: self.root.to_owned(), identity: identity(&metadata) };
        visit(&mut states[0], &first.path, Entry::Directory(first.identity));
        let mut visited = HashSet::from([first.identity]);
        let mut level = vec![first];
        while !level.is_empty() {
            let parts = level.len().div_ceil(DIRECTORIES_MIN).clamp(1, threads);
            while states.len() < parts {
                states.push(start());
            }
            let mut next = self.read_level(&level, &mut states[..parts], &visit);

            // Of several paths to a directory, the first one counts.
            next.sort_unstable_by(|one, other| one.path.cmp(&other.path));
            next.retain(|found| visited.insert(found.identity));
            for found in &next {
                visit(&mut states[0], &found.path, Entry::Directory(found.identity));
            }
            level = next;
        }
        states
    }

    /// Visits the files of the directories of one depth, a part of them from a thread for each state. Returns the directories in
    /// them.
    fn read_level<S: Send>(
        &self,
        level: &[FoundDirectory],
        states: &mut [S],
        visit: &(impl Fn(&mut S, &Path, Entry<'_>) + Sync),
    ) -> Vec<FoundDirectory> {
        let read = |state: &mut S, directories: &[FoundDirectory]| {
            let mut found = Vec::new();
            for directory in directories {
                self.read_directory(&directory.path, |path, entry| visit(state, path, entry), &mut found);
            }
            found
        };
        if let [state] = states {
            return read(state, level);
        }

        let chunks = level.chunks(level.len().div_ceil(states.len()));
        thread::scope(|scope| {
            let running =
                states.iter_mut().zip(chunks).map(|(state, chunk)| scope.spawn(|| read(state, chunk)));
            let running: Vec<_> = running.collect();
            // Without its directories, a part of the folder would seem to be removed.
            let found =
                running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            found.flatten().collect()
        })
    }

    /// Visits the files of a directory, and adds its directories to `found`.
    fn read_directory(
        &self,
        directory: &Path,
        mut visit: impl FnMut(&Path, Entry<'_>),
        found: &mut Vec<FoundDirectory>,
    ) {
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let is_plain_file = !kind.is_dir() && !kind.is_symlink();
            if is_plain_file && self.detail == Detail::Directories {
                continue;
            }

            let path = entry.path();
            let metadata = if kind.is_symlink() { fs::metadata(&path) } else { entry.metadata() };
            let Ok(metadata) = metadata else { continue };
            if !self.includes(&path, &metadata) {
                continue;
            }
            if kind.is_symlink() && metadata.is_dir() && !(self.filter.links)(&path, &metadata) {
                continue;
            }
            if metadata.is_dir() {
                found.push(FoundDirectory { path, identity: identity(&metadata) });
            } else {
                visit(&path, Entry::File { metadata: &metadata, is_link: kind.is_symlink() });
            }
        }
    }

    fn includes(&self, path: &Path, metadata: &Metadata) -> bool {
        path.strip_prefix(self.root).is_ok_and(|path| self.filter.includes(path, metadata.is_dir()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that panicked made a part of the folder seem to be removed.
    #[test]
    #[should_panic(expected = "a fault of the filter")]
    fn panic_of_a_thread_is_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..2 * DIRECTORIES_MIN {
            let directory = folder.path().join(number.to_string());
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("file"), "content").unwrap();
        }
        let filter = Filter::new(|path, _| {
            assert!(path != Path::new("1/file"), "a fault of the filter");
            true
        });
        let walk = Walk { root: folder.path(), filter: &filter, detail: Detail::Files };
        walk.run_in_parallel(2, || (), |_, _, _| ());
    }
}
