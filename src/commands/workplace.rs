//! The temporary folder of a command. A signal that ends the process removes it, too.

use std::io;
use std::path::Path;

use tempfile::TempDir;

use super::interrupt::Interrupt;
use crate::output::Failure;

/// A temporary folder, which is removed when this is dropped.
pub(super) struct Workplace {
    // It is dropped first, so that no signal ends the process before the folder is removed.
    directory: TempDir,
    interrupt: Interrupt,
}

impl Workplace {
    /// Takes a folder that was created just now.
    ///
    /// # Errors
    /// Returns an error if it couldn't be created.
    pub(super) fn new(directory: io::Result<TempDir>) -> Result<Workplace, Failure> {
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
