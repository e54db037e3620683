//! What stands for `system.rs` where there is no Linux: local sockets are paths, and a process looks for its parent.

use std::env::temp_dir;
use std::fs::remove_file;
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
pub(crate) fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has sockets with a name that is no path"))
}

/// An address for a local socket of this process's, and how `NOTIFY_SOCKET` spells it. What a process of the same
/// number has left there is cleared away.
pub(crate) fn own_address(name: &str) -> io::Result<(SocketAddr, String)> {
    let path = temp_dir().join(name);
    let spelled = path.to_str().map(str::to_owned);
    let spelled =
        spelled.ok_or_else(|| io::Error::other("the folder for temporary files has no name in UTF-8"))?;
    forget_address(&spelled);
    Ok((SocketAddr::from_pathname(path)?, spelled))
}

/// Clears away what is left of such a socket: its path.
pub(crate) fn forget_address(spelled: &str) {
    // It fails only where there is nothing left.
    let _ = remove_file(spelled);
}
