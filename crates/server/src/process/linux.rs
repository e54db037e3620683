//! Linux: abstract Unix sockets, and the signal at the death of the parent process.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;

use rustix::process::{Signal, set_parent_process_death_signal};

/// Makes the kernel send SIGTERM to this process when its parent exits (`PR_SET_PDEATHSIG`).
pub(super) fn end_with_parent() {
    // Without it, the operator has to stop the process.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

/// Returns the address of an abstract Unix socket (`unix(7)`).
pub(super) fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}
