//! Follows a folder: reports that its files have changed, by events of the system, or by polling where those cannot be
//! relied upon.
//!
//! We don't report which files have changed, because editors, file systems and event queues disagree about that: the caller
//! compares them itself. A report covers all changes of a moment. The folder may vanish and return, and its path may lead
//! through symlinks that are changed.
//!
//! The crate doesn't depend on sites, archives or HTTP.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// The thread that waits for changes, and the reports.
mod follower;

// Scans on request.
mod inspector;

// Sources of changes.
mod polling; // Compares the metadata of all files.
mod watches; // Events of the system.

// The folder.
mod file_system; // Its file system, which may have no events.
mod tree; // Its directories and files.

pub use follower::{Event, Follower, Mode, PollingReason, Settings, StartError};
pub use inspector::Inspector;
pub use polling::{FileMetadata, FilesState, Finding};
pub use tree::Filter;
pub use watches::Limit;
