//! What stands for `system.rs` where there is no Linux: local sockets are paths, and a process outlives its parent.

use std::env::temp_dir;
use std::fs::remove_file;
use std::io;
use std::os::unix::net::SocketAddr;

/// Would have this process be told to stop when the one that started it is gone. Somebody has to stop it.
pub fn end_with_parent() {}

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
