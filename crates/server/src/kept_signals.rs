//! Signals that are kept until the server can act on them, instead of ending the process by their default action.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// Signals that a server obeys while it serves.
const ORDERS: [i32; 3] = [SIGHUP, SIGUSR1, SIGUSR2];

/// Signals that stop a server.
const STOPS: [i32; 3] = [SIGINT, SIGTERM, SIGQUIT];

/// The signals of a process, which are kept until its server is ready.
#[derive(Debug, Clone)]
pub struct KeptSignals(Arc<Mutex<Option<Signals>>>);

impl KeptSignals {
    /// Keeps SIGHUP, SIGUSR1 and SIGUSR2 from now on. The signals that stop a server still end the process, because no client is
    /// served yet, and opening the archives may take long.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<KeptSignals> {
        Ok(KeptSignals(Arc::new(Mutex::new(Some(Signals::new(ORDERS)?)))))
    }

    /// Keeps the signals that stop the server too. To be called before a listening socket exists, because the kernel completes
    /// connections from then on.
    pub(crate) fn keep_stops(&self) -> io::Result<()> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().try_for_each(|signals| STOPS.iter().try_for_each(|signal| signals.add_signal(*signal)))
    }

    /// Returns all signals, and those that have arrived. Without `kept`, the signals are registered only now.
    pub(crate) fn take(kept: Option<&KeptSignals>) -> io::Result<Signals> {
        let taken = kept.and_then(|kept| kept.0.lock().unwrap_or_else(PoisonError::into_inner).take());
        let signals = taken.map_or_else(|| Signals::new(ORDERS), Ok)?;
        STOPS.iter().try_for_each(|signal| signals.add_signal(*signal))?;
        Ok(signals)
    }
}
