//! Process management: listening sockets, supervisor, takeover by a new program, service manager.

// The role of a process.
mod role;

// When a child process that has ended is started again.
pub mod restarts;

// The supervisor, its processes, and the program that replaces it.
mod process_slot;
mod supervisor;
mod takeover;

// Sockets, opened or inherited: TCP and Unix sockets, UDP sockets.
mod datagrams;
mod listening;

// Descriptors and variables, as they are passed and as they are read.
mod inheritance;
mod inherited;

// Messages to running processes: accept for others, leave the UDP sockets.
mod down_processes;
mod handover;

// Open files, and releases as such files, sent to another process.
pub mod file_socket;
pub mod release_socket;

// Messages to the service manager.
pub mod notify;

// System calls of one platform.
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod portable;

pub(crate) use datagrams::Datagrams;
pub(crate) use down_processes::DownProcesses;
pub(crate) use handover::Handover;
pub(crate) use listening::Listening;
pub use role::{Addresses, Role, started_program, supervise};
#[cfg(test)]
pub(crate) use takeover::READY_WITHIN;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as platform;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
use portable as platform;
