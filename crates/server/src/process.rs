//! Process management: listening sockets, supervisor, takeover by a new program, service manager.

// The role of a process.
mod role;

// When to restart a child process that has exited.
pub mod restarts;

// The supervisor, its processes, and the program that replaces it.
mod process_slot;
mod supervisor;
mod takeover;

// TCP, Unix and UDP sockets, either opened or inherited.
mod datagrams;
mod listening;

// Passing descriptors and environment variables to a program, and reading them.
mod environment;
mod spawn;

// Messages to running processes: accept for others, leave the UDP sockets.
mod down_processes;
mod udp_handover;

// Sends open files to another process, for example releases.
pub mod file_socket;
pub mod release_socket;

// Messages to the service manager.
pub mod notify;

// Platform-specific system calls.
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod portable;

pub use cannery_eventloop::close_on_exec;

pub(crate) use datagrams::Datagrams;
pub(crate) use down_processes::DownProcesses;
pub(crate) use listening::Listening;
pub use role::{Addresses, Role, started_program, supervise};
#[cfg(test)]
pub(crate) use takeover::READY_WITHIN;
pub(crate) use udp_handover::UdpHandover;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as platform;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
use portable as platform;
