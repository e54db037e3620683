//! Handles signals for shutdown and reload, as well as for reopening the access log.
//!
//! Signals are awaited by a separate thread, to avoid running any code in a signal handler.

use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::StopHandle;
use crate::config::NoticeHandler;
use crate::error::StartError;
use crate::housekeeper::HousekeeperHandle;
use crate::notice::Notice;
use crate::observe::ReopenHandle;
use crate::process::notify::Notify;
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// Exit code after a second signal. This is how shells report SIGINT.
const INTERRUPTED: i32 = 130;

/// Everything that signals act on.
pub(crate) struct SignalHandler {
    pub(crate) signals: Signals,
    pub(crate) stop: StopHandle,
    pub(crate) housekeeper: Option<HousekeeperHandle>,
    pub(crate) reopen: Option<ReopenHandle>,
    /// Reports reloads and shutdown to the service manager.
    pub(crate) notify: Notify,
    pub(crate) on_notice: NoticeHandler,
}

impl SignalHandler {
    /// Starts a thread that waits for signals.
    ///
    /// SIGINT, SIGTERM and SIGQUIT shut the server down (a second one exits immediately), SIGHUP reloads, and
    /// SIGUSR1 reopens the access log. SIGUSR2 only reports that starting a new program requires a
    /// supervisor.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be started.
    pub(crate) fn start(self, sandbox: &Sandbox) -> Result<(), StartError> {
        let SignalHandler { mut signals, stop, housekeeper, reopen, notify, on_notice } = self;
        if let Some(watchdog) = notify.watchdog() {
            thread::start("watchdog", sandbox, ThreadRole::Coordinator, watchdog)?;
        }

        thread::start("signals", sandbox, ThreadRole::Coordinator, move || {
            let mut is_stopping = false;
            for signal in signals.forever() {
                match signal {
                    SIGHUP => {
                        notify.reloading();
                        if let Some(housekeeper) = &housekeeper {
                            housekeeper.request_check();
                        }
                        notify.ready("serving");
                    }
                    // We need to handle SIGUSR2 because it terminates the process by default.
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
