//! Signals to the order to stop.
//!
//! Never runs code inside a handler: a thread of its own waits for them.

use std::io;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Stop;

/// The exit code of a program that a second signal ends: as a shell reports SIGINT.
const INTERRUPTED: i32 = 130;

/// Gives the order to stop when SIGINT or SIGTERM comes. Who sends a second one does not want to wait.
pub(crate) fn stop_on_signal(stop: Stop) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            stop.order();
        }
        if signals.next().is_some() {
            std::process::exit(INTERRUPTED);
        }
    })?;
    Ok(())
}
