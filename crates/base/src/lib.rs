//! Helpers that several crates need and that know neither archives nor HTTP messages.
//!
//! Pure functions over bytes, integers and metadata of files: no I/O, no clock, no allocation, no dependencies.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// Byte search, eight bytes at a time.
pub mod swar;
// HTTP dates and RFC 3339 timestamps.
pub mod date;
// Identity of files, from their metadata.
mod file_version;

pub use file_version::{FileStamp, FileVersion};
