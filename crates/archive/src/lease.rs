//! Protects a mapped archive against changes of its file, as far as the platform can.

#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub use linux::{Lease, writers};
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub(crate) use linux::{prefer_huge_pages, replace_with_copy};

#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod portable;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
pub use portable::{Lease, writers};
#[cfg(any(feature = "portable", not(target_os = "linux")))]
pub(crate) use portable::{prefer_huge_pages, replace_with_copy};

/// Whether another process has a file open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// No process has.
    Absent,
    /// At least one process has.
    Present,
    /// The system doesn't report it: the file belongs to another user, its file system has no leases, or the platform has none.
    Unknown,
}
