//! Publishes releases that were compiled by this process or another one.

use std::fs::File;
use std::sync::mpsc::{Sender, channel};

use cannery_archive::OpenError;

use super::Command;

/// Replaces archives that were passed as open files. May be cloned and sent to any thread.
#[derive(Debug, Clone)]
pub struct Publisher {
    pub(super) commands: Sender<Command>,
    /// For each archive in the configuration, tells if it is an open file.
    pub(super) replaceable: Vec<bool>,
}

/// Why a release is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The file is not an archive.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The configuration has no such archive, or it was opened by its path.
    #[error("archive {0} of the configuration is not an open file")]
    NotReplaceable(usize),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}

impl Publisher {
    /// Returns `true` if an archive can be replaced.
    pub(crate) fn has_archives(&self) -> bool {
        self.replaceable.contains(&true)
    }

    /// Serves `file` instead of the archive with this index.
    ///
    /// Once this returns, all later requests will be answered from the new archive, while responses that
    /// have already started are not affected. The file is not compared with its digest, and
    /// no process may change it any more.
    ///
    /// # Errors
    /// Returns an error if the file cannot be served (see [`PublishError`]). The previous release is still being
    /// served in that case.
    pub fn publish(&self, index: usize, file: File) -> Result<(), PublishError> {
        if !self.replaceable.get(index).is_some_and(|replaceable| *replaceable) {
            return Err(PublishError::NotReplaceable(index));
        }
        let (done, outcome) = channel();
        self.commands.send(Command::Publish { index, file, done }).map_err(|_| PublishError::Stopping)?;
        Ok(outcome.recv().map_err(|_| PublishError::Stopping)??)
    }
}
