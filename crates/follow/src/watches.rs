//! Watches of the system: inotify on Linux, FSEvents on macOS, kqueue on the BSDs.
//!
//! We watch directories rather than files, because editors replace files. Where the system can watch a tree as a whole, one
//! watch suffices. Elsewhere each directory has one, and those of new directories are added after the event that announces
//! them; because files may have been created in between, the caller must scan again afterwards.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Config, ErrorKind, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::file_system;
use crate::tree::{Detail, Entry, Filter, Identity, Walk};

/// `true` if one watch covers a whole tree at no cost for each directory.
const WATCHES_TREES: bool = cfg!(target_os = "macos");

/// An event of the system, reduced to what matters here.
#[derive(Debug)]
pub(crate) enum Signal {
    /// A file has changed.
    Changed(PathBuf),
    /// A name was created, renamed or removed.
    Name(PathBuf),
    /// Events were lost.
    Lost,
    /// Not all directories can be watched.
    Failed(WatchError),
}

/// A limit of the system for events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The watched directories of a user: `fs.inotify.max_user_watches` on Linux.
    Watches,
    /// The event queues of a user (`fs.inotify.max_user_instances` on Linux), or the open files.
    Instances,
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Limit::Watches => "watched directories",
            Limit::Instances => "event queues",
        })
    }
}

/// Why directories can't be watched.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum WatchError {
    /// A limit of the system is reached.
    #[error("the limit of {0} is reached")]
    Limit(Limit),
    /// This file system, of the folder or of a part of it, has no events for changes by other machines.
    #[error("{0} reports no changes by other machines")]
    FileSystem(&'static str),
    #[error("{0}")]
    Other(String),
}

impl From<notify::Error> for WatchError {
    fn from(error: notify::Error) -> WatchError {
        match error.kind {
            ErrorKind::MaxFilesWatch => WatchError::Limit(Limit::Watches),
            // `EMFILE` and `ENFILE` of `inotify_init(2)`. Watching a directory opens no file.
            ErrorKind::Io(source) if is_out_of_files(&source) => WatchError::Limit(Limit::Instances),
            kind => WatchError::Other(notify::Error::new(kind).to_string()),
        }
    }
}

/// Maximum number of walks of one update. A program that creates directories faster than we watch them gets events for most.
const WALKS_MAX: u32 = 20;

/// Whether a walk has found directories that weren't watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coverage {
    Complete,
    /// Directories may have been created in them before they were watched.
    Extended,
}

/// The outcome of watching a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchOutcome {
    Watched,
    /// It doesn't exist any more, or may not be read.
    Inaccessible,
}

/// Names of interest, by their directories.
type NamesByDirectory = HashMap<PathBuf, HashSet<PathBuf>>;

/// The watches of a folder.
pub(crate) struct Watches {
    watcher: RecommendedWatcher,
    /// The watched directories of the folder.
    directories: HashMap<PathBuf, Identity>,
    /// Watched directories outside the folder, and the names in them that matter: symlinks on the way to the folder, the
    /// folder itself, and targets of links to files.
    outside: NamesByDirectory,
}

impl Watches {
    /// Starts the watcher, which sends signals from a thread of its own. Call [`Watches::update`] next.
    pub(crate) fn new<T: From<Signal> + Send + 'static>(sender: Sender<T>) -> Result<Watches, WatchError> {
        let handler = move |event: notify::Result<notify::Event>| {
            for signal in signals(event) {
                // This fails only if the follower was dropped.
                let _ = sender.send(signal.into());
            }
        };
        let watcher = RecommendedWatcher::new(handler, Config::default())?;
        Ok(Watches { watcher, directories: HashMap::new(), outside: HashMap::new() })
    }

    /// Returns `true` if a change of this path matters.
    pub(crate) fn concerns(&self, root: &Path, filter: &Filter, path: &Path) -> bool {
        if let Ok(inside) = path.strip_prefix(root) {
            // A removed name may have been that of a file or of a directory.
            return inside == Path::new("")
                || filter.includes(inside, false)
                || filter.includes(inside, true);
        }
        WATCHES_TREES || self.outside.values().any(|names| names.contains(path))
    }

    /// Returns `true` if a name that was created, renamed or removed is or was that of a directory, or leads to one.
    pub(crate) fn may_be_directory(&self, path: &Path) -> bool {
        self.directories.keys().any(|directory| directory.starts_with(path))
            || fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
            || self.outside.values().any(|names| names.contains(path))
    }

    /// Forgets the watches of a directory that was created, renamed or removed, and of those below it.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.directories.retain(|directory, _| !directory.starts_with(path));
    }

    /// Watches the directories that exist now.
    pub(crate) fn update(&mut self, root: &Path, filter: &Filter) -> Result<(), WatchError> {
        for _ in 0..WALKS_MAX {
            if self.walk(root, filter)? == Coverage::Complete {
                break;
            }
        }
        Ok(())
    }

    /// Watches the directories that one walk finds.
    fn walk(&mut self, root: &Path, filter: &Filter) -> Result<Coverage, WatchError> {
        let mut found = HashMap::new();
        let mut outside = names_in_path(root);
        let mut devices = Devices::default();
        let walk = Walk { root, filter, detail: Detail::Directories };
        walk.run(|path, entry| match entry {
            Entry::Directory(identity) => {
                devices.check(identity.0, path);
                if !WATCHES_TREES || found.is_empty() {
                    found.insert(path.to_owned(), identity);
                }
            }
            Entry::File { is_link: true, metadata } => {
                devices.check(metadata.dev(), path);
                if let Ok(target) = fs::canonicalize(path)
                    && let Some(parent) = target.parent()
                {
                    outside.entry(parent.to_owned()).or_default().insert(target);
                }
            }
            Entry::File { .. } => {}
        });

        if let Some(name) = devices.without_events {
            return Err(WatchError::FileSystem(name));
        }

        // Stop watching directories that are gone, and those that another one has replaced.
        let is_kept = |path: &Path, identity: &Identity| found.get(path) == Some(identity);
        let removed: Vec<PathBuf> = self
            .directories
            .iter()
            .filter(|(path, identity)| !is_kept(path, identity))
            .map(|(path, _)| path.clone())
            .collect();
        for path in removed {
            self.directories.remove(&path);
            self.unwatch(&path);
        }
        let gone: Vec<PathBuf> =
            self.outside.keys().filter(|path| !outside.contains_key(*path)).cloned().collect();
        for path in gone.iter().filter(|path| !found.contains_key(*path)) {
            self.unwatch(path);
        }

        let mut coverage = Coverage::Complete;
        for (path, identity) in found {
            if !self.directories.contains_key(&path) && self.watch(&path)? == WatchOutcome::Watched {
                self.directories.insert(path, identity);
                coverage = Coverage::Extended;
            }
        }
        // Watching again is harmless, and needed if the directory was replaced.
        for path in outside.keys() {
            if !self.directories.contains_key(path) {
                self.watch(path)?;
            }
        }
        self.outside = outside;
        Ok(coverage)
    }

    /// Watches a directory.
    fn watch(&mut self, path: &Path) -> Result<WatchOutcome, WatchError> {
        let mode = if WATCHES_TREES { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        let Err(error) = self.watcher.watch(path, mode) else { return Ok(WatchOutcome::Watched) };
        let is_inaccessible = match &error.kind {
            ErrorKind::PathNotFound => true,
            ErrorKind::Io(source) => matches!(
                source.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
            ),
            _ => false,
        };
        if is_inaccessible { Ok(WatchOutcome::Inaccessible) } else { Err(error.into()) }
    }

    fn unwatch(&mut self, path: &Path) {
        // The system has removed the watch of a directory that is gone.
        let _ = self.watcher.unwatch(path);
    }
}

/// The file systems that a walk has found.
#[derive(Default)]
struct Devices {
    checked: HashSet<u64>,
    /// The name of one that has no events.
    without_events: Option<&'static str>,
}

impl Devices {
    /// Checks the file system of a path, unless its device was checked.
    fn check(&mut self, device: u64, path: &Path) {
        if self.without_events.is_none() && self.checked.insert(device) {
            self.without_events = file_system::without_events(path);
        }
    }
}

/// Returns `true` if the process, its user or the system can't open any more files.
fn is_out_of_files(error: &io::Error) -> bool {
    let errors = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    rustix::io::Errno::from_io_error(error).is_some_and(|error| errors.contains(&error))
}

/// Returns the directories, and the names in them, that decide which directory the path of the folder leads to.
fn names_in_path(root: &Path) -> NamesByDirectory {
    /// Longer chains of symlinks don't resolve either.
    const LINKS_MAX: usize = 40;

    let mut names = NamesByDirectory::new();
    let mut pending = vec![root.to_owned()];
    let mut links = 0;
    while let Some(path) = pending.pop() {
        // The folder itself, and every symlink above it.
        for ancestor in path.ancestors() {
            let is_link = fs::symlink_metadata(ancestor).is_ok_and(|found| found.is_symlink());
            if !is_link && ancestor != path {
                continue;
            }
            let Some(parent) = ancestor.parent() else { continue };
            names.entry(parent.to_owned()).or_default().insert(ancestor.to_owned());
            if is_link
                && links < LINKS_MAX
                && let Ok(target) = fs::read_link(ancestor)
            {
                links += 1;
                pending.push(parent.join(target));
            }
        }
    }
    names
}

/// Reduces an event of the system.
fn signals(event: notify::Result<notify::Event>) -> Vec<Signal> {
    let event = match event {
        Ok(event) => event,
        Err(error) => return vec![Signal::Failed(error.into())],
    };
    if event.need_rescan() {
        return vec![Signal::Lost];
    }
    let signal = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) | EventKind::Modify(ModifyKind::Data(_)) => {
            Signal::Changed
        }
        // Walks and builds cause these.
        EventKind::Access(_) => return Vec::new(),
        _ => Signal::Name,
    };
    event.paths.into_iter().map(signal).collect()
}
