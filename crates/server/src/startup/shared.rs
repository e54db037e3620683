//! State that several threads of a server share.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use cannery_eventloop::Waker;

use crate::StopHandle;
use crate::config::Config;
use crate::content::Current;
use crate::observe::{Counters, Status};
use crate::process::{DownProcesses, UdpHandover};
use crate::worker::{StopFlag, StopReport};

/// State that several threads share.
pub(super) struct Shared {
    pub(super) current: Arc<Current>,
    pub(super) status: Arc<Status>,
    /// Counters of each worker.
    pub(super) counters: Vec<Arc<Counters>>,
    pub(super) stop: StopHandle,
    pub(super) down_processes: DownProcesses,
    pub(super) handover: UdpHandover,
}

impl Shared {
    /// Returns the initial state. The progress of a shutdown will be sent to `reports`.
    pub(super) fn new(
        config: &Config,
        current: Arc<Current>,
        counters: Vec<Arc<Counters>>,
        wakers: Vec<Waker>,
        reports: Sender<StopReport>,
    ) -> Shared {
        let status = Arc::new(current.get().status(config));
        let flag = Arc::new(StopFlag::default());
        let last = config.inheritance.standby.iter().map(|standby| standby.process).max();
        Shared {
            current,
            stop: StopHandle { flag, wakers, status: Arc::clone(&status), reports },
            status,
            counters,
            down_processes: last.map(DownProcesses::with_last).unwrap_or_default(),
            handover: UdpHandover::default(),
        }
    }
}
