//! What only Linux has, in small: names of sockets that are no paths, and the end of a process with its parent.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;

use rustix::process::{Signal, set_parent_process_death_signal};

/// Has this process be told to stop when the one that started it is gone.
pub fn end_with_parent() {
    // Where it cannot be had, somebody has to stop it.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

/// The address of a local socket whose name is no path.
pub(super) fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}
