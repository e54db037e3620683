//! The temporary folder of a command that publishes. A signal that ends the process removes it, too.

use std::path::Path;

use tempfile::TempDir;

use super::cache::Cache;
use crate::commands::interrupt::Interrupt;
use crate::output::Failure;

/// A temporary folder, which is removed when this is dropped.
pub(super) struct Workplace {
    // It is dropped first, so that no signal ends the process before the folder is removed.
    directory: TempDir,
    interrupt: Interrupt,
}

impl Workplace {
    /// Creates the folder in the cache, if there is one, so that files can be moved into it.
    ///
    /// # Errors
    /// Returns an error if the folder can't be created.
    pub(super) fn create(cache: Option<&Cache>) -> Result<Workplace, Failure> {
        let directory = cache.map_or_else(tempfile::tempdir, Cache::temporary);
        let directory = directory
            .map_err(|error| Failure::output(format!("cannot create a temporary folder: {error}")))?;
        let interrupt = Interrupt::watch(Some(directory.path().to_owned()));
        Ok(Workplace { directory, interrupt })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Sets a line that is printed if a signal ends the process.
    pub(super) fn farewell(&self, line: String) {
        self.interrupt.farewell(line);
    }
}
