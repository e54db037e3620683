//! Processes around the one that serves: listening sockets, supervisor, takeover, service manager.

pub mod inheritance;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub(crate) mod linux;
pub(crate) mod listening;
pub mod notify;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
pub(crate) mod portable;
pub mod supervisor;
pub mod takeover;
pub(crate) mod vacancies;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub(crate) use linux as platform;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
pub(crate) use portable as platform;
