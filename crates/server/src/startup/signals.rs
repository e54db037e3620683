//! Signals to orders: stop, look for new releases, open the access log anew.
//!
//! Never runs code inside a handler: a thread of its own waits for them.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::Stop;
use crate::config::NoticeHandler;
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::Reopen;
use crate::process::notify::Notify;
use crate::reload::ReloadOrder;
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// The exit code of a program that a second signal ends: as a shell reports SIGINT.
const INTERRUPTED: i32 = 130;

/// Gives the order to stop when SIGINT or SIGTERM comes, the one to look for new releases at SIGHUP, and the
/// one to open the access log anew at SIGUSR1. At SIGUSR2 it says that it starts no program. Who sends a second signal to stop does not want to wait.
pub(crate) fn obey(
    stop: Stop,
    reload: Option<ReloadOrder>,
    reopen: Option<Reopen>,
    notify: Notify,
    on_notice: NoticeHandler,
    sandbox: &Sandbox,
) -> Result<(), StartError> {
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]);
    let mut signals = signals.map_err(StartError::Signals)?;
    if let Some(life) = notify.signs_of_life() {
        thread::start("watchdog", sandbox, ThreadRole::Orders, life)?;
    }
    thread::start("signals", sandbox, ThreadRole::Orders, move || {
        let mut stopping = false;
        for signal in signals.forever() {
            match signal {
                SIGHUP => {
                    notify.reloading();
                    reload.iter().for_each(ReloadOrder::give);
                    notify.ready("serving");
                }
                // Without this it would end the process.
                SIGUSR2 => (on_notice.0)(&Notice::NoSupervisor),
                SIGUSR1 => reopen.iter().for_each(Reopen::order),
                _ if stopping => std::process::exit(INTERRUPTED),
                _ => {
                    stopping = true;
                    notify.stopping();
                    stop.order();
                }
            }
        }
    })?;
    Ok(())
}
