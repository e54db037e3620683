//! Signal handling: shutdown, reload, reopening of the access log.
//!
//! A separate thread waits for signals, so no code runs in a signal handler.

use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::StopHandle;
use crate::config::NoticeHandler;
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::ReopenHandle;
use crate::process::notify::Notify;
use crate::reload::ReloadHandle;
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// The exit code after a second signal, as a shell reports SIGINT.
const INTERRUPTED: i32 = 130;

/// The parts of a process that signals act on.
pub(crate) struct SignalHandler {
    pub(crate) signals: Signals,
    pub(crate) stop: StopHandle,
    pub(crate) reload: Option<ReloadHandle>,
    pub(crate) reopen: Option<ReopenHandle>,
    /// Reports reloads and the shutdown to the service manager.
    pub(crate) notify: Notify,
    pub(crate) on_notice: NoticeHandler,
}

impl SignalHandler {
    /// Starts a thread that shuts the server down at SIGINT, SIGTERM or SIGQUIT, reloads at SIGHUP, and reopens the access log at
    /// SIGUSR1. At SIGUSR2 it reports that only a supervisor can start a new program. A second signal to shut down exits at once.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(self, sandbox: &Sandbox) -> Result<(), StartError> {
        let SignalHandler { mut signals, stop, reload, reopen, notify, on_notice } = self;
        if let Some(watchdog) = notify.watchdog() {
            thread::start("watchdog", sandbox, ThreadRole::Coordinator, watchdog)?;
        }

        thread::start("signals", sandbox, ThreadRole::Coordinator, move || {
            let mut is_stopping = false;
            for signal in signals.forever() {
                match signal {
                    SIGHUP => {
                        notify.reloading();
                        if let Some(reload) = &reload {
                            reload.request();
                        }
                        notify.ready("serving");
                    }
                    // By default SIGUSR2 terminates the process.
                    SIGUSR2 => (on_notice.0)(&Notice::NoSupervisor),
                    SIGUSR1 => {
                        if let Some(reopen) = &reopen {
                            reopen.request();
                        }
                    }
                    _ if is_stopping => std::process::exit(INTERRUPTED),
                    _ => {
                        is_stopping = true;
                        notify.stopping();
                        stop.stop();
                    }
                }
            }
        })?;
        Ok(())
    }
}
