//! Keeps signals until the server is able to act on them. Otherwise, they would terminate the process.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// Signals that a running server acts on.
const ORDERS: [i32; 3] = [SIGHUP, SIGUSR1, SIGUSR2];

/// Signals that stop a server.
const STOPS: [i32; 3] = [SIGINT, SIGTERM, SIGQUIT];

/// Keeps signals until the server is ready.
#[derive(Debug, Clone)]
pub struct KeptSignals(Arc<Mutex<Option<Signals>>>);

impl KeptSignals {
    /// Starts to keep SIGHUP, SIGUSR1 and SIGUSR2.
    ///
    /// At this point, signals that stop a server still terminate the process. Since no client is being served
    /// yet, this is fine (and opening the archives may take long).
    ///
    /// # Errors
    /// Returns an error if the process is out of descriptors.
    pub fn new() -> io::Result<KeptSignals> {
        Ok(KeptSignals(Arc::new(Mutex::new(Some(Signals::new(ORDERS)?)))))
    }

    /// Also keeps signals that stop the server. This must be called before there are any listening sockets
    /// because the kernel will complete connections from then on.
    pub(crate) fn keep_stops(&self) -> io::Result<()> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().try_for_each(|signals| STOPS.iter().try_for_each(|signal| signals.add_signal(*signal)))
    }

    /// Returns all signals, including any that have already arrived. Without `kept`, they are only
    /// registered now.
    pub(crate) fn take(kept: Option<&KeptSignals>) -> io::Result<Signals> {
        let taken = kept.and_then(|kept| kept.0.lock().unwrap_or_else(PoisonError::into_inner).take());
        let signals = taken.map_or_else(|| Signals::new(ORDERS), Ok)?;
        STOPS.iter().try_for_each(|signal| signals.add_signal(*signal))?;
        Ok(signals)
    }
}
