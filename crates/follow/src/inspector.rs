//! Scans a folder on request, for callers that can't wait for a report.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread::available_parallelism;

use crate::polling::{FilesState, Finding, Poller};
use crate::tree::Filter;

/// Maximum number of threads. If there were more, they would mostly wait for each other in the
/// kernel.
const THREADS_MAX: usize = 4;

/// Scans a folder on request, and remembers its state.
pub struct Inspector {
    root: PathBuf,
    filter: Filter,
    poller: Poller,
}

impl Inspector {
    /// Performs the first scan.
    ///
    /// The folder does not have to exist yet. `filter` should be the same as in
    /// [`Settings`](crate::Settings).
    #[must_use]
    pub fn new(root: PathBuf, filter: Filter) -> Inspector {
        let threads = available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX);
        let poller = Poller::with_threads(threads, &root, &filter, None);
        Inspector { root, filter, poller }
    }

    /// Returns the number of files found by the last scan.
    #[must_use]
    pub fn files(&self) -> usize {
        self.poller.files()
    }

    /// The state of the files at the last scan. When the scan has found anything that the state does not cover, this
    /// is `None`.
    #[must_use]
    pub fn state(&self) -> Option<FilesState> {
        self.poller.state()
    }

    /// Scans the folder again. Returns whether anything has changed since the last scan.
    pub fn inspect(&mut self) -> Finding {
        self.poller.scan(&self.root, &self.filter)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Scans until the clock tick is over in which the last file was modified.
    fn await_tick(inspector: &mut Inspector) {
        while inspector.inspect() == Finding::Changed {}
    }

    #[test]
    fn changes_between_two_scans_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let mut inspector = Inspector::new(folder.path().join("site"), Filter::new(|_, _| true));
        assert_eq!((inspector.inspect(), inspector.files()), (Finding::Unchanged, 0));

        fs::create_dir(folder.path().join("site")).unwrap();
        fs::write(folder.path().join("site/a"), "content").unwrap();
        assert_eq!((inspector.inspect(), inspector.files()), (Finding::Changed, 1));
        await_tick(&mut inspector);
        assert_eq!(inspector.inspect(), Finding::Unchanged);
    }

    #[test]
    fn directories_with_several_paths_are_found_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..100 {
            let directory = folder.path().join(number.to_string());
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("file"), "content").unwrap();
            std::os::unix::fs::symlink(&directory, folder.path().join(format!("link-{number}"))).unwrap();
            std::os::unix::fs::symlink(folder.path(), directory.join("up")).unwrap();
        }
        let root = folder.path().to_owned();
        let mut inspector = Inspector::new(root.clone(), Filter::new(|_, _| true));

        await_tick(&mut inspector);
        let mut single = Poller::new(&root, &inspector.filter, None);
        for _ in 0..20 {
            assert_eq!((inspector.inspect(), inspector.files()), (Finding::Unchanged, 100));
        }
        assert_eq!(single.scan(&root, &inspector.filter), Finding::Unchanged);

        fs::write(root.join("77/file"), "changed").unwrap();
        assert_eq!(inspector.inspect(), Finding::Changed);
        assert_eq!(single.scan(&root, &inspector.filter), Finding::Changed);
    }
}
