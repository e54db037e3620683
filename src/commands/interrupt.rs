//! Handles signals during a build by removing temporary files before letting the signal end the process.
//!
//! Signals that were ignored when the process started must remain ignored, as `nohup` relies on this. The first process of a container
//! is never ended by a signal that it doesn't handle, so it exits by itself.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cannery_archiver::temporary;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::{self, emulate_default_handler};

use crate::output;

/// Handles signals until it's dropped.
///
/// After that, they end the process as if it had never handled them.
pub(super) struct Interrupt {
    /// `None` when it is not possible to handle signals. They will then end the process without any cleanup.
    handle: Option<Handle>,
    farewell: Farewell,
}

/// A line that is printed if the process is interrupted.
type Farewell = Arc<Mutex<Option<String>>>;

impl Interrupt {
    /// When this process is ended by a signal, temporary files of builds will be removed, and `directory`
    /// too.
    pub(super) fn watch(directory: Option<PathBuf>) -> Interrupt {
        let farewell = Farewell::default();
        let handle = start(directory, Arc::clone(&farewell));
        UNHANDLED.store(handle.is_none(), Ordering::Release);
        Interrupt { handle, farewell }
    }

    /// Sets a line that is printed if this process is ended by a signal.
    pub(super) fn farewell(&self, line: String) {
        *self.farewell.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.close();
            for signal in handled_signals() {
                let always = Arc::new(AtomicBool::new(true));
                let _ = signal_hook::flag::register_conditional_default(signal, always);
            }
        }
        UNHANDLED.store(true, Ordering::Release);
    }
}

/// Whether there is no [`Interrupt`], so that signals end the first process at once.
static UNHANDLED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));

/// Lets signals end a command even if it is the first process of a container. Without this, the container is killed after a while.
pub(super) fn allow_in_first_process() {
    if is_first_process() {
        for signal in handled_signals() {
            let unhandled = Arc::clone(&UNHANDLED);
            // If this isn't possible, the container is killed as before.
            let _ = signal_hook::flag::register_conditional_shutdown(signal, exit_code(signal), unhandled);
        }
    }
}

fn is_first_process() -> bool {
    std::process::id() == 1
}

/// Returns the exit code that shells use for a process that was ended by a signal.
fn exit_code(signal: i32) -> i32 {
    128 + signal
}

fn start(directory: Option<PathBuf>, farewell: Farewell) -> Option<Handle> {
    let mut signals = Signals::new(handled_signals()).ok()?;
    let handle = signals.handle();
    let wait = move || {
        let Some(signal) = signals.forever().next() else { return };
        // While the guard is held, no other thread is able to create a temporary file.
        let guard = temporary::remove_all();
        if let Some(directory) = directory {
            let _ = std::fs::remove_dir_all(directory);
        }
        if let Some(line) = farewell.lock().unwrap_or_else(PoisonError::into_inner).take() {
            output::note(line);
        }
        if is_first_process() {
            low_level::exit(exit_code(signal));
        }
        // The process should really be ended by the signal, so that the parent can see which one it was.
        let _ = emulate_default_handler(signal);
        drop(guard);
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(wait).ok()?;
    Some(handle)
}

/// Returns the signals that end the process, except for those that were ignored when it was started.
fn handled_signals() -> impl Iterator<Item = i32> {
    static IGNORED: LazyLock<u64> = LazyLock::new(ignored_signals);
    [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| *IGNORED >> (signal - 1) & 1 == 0)
}

/// Determines which signals were ignored when this process was started, with one bit per signal (see `SigIgn` in `proc(5)`).
/// If there is no `/proc`, this is 0.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
