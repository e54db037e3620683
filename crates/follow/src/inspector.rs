//! Scans a folder on request, for a caller that can't wait for a report.

use std::path::PathBuf;

use crate::polling::{Finding, Poller};
use crate::tree::Filter;

/// The state of a folder at its last scan.
pub struct Inspector {
    root: PathBuf,
    filter: Filter,
    poller: Poller,
}

impl Inspector {
    /// Scans a folder for the first time. It need not exist. `filter` is that of [`Settings`](crate::Settings).
    #[must_use]
    pub fn new(root: PathBuf, filter: Filter) -> Inspector {
        let poller = Poller::new(&root, &filter, None);
        Inspector { root, filter, poller }
    }

    /// Returns the number of files at the last scan.
    #[must_use]
    pub fn files(&self) -> usize {
        self.poller.files()
    }

    /// Scans the folder again.
    pub fn inspect(&mut self) -> Finding {
        self.poller.scan(&self.root, &self.filter)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn changes_between_two_scans_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let mut inspector = Inspector::new(folder.path().join("site"), Arc::new(|_, _| true));
        assert_eq!((inspector.inspect(), inspector.files()), (Finding::Unchanged, 0));

        fs::create_dir(folder.path().join("site")).unwrap();
        fs::write(folder.path().join("site/a"), "content").unwrap();
        assert_eq!((inspector.inspect(), inspector.files()), (Finding::Changed, 1));
        assert_eq!(inspector.inspect(), Finding::Unchanged);
    }
}
