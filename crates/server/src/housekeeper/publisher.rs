//! Publishes releases that were compiled by this process or another one.

use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

use cannery_archive::OpenError;
use cannery_site::Site;

use super::{Command, IS_HOUSEKEEPER, NextArchive};

/// Replaces archives that were passed as open files. May be cloned and sent to any thread.
#[derive(Debug, Clone)]
pub struct Publisher {
    pub(super) commands: Arc<Sender<Command>>,
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
        let command = Command::Publish { index, next: NextArchive::File(file), done };
        self.commands.send(command).map_err(|_| PublishError::Stopping)?;
        Ok(outcome.recv().map_err(|_| PublishError::Stopping)??)
    }

    /// Returns a publisher for the archive with this index, which has to be a site of the program.
    pub(crate) fn of_site(&self, index: usize) -> SitePublisher {
        SitePublisher { commands: Arc::downgrade(&self.commands), index }
    }
}

/// Replaces a site of the program in a server, as long as that runs.
#[derive(Debug)]
pub struct SitePublisher {
    /// Weak, because the program may keep the site for longer than the server.
    commands: Weak<Sender<Command>>,
    index: usize,
}

impl SitePublisher {
    /// Tells the server to serve `site`. Returns `None` if it has stopped.
    #[must_use]
    pub fn publish(&self, site: Arc<Site>) -> Option<PendingSite> {
        let (done, outcome) = channel();
        let command = Command::Publish { index: self.index, next: NextArchive::Site(site), done };
        self.commands.upgrade()?.send(command).ok()?;
        Some(PendingSite(outcome))
    }
}

/// A site that a server is about to serve.
#[derive(Debug)]
pub struct PendingSite(Receiver<Result<(), OpenError>>);

impl PendingSite {
    /// Waits until the server has told its workers about the site.
    ///
    /// Doesn't wait on a server's own thread, which also calls the program's handler of notices.
    pub fn wait(self) {
        if !IS_HOUSEKEEPER.get() {
            // An open site can't be refused, and a server that stops doesn't need it any more.
            let _ = self.0.recv();
        }
    }
}
