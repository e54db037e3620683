//! Unnamed files in memory, for archives that only this process reads.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{create, protect};

#[cfg(any(test, not(target_os = "linux")))]
mod portable;
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{create, protect};
