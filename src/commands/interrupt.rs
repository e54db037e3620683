//! Signals during a build: the temporary files are removed, then the signal ends the process.
//!
//! Signals that were ignored when the process started stay ignored, as `nohup` expects.

use std::path::PathBuf;

use cannery_archiver::temporary;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

/// Handles signals until it is dropped. After that, these signals have no effect of their own.
pub(super) struct Interrupt {
    /// `None` if signals cannot be handled. They then end the process without a cleanup.
    handle: Option<Handle>,
}

impl Interrupt {
    /// Removes the temporary files of builds, and `directory`, when a signal ends this process.
    pub(super) fn watch(directory: Option<PathBuf>) -> Interrupt {
        Interrupt { handle: start(directory) }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.close();
        }
    }
}

fn start(directory: Option<PathBuf>) -> Option<Handle> {
    let ignored = ignored_signals();
    let handled = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(handled).ok()?;
    let handle = signals.handle();
    let wait = move || {
        let Some(signal) = signals.forever().next() else { return };
        // Until the guard is dropped, no thread creates another temporary file.
        let guard = temporary::remove_all();
        if let Some(directory) = directory {
            let _ = std::fs::remove_dir_all(directory);
        }
        // The process ends by the signal, so its parent sees which one it was.
        let _ = emulate_default_handler(signal);
        drop(guard);
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(wait).ok()?;
    Some(handle)
}

/// Returns the signals that were ignored when this process started, one bit each (`SigIgn` in `proc(5)`). 0 if the
/// system has no `/proc`.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
