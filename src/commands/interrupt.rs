//! Signals during a build: what it has written so far is removed, then the process ends by the signal.
//!
//! Signals that were ignored when the process started stay ignored, as `nohup` expects.

use std::path::PathBuf;

use cannery_archiver::temporary;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

/// Waits for signals until it is dropped. From then on these signals do nothing by themselves.
pub(super) struct Interrupt {
    /// `None` where signals cannot be waited for: then they end the process as they always did.
    handle: Option<Handle>,
}

impl Interrupt {
    /// Removes the temporary files of builds, and `folder`, when a signal ends this process.
    pub(super) fn watch(folder: Option<PathBuf>) -> Interrupt {
        Interrupt { handle: start(folder) }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.close();
        }
    }
}

fn start(folder: Option<PathBuf>) -> Option<Handle> {
    let ignored = ignored_signals();
    let heeded = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(heeded).ok()?;
    let handle = signals.handle();
    let wait = move || {
        let Some(signal) = signals.forever().next() else { return };
        let frozen = temporary::remove_all();
        if let Some(folder) = folder {
            let _ = std::fs::remove_dir_all(folder);
        }
        // The parent sees which signal it was.
        let _ = emulate_default_handler(signal);
        drop(frozen);
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(wait).ok()?;
    Some(handle)
}

/// The signals that this process was started to ignore, a bit for each; none where the system does not say so.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
