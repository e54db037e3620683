//! Follows the folder that `cannery serve` serves, and reports its changes to browsers.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use cannery_archiver::diagnostic::Diagnostic;
use cannery_archiver::{Build, Change, Compiler, Effort};
use cannery_follow::{Follower, Inspector, Mode};
use cannery_server::Publisher;

use super::live::{Live, Pages};
use crate::commands::folder::{self, BuildFailure, BuildSink, EventLog, Messages, Stopped, Updater};
use crate::flags::site::Serve;
use crate::output::Failure;

/// The index of the archive in the server's configuration.
const ARCHIVE: usize = 0;

/// Changes of the folder, from before its first build on.
pub(super) struct Updates {
    messages: Messages,
    /// `None` if the folder isn't followed.
    follower: Option<Follower>,
    live: Option<Arc<Live>>,
    /// Closed when the first build is served.
    _before_first: Option<Sender<()>>,
}

impl Updates {
    /// Starts to follow the folder.
    pub(super) fn follow(flags: &Serve) -> Result<Updates, Failure> {
        let messages = Messages::new();
        if flags.no_follow {
            return Ok(Updates { messages, follower: None, live: None, _before_first: None });
        }

        let filter = folder::filter(&flags.options());
        let pages = if flags.reloads_browsers() { Pages::Script } else { Pages::None };
        let inspector = Inspector::new(flags.folder.clone(), filter.clone());
        let live = Arc::new(Live::new(inspector, messages.sender.clone(), pages));
        let mode = flags.poll_interval().map_or(Mode::Auto, Mode::Polling);
        let (before_first, first_served) = channel::<()>();
        let inspect = {
            let live = Arc::clone(&live);
            move || {
                // Until then, a scan would only delay the build.
                let _ = first_served.recv();
                live.inspect()
            }
        };
        let follower = folder::follow(flags.folder.clone(), mode, filter, messages.sender.clone(), inspect)?;
        Ok(Updates {
            messages,
            follower: Some(follower),
            live: Some(live),
            _before_first: Some(before_first),
        })
    }

    /// Returns the state that browsers follow, unless the folder isn't followed.
    pub(super) fn live(&self) -> Option<&Arc<Live>> {
        self.live.as_ref()
    }

    /// Serves every change from now on, from a thread of its own. `first` is served already.
    pub(super) fn serve(
        self,
        compiler: Compiler,
        first: &Build,
        publisher: Publisher,
        log: EventLog,
    ) -> Result<(), Failure> {
        let Updates { messages, follower, live, .. } = self;
        if let Some(live) = &live {
            live.served(&[], &first.report.diagnostics, Effort::Quick);
        }
        let browsers = Browsers { publisher, live };
        let mut updater = Updater::new(compiler, first, messages, browsers, log);
        let run = move || {
            let _follower = follower;
            // This fails only if the reader of the output has closed it. The server goes on.
            let _ = updater.run();
        };
        let thread = thread::Builder::new().name("updates".into()).spawn(run);
        thread.map(drop).map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))
    }
}

/// The server of this process, and the pages that follow the folder.
struct Browsers {
    publisher: Publisher,
    live: Option<Arc<Live>>,
}

impl BuildSink for Browsers {
    fn publish(&self, archive: File) -> Result<(), Stopped> {
        self.publisher.publish(ARCHIVE, archive).map_err(|_| Stopped)
    }

    fn scan(&self) {
        if let Some(live) = &self.live {
            live.inspect();
        }
    }

    fn served(&self, changes: &[Change], diagnostics: &[Diagnostic], effort: Effort) {
        if let Some(live) = &self.live {
            live.served(changes, diagnostics, effort);
        }
    }

    fn failed(&self, failure: &BuildFailure) {
        if let Some(live) = &self.live {
            live.failed(failure);
        }
    }
}
