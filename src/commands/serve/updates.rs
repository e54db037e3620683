//! Follows the folder for `cannery serve`, and notifies browsers about changes.

use std::fs::File;
use std::sync::Arc;
use std::thread;

use cannery_archiver::{Build, Compiler, Effort};
use cannery_follow::Mode;
use cannery_live::{BuildSink, Compression, FolderChanges, FolderEvent};
use cannery_server::Publisher;

use super::live::{Live, Pages};
use crate::commands::folder::{BuildFailure, EventLog, UpdatesEnd};
use crate::flags::site::Serve;
use crate::output::Failure;

/// Index of the archive in the server configuration.
const ARCHIVE: usize = 0;

/// Changes of the folder, including those made during the first build.
pub(super) struct Updates {
    changes: FolderChanges,
    /// `None` if the folder is not followed.
    live: Option<Arc<Live>>,
}

impl Updates {
    /// Starts following the folder.
    pub(super) fn follow(flags: &Serve) -> Result<Updates, Failure> {
        let mut changes = FolderChanges::of(&flags.options());
        if flags.no_follow {
            return Ok(Updates { changes, live: None });
        }

        let pages = if flags.reloads_browsers() { Pages::Script } else { Pages::None };
        let live = Arc::new(Live::new(changes.inspector(), changes.sender(), pages));
        let mode = flags.poll_interval().map_or(Mode::Auto, Mode::Polling);
        let inspect = {
            let live = Arc::clone(&live);
            move || live.inspect()
        };
        changes.follow(mode, inspect).map_err(|error| Failure::failed(error.to_string()))?;
        Ok(Updates { changes, live: Some(live) })
    }

    /// Returns the live reload state, or `None` when the folder is not followed.
    pub(super) fn live(&self) -> Option<&Arc<Live>> {
        self.live.as_ref()
    }

    /// Serves every change from now on, using a separate thread. Note that `first` must be served already.
    pub(super) fn serve(
        self,
        compiler: Compiler,
        first: &Build,
        publisher: Publisher,
        log: EventLog,
    ) -> Result<(), Failure> {
        let Updates { changes, live } = self;
        if let Some(live) = &live {
            live.served(&[], &first.report.diagnostics, Effort::Quick);
        }
        let served = ServedFolder { publisher, live, log };
        let mut updater = changes.into_updater(compiler, first, Compression::InBackground, served);
        let run = move || {
            // Fails if standard output has been closed, but the server should go on nevertheless.
            let _ = updater.run();
        };
        let thread = thread::Builder::new().name("updates".into()).spawn(run);
        thread.map(drop).map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))
    }
}

/// Where builds and events go: this process's server, pages in browsers, and the terminal.
struct ServedFolder {
    publisher: Publisher,
    live: Option<Arc<Live>>,
    log: EventLog,
}

impl BuildSink for ServedFolder {
    type Error = UpdatesEnd;

    fn publish(&mut self, archive: &File) -> Result<(), UpdatesEnd> {
        let archive = archive.try_clone().map_err(|error| Failure::failed(error.to_string()))?;
        self.publisher.publish(ARCHIVE, archive).map_err(|_| UpdatesEnd::ServerStops)
    }

    fn scan(&mut self) {
        if let Some(live) = &self.live {
            live.inspect();
        }
    }

    fn handle(&mut self, event: FolderEvent<'_>) -> Result<(), UpdatesEnd> {
        if let Some(live) = &self.live {
            match event {
                FolderEvent::Rebuilt { build, changes, .. } => {
                    live.served(changes, &build.report.diagnostics, Effort::Quick);
                }
                FolderEvent::Compressed { build, changes, .. } => {
                    live.served(changes, &build.report.diagnostics, Effort::Full);
                }
                FolderEvent::Failed(error) => live.failed(&BuildFailure::from(error)),
                FolderEvent::CompressionNotStarted(_) | FolderEvent::Polling { .. } => {}
            }
        }
        Ok(self.log.report(&event)?)
    }
}
