//! Helpers for several crates. They do not know archives or HTTP messages.
//!
//! All of them are pure functions of bytes, integers and file metadata: no I/O, no clock, no allocations. There are no dependencies
//! either.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// Byte search, eight bytes at a time.
pub mod swar;
// Hexadecimal digits.
pub mod hex;
// HTTP dates and RFC 3339 timestamps.
pub mod date;
// Reason phrases of HTTP status codes.
pub mod status;
// Identity of files, from their metadata.
mod file_version;

pub use file_version::{FileStamp, FileVersion};
