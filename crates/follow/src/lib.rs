//! Follows a folder and reports when files have changed. This uses system events if possible, and falls back to polling.
//!
//! Reports do not tell which files have changed, because editors, file systems and event queues tend to disagree about this;
//! instead, callers should compare the files themselves. Changes that happen at about the same time are reported together. The
//! folder may vanish and come back, and symlinks in its path are allowed to change.
//!
//! The crate does not depend on sites, archives or HTTP.
//!
//! This crate is internal to Cannery, i.e. its interface may change in any release. Programs should use the `cannery` crate
//! instead.

#![forbid(unsafe_code)]

// Waits for changes and reports them.
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
