//! Follows the folder of a site, and compiles it again after each change.
//!
//! `cannery serve DIR`, `cannery-server --folder DIR` and the debug builds of programs with an embedded site all follow a folder
//! in this way. They differ in their [`BuildSink`]: where the archives go, and who learns of failures.

#![forbid(unsafe_code)]

mod changes; // Changes of the folder, from before its first build on.
mod message; // Messages from everybody who finds a change.
mod updater; // Decides when to compile, and which builds are served.

pub use changes::FolderChanges;
pub use message::{Message, ScanResult};
pub use updater::{BuildSink, Compression, FolderEvent, Updater};
