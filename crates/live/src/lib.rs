//! Follows a site's folder and recompiles it after each change.
//!
//! This is used by `cannery serve DIR`, by `cannery-server --folder DIR`, and by debug builds of programs with an embedded site.
//! Each of them has to provide its own [`BuildSink`] to decide what to do with archives and how failures should be reported.
//!
//! This crate is internal to Cannery, that is, its interface may change in any release. Programs should use the `cannery`
//! crate instead.

#![forbid(unsafe_code)]

mod changes; // Changes of the folder, from before its first build on.
mod message; // Messages from everybody who finds a change.
mod updater; // Decides when to compile, and which builds are served.

pub use changes::FolderChanges;
pub use message::{Message, ScanResult};
pub use updater::{BuildSink, Compression, FolderEvent, Updater};
