//! What a process hands on to a program that it starts: open sockets, and the variables that name them.
//!
//! Sockets are closed in every program but the one that they are for.

use std::io::{self, PipeReader, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::{Child, Command};

use cannery_eventloop::Listener;
use cannery_secure::Seed;
use rustix::io::{FdFlags, fcntl_setfd};

use crate::config::ListenerKind;

/// The variable that names the descriptors of inherited listeners, with commas between.
pub const LISTENERS_VARIABLE: &str = "CANNERY_LISTENERS";

/// The variable that names those of them whose connections speak TLS.
pub const TLS_LISTENERS_VARIABLE: &str = "CANNERY_TLS_LISTENERS";

/// The variable that names the descriptors of inherited sockets for figures: one on which the process is asked, or
/// all those on which the process of the operators asks.
pub const FIGURES_VARIABLE: &str = "CANNERY_FIGURES";

/// The variable that names the descriptor of the operators' listener, for a supervisor that takes over.
pub const OPERATORS_VARIABLE: &str = "CANNERY_OPERATORS";

/// The variable that names the listeners of other processes, for while these are gone: `PROCESS:DESCRIPTOR` for each, with
/// commas between. Those whose connections speak TLS are named by [`TLS_LISTENERS_VARIABLE`] too.
pub const STANDBY_VARIABLE: &str = "CANNERY_STANDBY_LISTENERS";

/// The variable that names the descriptor of the socket to the supervisor.
pub const SUPERVISOR_VARIABLE: &str = "CANNERY_SUPERVISOR";

/// The variable that names the descriptor of a pipe with the seed of tickets.
pub const SEED_VARIABLE: &str = "CANNERY_TICKET_SEED";

/// A pipe that holds a seed, to be read by one process.
pub(super) fn pipe_of(seed: &Seed) -> io::Result<PipeReader> {
    let (reader, mut writer) = io::pipe()?;
    // It fits the pipe, so nobody has to read meanwhile.
    writer.write_all(&*seed.to_bytes())?;
    Ok(reader)
}

/// Descriptors as the variables spell them.
pub(crate) fn numbers(descriptors: &[impl AsFd]) -> String {
    let numbers: Vec<_> = descriptors.iter().map(|one| one.as_fd().as_raw_fd().to_string()).collect();
    numbers.join(",")
}

/// Names listeners to a program that is to be started with them.
pub(super) fn name_listeners(
    command: &mut Command,
    listeners: &[(ListenerKind, &Listener)],
    standby: &[(usize, ListenerKind, &Listener)],
) {
    let own: Vec<_> = listeners.iter().map(|(_, listener)| *listener).collect();
    command.env(LISTENERS_VARIABLE, numbers(&own));
    let all = listeners.iter().copied().chain(standby.iter().map(|(_, kind, listener)| (*kind, *listener)));
    let secured: Vec<_> = all.filter(|(kind, _)| *kind == ListenerKind::Tls).map(|(_, one)| one).collect();
    command.env(TLS_LISTENERS_VARIABLE, numbers(&secured));
    let named = |(process, _, listener): &(usize, ListenerKind, &Listener)| {
        format!("{process}:{}", listener.as_fd().as_raw_fd())
    };
    command.env(STANDBY_VARIABLE, standby.iter().map(named).collect::<Vec<_>>().join(","));
}

/// Starts a program with these descriptors open. To be called by one thread only, so that no other program that is
/// started meanwhile gets them.
pub(crate) fn spawn(command: &mut Command, descriptors: &[BorrowedFd<'_>]) -> io::Result<Child> {
    for descriptor in descriptors {
        fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    let child = command.spawn();
    for descriptor in descriptors {
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    child
}
