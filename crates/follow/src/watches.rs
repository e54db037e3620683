//! Watches of the operating system: inotify on Linux, FSEvents on macOS, kqueue on the BSDs.
//!
//! We watch directories rather than files because editors typically replace files. On some systems, a single watch covers a whole
//! tree; others need a watch for each directory. When a directory is created, we can only add its watch after the event, and by
//! then it may already contain files. This means that callers need to scan the folder again after an event.

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

/// Whether one watch covers a whole tree, without a cost per directory.
const WATCHES_TREES: bool = cfg!(target_os = "macos");

/// A system event, reduced to what we need.
#[derive(Debug)]
pub(crate) enum Signal {
    /// A file has changed.
    Changed(PathBuf),
    /// A name was created, renamed or removed.
    Name(PathBuf),
    /// Events were lost.
    Lost,
    /// Some directories cannot be watched.
    Failed(WatchError),
}

/// A system limit that affects events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Number of watched directories per user (`fs.inotify.max_user_watches` on Linux).
    Watches,
    /// Number of event queues per user (`fs.inotify.max_user_instances` on Linux), or of open files.
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

/// Why directories cannot be watched.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum WatchError {
    /// We have reached a system limit.
    #[error("the limit of {0} is reached")]
    Limit(Limit),
    /// The folder (or a part of it) is in this file system. It does not report changes made by other machines.
    #[error("{0} reports no changes by other machines")]
    FileSystem(&'static str),
    #[error("{0}")]
    Other(String),
}

impl From<notify::Error> for WatchError {
    fn from(error: notify::Error) -> WatchError {
        match error.kind {
            ErrorKind::MaxFilesWatch => WatchError::Limit(Limit::Watches),
            // `inotify_init(2)` fails with `EMFILE` or `ENFILE`. Note that watching a directory does not open
            // any file.
            ErrorKind::Io(source) if is_out_of_files(&source) => WatchError::Limit(Limit::Instances),
            kind => WatchError::Other(notify::Error::new(kind).to_string()),
        }
    }
}

/// Maximum number of walks per update. If a program creates directories even faster, most of them will still be covered by
/// events.
const WALKS_MAX: u32 = 20;

/// Whether a walk has found directories without a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coverage {
    Complete,
    /// More directories may have been created inside of them before they were watched, so we need to walk
    /// again.
    Extended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchOutcome {
    Watched,
    /// The directory no longer exists, or we may not read it.
    Inaccessible,
}

/// Names of interest, by directory.
type NamesByDirectory = HashMap<PathBuf, HashSet<PathBuf>>;

/// All watches for a folder.
pub(crate) struct Watches {
    watcher: RecommendedWatcher,
    /// Watched directories inside the folder.
    directories: HashMap<PathBuf, Identity>,
    /// Watched directories outside of the folder, and the names in them that matter: symlinks that lead to the folder, the
    /// folder itself, and files that are link targets.
    outside: NamesByDirectory,
}

impl Watches {
    /// Starts the watcher. It will send signals from its own thread. Callers should call [`Watches::update`]
    /// next.
    pub(crate) fn new<T: From<Signal> + Send + 'static>(sender: Sender<T>) -> Result<Watches, WatchError> {
        let handler = move |event: notify::Result<notify::Event>| {
            for signal in signals(event) {
                // Fails only if the follower was dropped.
                let _ = sender.send(signal.into());
            }
        };
        let watcher = RecommendedWatcher::new(handler, Config::default())?;
        Ok(Watches { watcher, directories: HashMap::new(), outside: HashMap::new() })
    }

    /// Returns `true` if a change to this path matters.
    pub(crate) fn concerns(&self, root: &Path, filter: &Filter, path: &Path) -> bool {
        if let Ok(inside) = path.strip_prefix(root) {
            // At this point it is impossible to tell whether a removed name was a file or a
            // directory.
            return inside == Path::new("")
                || filter.includes(inside, false)
                || filter.includes(inside, true);
        }
        WATCHES_TREES || self.outside.values().any(|names| names.contains(path))
    }

    /// Returns `true` if a name that was created, renamed or removed may be a directory or lead to one, or may have
    /// done so.
    pub(crate) fn may_be_directory(&self, path: &Path) -> bool {
        self.directories.keys().any(|directory| directory.starts_with(path))
            || fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
            || self.outside.values().any(|names| names.contains(path))
    }

    /// Forgets the watches of a directory that was created, renamed or removed, including those below it.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.directories.retain(|directory, _| !directory.starts_with(path));
    }

    /// Watches all directories that exist now.
    pub(crate) fn update(&mut self, root: &Path, filter: &Filter) -> Result<(), WatchError> {
        for _ in 0..WALKS_MAX {
            if self.walk(root, filter)? == Coverage::Complete {
                break;
            }
        }
        Ok(())
    }

    /// Makes a single walk, and watches the directories it finds.
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

        // Drop watches for directories that are gone or have been replaced.
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

        // Watch these again, as they may have been replaced. If they were not, this has no effect.
        for path in outside.keys() {
            if !self.directories.contains_key(path) {
                self.watch(path)?;
            }
        }

        self.outside = outside;
        Ok(coverage)
    }

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
        // This fails if the directory no longer exists. The system will already have removed
        // the watch.
        let _ = self.watcher.unwatch(path);
    }
}

/// File systems seen during a walk.
#[derive(Default)]
struct Devices {
    checked: HashSet<u64>,
    /// Name of a file system without events.
    without_events: Option<&'static str>,
}

impl Devices {
    /// Checks the file system of a path, unless we already know the device.
    fn check(&mut self, device: u64, path: &Path) {
        if self.without_events.is_none() && self.checked.insert(device) {
            self.without_events = file_system::without_events(path);
        }
    }
}

/// Whether the limit on open files of the process, its user or the system has been reached.
fn is_out_of_files(error: &io::Error) -> bool {
    let errors = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    rustix::io::Errno::from_io_error(error).is_some_and(|error| errors.contains(&error))
}

/// Returns everything that affects which directory the folder's path leads to, i.e. directories and the names in
/// them.
fn names_in_path(root: &Path) -> NamesByDirectory {
    /// The system does not resolve longer chains of symlinks either.
    const LINKS_MAX: usize = 40;

    let mut names = NamesByDirectory::new();
    let mut pending = vec![root.to_owned()];
    let mut links = 0;
    while let Some(path) = pending.pop() {
        // This includes the folder itself and every symlink above it.
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

/// Reduces a system event to signals.
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
        // Our own walks and builds cause these.
        EventKind::Access(_) => return Vec::new(),
        _ => Signal::Name,
    };
    event.paths.into_iter().map(signal).collect()
}
