//! Systems other than Linux, where there are no abstract Unix sockets and a thread has to poll the parent
//! process.

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
        // This only fails if the process is already exiting.
        let _ = kill_process(getpid(), Signal::TERM);
    };
    // Without this thread, operators have to stop the process themselves.
    let _ = Builder::new().name("parent".into()).spawn(watch);
}

/// Always fails because only Linux has abstract Unix sockets.
pub(super) fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has abstract Unix sockets"))
}
