//! Walks a folder to find its directories and their identities, and the metadata of its files.
//!
//! Symlinks are followed, but each directory is only read once, so cycles are not a problem. Errors are ignored: if we are unable
//! to read a file now, the next walk may well succeed.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// Decides whether to follow a path.
///
/// The arguments are the path relative to the folder, and `true` for directories.
type NameFilter = Arc<dyn Fn(&Path, bool) -> bool + Send + Sync>;

/// Decides whether to follow a symlink to a directory.
///
/// The arguments are the symlink's path and the directory's metadata.
type LinkFilter = Arc<dyn Fn(&Path, &Metadata) -> bool + Send + Sync>;

/// Decides which part of a folder to follow.
#[derive(Clone)]
pub struct Filter {
    names: NameFilter,
    links: LinkFilter,
}

impl Filter {
    /// Follows names for which `names` returns `true`, including symlinks.
    ///
    /// It is called with a path relative to the folder, and `true` for directories.
    pub fn new(names: impl Fn(&Path, bool) -> bool + Send + Sync + 'static) -> Filter {
        Filter { names: Arc::new(names), links: Arc::new(|_, _| true) }
    }

    /// Restricts symlinks to directories to those for which `links` returns `true`.
    ///
    /// It is called with the symlink's path and the directory's metadata.
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

/// Identity of a directory: device and inode.
pub(crate) type Identity = (u64, u64);

/// Minimum number of directories per thread. Below this, starting a thread would take longer than reading
/// the directories.
const DIRECTORIES_MIN: usize = 8;

pub(crate) enum Entry<'a> {
    Directory(Identity),
    File { metadata: &'a Metadata, is_link: bool },
}

/// Which metadata a walk needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Only directories and symlink targets. This saves a system call for each of the other
    /// files.
    Directories,
    /// Everything.
    Files,
}

pub(crate) fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

struct FoundDirectory {
    path: PathBuf,
    identity: Identity,
}

/// A walk through the root and everything below that is accepted by `filter`.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a> {
    pub(crate) root: &'a Path,
    pub(crate) filter: &'a Filter,
    pub(crate) detail: Detail,
}

impl Walk<'_> {
    /// Visits everything on a single thread.
    pub(crate) fn run(&self, visit: impl FnMut(&Path, Entry<'_>) + Send) {
        let mut visit = Some(visit);
        let start = || visit.take().expect("one thread has one state");
        self.run_in_parallel(1, start, |visit, path, entry| visit(path, entry));
    }

    /// Visits everything on up to `threads` threads, each of which has its own state, and returns all
    /// states.
    ///
    /// Directories of the same depth are read in parallel. However, the path by which a directory is visited does not
    /// depend on timing.
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

            // If several paths lead to the same directory, use the first.
            next.sort_unstable_by(|one, other| one.path.cmp(&other.path));
            next.retain(|found| visited.insert(found.identity));
            for found in &next {
                visit(&mut states[0], &found.path, Entry::Directory(found.identity));
            }
            level = next;
        }
        states
    }

    /// Visits the files in all directories of the same depth and returns the directories found in them.
    ///
    /// Each state gets a thread and a part of the directories.
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
            // Propagate panics of other threads. Without their directories, this part of the folder would seem to have been
            // removed.
            let found =
                running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            found.flatten().collect()
        })
    }

    /// Visits the files in a directory and adds its subdirectories to `found`.
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
            // The filter needs to know whether this is a directory, so it can only be applied after
            // the system call.
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

    /// Regression test: after a panic of a thread, its part of the folder would seem to have been
    /// removed.
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
