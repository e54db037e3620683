//! Process management: listening sockets, supervisor, takeover by a new program, service manager.

mod datagrams;
mod down_processes;
mod handover;
mod inheritance;
mod inherited;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
mod listening;
pub mod notify;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod portable;
mod process_slot;
mod role;
mod supervisor;
mod takeover;

pub(crate) use datagrams::Datagrams;
pub(crate) use down_processes::DownProcesses;
pub(crate) use handover::Handover;
pub(crate) use listening::Listening;
pub use role::{Addresses, Role, started_program, supervise};

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as platform;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
use portable as platform;
