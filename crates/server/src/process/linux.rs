//! Linux: abstract Unix sockets, and a signal when the parent process exits.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;

use rustix::process::{Signal, set_parent_process_death_signal};

/// Makes the kernel send SIGTERM to this process when its parent exits (`PR_SET_PDEATHSIG`).
pub(super) fn end_with_parent() {
    // If this fails, operators have to stop the process themselves.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

/// Returns the address of an abstract Unix socket (`unix(7)`).
pub(super) fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}
