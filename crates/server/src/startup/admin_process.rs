//! The admin process, which serves the admin pages for all serving processes, but no site.
//!
//! It inherits its listener as well as sockets to the serving processes, so its sandbox does not need
//! to allow any files.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use super::admin_server::{AdminListener, AdminServer};
use super::signals::SignalHandler;
use crate::StopHandle;
use crate::config::{self, Config};
use crate::error::StartError;
use crate::kept_signals::KeptSignals;
use crate::observe::Status;
use crate::pages::admin::{Admin, Collector, Source};
use crate::process::notify::Notify;
use crate::sandbox::{self, Sandbox, ThreadRole};

/// The admin process.
#[derive(Debug)]
pub struct AdminProcess {
    admin: AdminServer,
    sandbox: Sandbox,
    on_notice: config::NoticeHandler,
    kept_signals: Option<KeptSignals>,
}

impl AdminProcess {
    /// Serves the admin pages on the inherited listener, querying the serving processes over the inherited
    /// sockets.
    ///
    /// # Errors
    /// Returns an error if a descriptor is not a socket, or if the process cannot enter its sandbox.
    pub fn start(config: &Config) -> Result<AdminProcess, StartError> {
        let collector = Collector::inherit(&config.inheritance.stats_sockets)?;
        if let Some(kept) = &config.kept_signals {
            kept.keep_stops().map_err(StartError::Signals)?;
        }
        let listener = match config.inheritance.listeners.first() {
            Some((_, descriptor)) => AdminListener::inherit(*descriptor)?,
            None => return Err(StartError::NoAdminListener),
        };

        let plan =
            sandbox::Plan { sandbox: config.sandbox(), account: config.account, ..sandbox::Plan::default() };
        let (sandbox, _) = Sandbox::enter(&plan)?;
        let hosts = config.admin.as_ref().map_or(&[][..], |admin| &admin.hosts);
        let admin = Admin::new(Source::Others(Mutex::new(collector)), hosts);
        let admin = listener.start(config, admin, &sandbox)?;
        Ok(AdminProcess {
            admin,
            sandbox,
            on_notice: config.on_notice.clone(),
            kept_signals: config.kept_signals.clone(),
        })
    }

    /// Starts to act on signals, including any that were kept. SIGINT, SIGTERM and SIGQUIT will shut the
    /// process down gracefully.
    ///
    /// # Errors
    /// Returns an error if the signals cannot be registered.
    pub fn handle_signals(&self, notify: Notify) -> Result<(), StartError> {
        let (flag, waker) = self.admin.stop_flag();
        let stop = StopHandle {
            flag,
            wakers: vec![waker],
            status: Arc::new(Status::new(std::iter::empty(), Arc::default())),
            // We join the only worker directly, so we do not need any reports.
            reports: channel().0,
        };
        let on_notice = self.on_notice.clone();
        let signals = KeptSignals::take(self.kept_signals.as_ref()).map_err(StartError::Signals)?;
        SignalHandler { signals, stop, housekeeper: None, reopen: None, notify, on_notice }
            .start(&self.sandbox)
    }

    /// Restricts the calling thread to waiting.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the filter.
    pub fn restrict_waiting_thread(&self) -> Result<(), StartError> {
        Ok(self.sandbox.enter_thread(ThreadRole::Main)?)
    }

    /// Blocks until the process is stopped.
    pub fn wait(self) {
        self.admin.wait();
    }
}
