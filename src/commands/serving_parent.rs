//! The server that has started this process: its end of our standard input, and the signals that are meant for it.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};

/// Signals that are meant for the server (e.g. to make it reopen its log), but are sent to all processes of a service by service
/// managers. Without a handler, they would terminate this process.
const SIGNALS_OF_THE_SERVER: [i32; 3] = [SIGHUP, SIGUSR1, SIGUSR2];

/// Ignores signals that are meant for the server.
pub(super) fn leave_signals_to_server() {
    for signal in SIGNALS_OF_THE_SERVER {
        // The handler only sets a flag, and we never read it. Registering should not fail unless the signal does
        // not exist.
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
}

/// Whether the server closes its end of the socket within this time.
pub(super) fn has_server_ended_within(timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).expect("the pause is short");
    await_hangup(Some(&timeout))
}

/// Waits until the server closes its end of the socket.
pub(super) fn await_server_end() {
    while !await_hangup(None) {}
}

fn await_hangup(timeout: Option<&Timespec>) -> bool {
    let input = io::stdin();
    // Even if we ask for nothing, the kernel always reports a hangup.
    let mut polled = [PollFd::from_borrowed_fd(input.as_fd(), PollFlags::empty())];
    let found = poll(&mut polled, timeout);
    found.is_ok_and(|count| count > 0)
}
