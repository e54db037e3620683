//! Everything that operators look at: access log, admin page, statistics for the admin process, reports on the terminal.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use cannery_eventloop::{Address, Claim};

use super::admin_server::{AdminListener, AdminServer};
use super::shared::Shared;
use crate::config::{AdminPage, Config};
use crate::error::StartError;
use crate::observe::{LogFile, LogWriter, Report};
use crate::pages::admin::{Admin, Source, collect};
use crate::sandbox::Sandbox;

/// Open files and sockets for operators.
pub(super) struct Operators {
    log: Option<LogFile>,
    admin: Option<AdminListener>,
    /// Socket on which the admin process queries our statistics.
    stats_socket: Option<UnixDatagram>,
}

/// Running threads for operators.
#[derive(Debug)]
pub(crate) struct RunningOperators {
    pub(crate) log: Option<LogWriter>,
    admin: Option<AdminServer>,
    report: Option<Report>,
}

impl Operators {
    /// Opens the sockets.
    ///
    /// # Errors
    /// Returns an error if the address is not available, or if an inherited descriptor is not a socket.
    pub(super) fn open(config: &Config, log: Option<LogFile>) -> Result<Operators, StartError> {
        let admin = config.admin.as_ref().map(|admin| AdminListener::open(&admin.address)).transpose()?;
        let stats_socket = config.inheritance.stats_sockets.first();
        let stats_socket = stats_socket.map(|descriptor| collect::inherit(*descriptor)).transpose()?;
        Ok(Operators { log, admin, stats_socket })
    }

    /// Returns the reservation of the admin address.
    pub(super) fn claim(&self) -> Option<&Claim> {
        self.admin.as_ref().and_then(AdminListener::claim)
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be started.
    pub(super) fn start(
        self,
        config: &Config,
        shared: &Shared,
        sandbox: &Sandbox,
    ) -> Result<RunningOperators, StartError> {
        let Shared { status, counters, .. } = shared;
        let on_notice = || config.on_notice.clone();

        let start_log = |log: LogFile| log.start(counters.len(), Arc::clone(status), on_notice(), sandbox);
        let log = self.log.map(start_log).transpose()?;

        let start_admin = |(listener, page): (AdminListener, &AdminPage)| {
            let source = Source::Own { workers: counters.clone(), status: Arc::clone(status) };
            listener.start(config, Admin::new(source, &page.hosts), sandbox)
        };
        let admin = self.admin.zip(config.admin.as_ref()).map(start_admin).transpose()?;

        if let Some(socket) = self.stats_socket {
            collect::answer(socket, counters.clone(), Arc::clone(status), sandbox)?;
        }
        let start_report = |interval| Report::start(interval, counters.clone(), on_notice(), sandbox);
        let report = config.report.map(start_report).transpose()?;
        Ok(RunningOperators { log, admin, report })
    }
}

impl RunningOperators {
    /// Returns the address of the admin listener.
    pub(super) fn admin_address(&self) -> Option<Address> {
        self.admin.as_ref().map(AdminServer::address)
    }

    /// Stops the threads. Must be called after the workers have exited, so that operators can still query the server
    /// and workers can still log while it drains.
    pub(crate) fn stop(self) {
        drop(self.report);
        if let Some(admin) = self.admin {
            admin.stop();
        }
        if let Some(log) = self.log {
            log.finish();
        }
    }
}
