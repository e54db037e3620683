//! Protects mapped archives against changes to the file, as far as the platform allows this.

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

/// Whether other processes have a file open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// No process does.
    Absent,
    /// At least one process does.
    Present,
    /// The system cannot tell, because the file belongs to another user, or because its file system or the platform does not
    /// support leases.
    Unknown,
}
