//! Process management: listening sockets, supervisor, takeover by a new program, service manager.

mod datagrams;
mod down_processes;
mod handover;
pub mod inheritance;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
mod listening;
pub mod notify;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod portable;
mod process_slot;
pub mod supervisor;
pub mod takeover;

pub use datagrams::{Datagrams, ProcessDatagrams};
pub(crate) use down_processes::DownProcesses;
pub(crate) use handover::Handover;
pub use listening::Listening;
pub use platform::end_with_parent;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as platform;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
use portable as platform;
