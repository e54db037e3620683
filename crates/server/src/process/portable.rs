//! Systems other than Linux: no abstract Unix sockets, and a thread that polls the parent process.

use std::io;
use std::os::unix::net::SocketAddr;
use std::thread::{Builder, sleep};
use std::time::Duration;

use rustix::process::{Signal, getpid, getppid, kill_process};

/// Interval at which a process checks its parent.
const PARENT_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Sends SIGTERM to this process when its parent exits.
pub(super) fn end_with_parent() {
    let parent = getppid();
    let watch = move || {
        while getppid() == parent {
            sleep(PARENT_CHECK_INTERVAL);
        }
        // This fails only if the process exits already.
        let _ = kill_process(getpid(), Signal::TERM);
    };
    // Without the thread, the operator has to stop the process.
    let _ = Builder::new().name("parent".into()).spawn(watch);
}

/// Fails: only Linux has abstract Unix sockets.
pub(super) fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has abstract Unix sockets"))
}
