//! Signals to orders: stop, look for new releases.
//!
//! Never runs code inside a handler: a thread of its own waits for them.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Stop;
use crate::reload::ReloadOrder;

/// The exit code of a program that a second signal ends: as a shell reports SIGINT.
const INTERRUPTED: i32 = 130;

/// Gives the order to stop when SIGINT or SIGTERM comes, and the one to look for new releases at SIGHUP. Who
/// sends a second signal to stop does not want to wait.
pub(crate) fn obey(stop: Stop, reload: Option<ReloadOrder>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut stopping = false;
        for signal in signals.forever() {
            match signal {
                SIGHUP => reload.iter().for_each(ReloadOrder::give),
                _ if stopping => std::process::exit(INTERRUPTED),
                _ => {
                    stopping = true;
                    stop.order();
                }
            }
        }
    })?;
    Ok(())
}
