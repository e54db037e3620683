//! Publishes releases that this process, or one for it, has compiled.

use std::fs::File;
use std::sync::mpsc::{Sender, channel};

use cannery_archive::OpenError;

use super::Order;

/// Replaces the archives of a server that were given as open files. From any thread.
#[derive(Debug, Clone)]
pub struct Publisher {
    pub(super) orders: Sender<Order>,
    /// The archives of the configuration that are open files.
    pub(super) replaceable: Vec<bool>,
}

/// Why a release isn't served.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The file is no archive.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The configuration has no such archive, or has it by its path.
    #[error("archive {0} of the configuration is not an open file")]
    NotReplaceable(usize),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}

impl Publisher {
    /// Returns `true` if there is an archive that it can replace.
    pub(crate) fn has_archives(&self) -> bool {
        self.replaceable.contains(&true)
    }

    /// Serves `file` instead of the archive at index `place` of the configuration. When it returns, all later requests are
    /// answered from it; responses that have begun end as they began.
    ///
    /// The file isn't compared with its digest. No process may change it any more.
    ///
    /// # Errors
    /// See [`PublishError`]. The previous release is still served.
    pub fn publish(&self, place: usize, file: File) -> Result<(), PublishError> {
        if !self.replaceable.get(place).is_some_and(|replaceable| *replaceable) {
            return Err(PublishError::NotReplaceable(place));
        }
        let (done, outcome) = channel();
        self.orders.send(Order::Publish { place, file, done }).map_err(|_| PublishError::Stopping)?;
        Ok(outcome.recv().map_err(|_| PublishError::Stopping)??)
    }
}
