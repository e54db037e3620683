//! Passes descriptors to programs that we start, using environment variables that name them.
//!
//! Descriptors have the close-on-exec flag except while we are starting a program that should inherit
//! them.

use std::io::{self, PipeReader, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::{Child, Command};

use cannery_eventloop::{Listener, UdpSocket};
use cannery_transport::Seed;
use rustix::io::{FdFlags, fcntl_setfd};

use super::datagrams::ProcessDatagrams;
use crate::config::{ListenerKind, Standby};

/// Descriptors of inherited listeners, separated by commas.
pub(super) const LISTENERS_VARIABLE: &str = "CANNERY_LISTENERS";

/// The inherited listeners that use TLS. This is a subset of [`LISTENERS_VARIABLE`].
pub(super) const TLS_LISTENERS_VARIABLE: &str = "CANNERY_TLS_LISTENERS";

/// Descriptors of inherited sockets for statistics. A serving process replies on its socket, while the
/// admin process queries the others through theirs.
pub(super) const STATS_VARIABLE: &str = "CANNERY_STATS";

/// Descriptor of the admin listener, for a supervisor that takes over.
pub(super) const ADMIN_VARIABLE: &str = "CANNERY_ADMIN_LISTENER";

/// Standby listeners (those of other processes) in the form `PROCESS:DESCRIPTOR`, separated by commas.
/// Listeners that use TLS are also in [`TLS_LISTENERS_VARIABLE`].
pub(super) const STANDBY_VARIABLE: &str = "CANNERY_STANDBY_LISTENERS";

/// Descriptor of the socket to the supervisor.
pub(super) const SUPERVISOR_VARIABLE: &str = "CANNERY_SUPERVISOR";

/// Descriptor of a pipe that contains the seed of the ticket keys.
pub(super) const SEED_VARIABLE: &str = "CANNERY_TICKET_SEED";

/// UDP sockets for a program that takes over, as descriptors separated by commas. They are in the order in
/// which they were bound.
pub(super) const DATAGRAMS_VARIABLE: &str = "CANNERY_DATAGRAMS";

/// UDP sockets of a process. Each has the form `WORKER:DESCRIPTOR`, and they are separated by commas.
pub(super) const PART_VARIABLE: &str = "CANNERY_DATAGRAMS_OF_WORKERS";

/// Place of a process in HTTP/3, in the form `FIRST_WORKER:PORT`.
pub(super) const PLACE_VARIABLE: &str = "CANNERY_QUIC_PLACE";

/// Descriptors of a process's forwarding sockets, one for each worker, separated by commas.
pub(super) const FORWARDING_VARIABLE: &str = "CANNERY_FORWARDING";

/// Addresses of the forwarding sockets of all processes, in the order of their workers, separated by commas.
pub(super) const WORKERS_VARIABLE: &str = "CANNERY_FORWARDING_OF_WORKERS";

/// Addresses of the predecessor's forwarding sockets, separated by commas and in the order of its
/// workers. The variable is inherited by a supervisor's processes.
pub(super) const PREDECESSORS_VARIABLE: &str = "CANNERY_FORWARDING_OF_PREDECESSOR";

/// Generation of connection IDs.
pub(super) const GENERATION_VARIABLE: &str = "CANNERY_QUIC_GENERATION";

/// Returns a pipe that contains the seed. It can only be used by one process.
pub(super) fn seed_pipe(seed: &Seed) -> io::Result<PipeReader> {
    let (reader, mut writer) = io::pipe()?;
    // The seed is smaller than a pipe's buffer, so this will not block.
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

/// Sets the environment variables that name a program's listeners.
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

/// Sets the environment variables that name a process's UDP sockets.
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
/// Note that only one thread may start programs. If another thread started one in the meantime, the
/// descriptors would also be inherited by that program.
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
