//! Descriptors that a process passes to a program that it starts, and the environment variables that name them.
//!
//! Descriptors have the close-on-exec flag except while the program that inherits them is started.

use std::io::{self, PipeReader, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::{Child, Command};

use cannery_eventloop::{Listener, UdpSocket};
use cannery_secure::Seed;
use rustix::io::{FdFlags, fcntl_setfd};

use super::datagrams::ProcessDatagrams;
use crate::config::{ListenerKind, Standby};

/// Environment variable with the descriptors of inherited listeners, separated by commas.
pub(super) const LISTENERS_VARIABLE: &str = "CANNERY_LISTENERS";

/// Environment variable with the inherited listeners that use TLS, a subset of [`LISTENERS_VARIABLE`].
pub(super) const TLS_LISTENERS_VARIABLE: &str = "CANNERY_TLS_LISTENERS";

/// Environment variable with the descriptors of inherited sockets for statistics: in a serving process the one on which it
/// replies, in the admin process those on which it queries the others.
pub(super) const STATS_VARIABLE: &str = "CANNERY_STATS";

/// Environment variable with the descriptor of the admin listener, for a supervisor that takes over.
pub(super) const ADMIN_VARIABLE: &str = "CANNERY_ADMIN_LISTENER";

/// Environment variable with the standby listeners, those of other processes: `PROCESS:DESCRIPTOR` for each, separated by
/// commas. [`TLS_LISTENERS_VARIABLE`] includes those that use TLS.
pub(super) const STANDBY_VARIABLE: &str = "CANNERY_STANDBY_LISTENERS";

/// Environment variable with the descriptor of the socket to the supervisor.
pub(super) const SUPERVISOR_VARIABLE: &str = "CANNERY_SUPERVISOR";

/// Environment variable with the descriptor of a pipe that contains the seed of the ticket keys.
pub(super) const SEED_VARIABLE: &str = "CANNERY_TICKET_SEED";

/// Environment variable with the UDP sockets of a program that takes over: their descriptors in the order in which they were
/// bound, separated by commas.
pub(super) const DATAGRAMS_VARIABLE: &str = "CANNERY_DATAGRAMS";

/// Environment variable with the UDP sockets of a process: `WORKER:DESCRIPTOR` for each, separated by commas.
pub(super) const PART_VARIABLE: &str = "CANNERY_DATAGRAMS_OF_WORKERS";

/// Environment variable with the place of a process in HTTP/3: `FIRST_WORKER:PORT`.
pub(super) const PLACE_VARIABLE: &str = "CANNERY_QUIC_PLACE";

/// Environment variable with the descriptors of a process's forwarding sockets, one for each worker, separated by commas.
pub(super) const FORWARDING_VARIABLE: &str = "CANNERY_FORWARDING";

/// Environment variable with the addresses of the forwarding sockets of all processes, in the order of their workers,
/// separated by commas.
pub(super) const WORKERS_VARIABLE: &str = "CANNERY_FORWARDING_OF_WORKERS";

/// Environment variable with the addresses of the predecessor's forwarding sockets, in the order of its workers, separated by
/// commas. The processes of a supervisor inherit it.
pub(super) const PREDECESSORS_VARIABLE: &str = "CANNERY_FORWARDING_OF_PREDECESSOR";

/// Environment variable with the generation of connection IDs.
pub(super) const GENERATION_VARIABLE: &str = "CANNERY_QUIC_GENERATION";

/// Returns a pipe that contains the seed, for a single process.
pub(super) fn seed_pipe(seed: &Seed) -> io::Result<PipeReader> {
    let (reader, mut writer) = io::pipe()?;
    // The seed is smaller than the buffer of a pipe, so this never blocks.
    writer.write_all(&*seed.to_bytes())?;
    Ok(reader)
}

/// Formats descriptors for an environment variable.
pub(super) fn descriptor_list(descriptors: &[impl AsFd]) -> String {
    let numbers: Vec<_> = descriptors.iter().map(|one| one.as_fd().as_raw_fd().to_string()).collect();
    numbers.join(",")
}

/// Formats addresses for an environment variable.
pub(super) fn address_list(addresses: impl Iterator<Item = SocketAddr>) -> String {
    addresses.map(|address| address.to_string()).collect::<Vec<_>>().join(",")
}

/// Sets the environment variables that name the listeners of a program.
pub(super) fn set_listener_variables(
    command: &mut Command,
    listeners: &[(ListenerKind, &Listener)],
    standby: &[Standby<&Listener>],
) {
    let own: Vec<_> = listeners.iter().map(|(_, listener)| *listener).collect();
    command.env(LISTENERS_VARIABLE, descriptor_list(&own));
    let all = listeners.iter().copied().chain(standby.iter().map(|standby| (standby.kind, standby.listener)));
    let tls: Vec<_> = all.filter(|(kind, _)| *kind == ListenerKind::Tls).map(|(_, one)| one).collect();
    command.env(TLS_LISTENERS_VARIABLE, descriptor_list(&tls));
    let entry = |Standby { process, listener, .. }: &Standby<&Listener>| {
        format!("{process}:{}", listener.as_fd().as_raw_fd())
    };
    command.env(STANDBY_VARIABLE, standby.iter().map(entry).collect::<Vec<_>>().join(","));
}

/// Sets the environment variables that name the UDP sockets of a process.
pub(super) fn set_datagram_variables(command: &mut Command, part: &ProcessDatagrams) {
    let entry = |(worker, socket): &(usize, UdpSocket)| format!("{worker}:{}", socket.as_fd().as_raw_fd());
    command.env(PART_VARIABLE, part.sockets.iter().map(entry).collect::<Vec<_>>().join(","));
    command.env(PLACE_VARIABLE, format!("{}:{}", part.first_worker, part.port));
    command.env(FORWARDING_VARIABLE, descriptor_list(&part.forwarding));
    command.env(WORKERS_VARIABLE, address_list(part.workers.iter().copied()));
    command.env(GENERATION_VARIABLE, part.generation.to_string());
}

/// Starts a program that inherits these descriptors.
///
/// Only one thread may start programs, because a program that another thread starts meanwhile would inherit them too.
pub(super) fn spawn(command: &mut Command, descriptors: &[BorrowedFd<'_>]) -> io::Result<Child> {
    for descriptor in descriptors {
        fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    let child = command.spawn();
    for descriptor in descriptors {
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    child
}
