//! The process that answers operators for all those that serve beside it. It serves no site.
//!
//! In a cage of its own, with no file to open: it listens, and asks the others by sockets that it was handed.

use std::sync::{Arc, Mutex};

use super::admin_server::{AdminListener, AdminServer};
use super::signals;
use crate::Stop;
use crate::admin::{Admin, Collector, Source};
use crate::config::{self, Config};
use crate::error::StartError;
use crate::observe::Status;
use crate::process::notify::Notify;
use crate::sandbox::{self, Sandbox};

/// Answers operators for other processes.
#[derive(Debug)]
pub struct Operators {
    admin: AdminServer,
    sandbox: Sandbox,
    on_notice: config::NoticeHandler,
}

impl Operators {
    /// Listens with the inherited socket of the configuration, and asks by those of these numbers.
    ///
    /// # Errors
    /// A socket is none, or the process could not enter its cage.
    pub fn start(config: &Config, asked: &[i32]) -> Result<Operators, StartError> {
        let asker = Collector::inherit(asked)?;
        let listener = match config.inherited.first() {
            Some((_, descriptor)) => AdminListener::inherit(*descriptor)?,
            None => return Err(StartError::NoOperators),
        };
        let plan =
            sandbox::Plan { sandbox: config.sandbox, account: config.account, ..sandbox::Plan::default() };
        let (sandbox, _) = Sandbox::enter(&plan)?;
        let admin = Admin::new(Source::Others(Mutex::new(asker)), &config.admin_hosts);
        let admin = listener.start(config, admin, &sandbox)?;
        Ok(Operators { admin, sandbox, on_notice: config.on_notice.clone() })
    }

    /// From now on SIGINT and SIGTERM end the process in good order.
    ///
    /// # Errors
    /// Signals cannot be waited for.
    pub fn obey_signals(&self, notify: Notify) -> Result<(), StartError> {
        let (order, waker) = self.admin.stop_order();
        let stop = Stop { order, wakers: vec![waker], status: Arc::new(Status::new(std::iter::empty())) };
        signals::obey(stop, None, None, notify, self.on_notice.clone(), &self.sandbox)
    }

    /// Waits until the order to stop.
    pub fn wait(self) {
        self.admin.wait();
    }
}
