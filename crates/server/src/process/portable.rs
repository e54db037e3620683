//! What stands for `system.rs` where there is no Linux: local sockets are paths alone, and a process looks for its parent.

use std::io;
use std::os::unix::net::SocketAddr;
use std::thread::{Builder, sleep};
use std::time::Duration;

use rustix::process::{Signal, getpid, getppid, kill_process};

/// How often a process looks whether its parent is there.
const PARENT_LOOK: Duration = Duration::from_millis(500);

/// Has this process be told to stop when the one that started it is gone.
pub fn end_with_parent() {
    let parent = getppid();
    let watch = move || {
        while getppid() == parent {
            sleep(PARENT_LOOK);
        }
        // It fails only where the process ends already.
        let _ = kill_process(getpid(), Signal::TERM);
    };
    // Where there can be no thread, somebody has to stop it.
    let _ = Builder::new().name("parent".into()).spawn(watch);
}

/// There is no local socket whose name is no path.
pub(super) fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has sockets with a name that is no path"))
}
