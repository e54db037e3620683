//! Protects a mapped archive against changes of its file, as far as the platform can.

#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub use linux::{Lease, is_open_for_writing};
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub(crate) use linux::{prefer_huge_pages, replace_with_copy};

#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod portable;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
pub use portable::{Lease, is_open_for_writing};
#[cfg(any(feature = "portable", not(target_os = "linux")))]
pub(crate) use portable::{prefer_huge_pages, replace_with_copy};
