//! The command lines of the three programs.
//!
//! - [`flags`]: the flags, each defined once, and the typed values that they mean
//! - [`commands`]: a module for each command
//! - [`reference`]: manual pages, completions and `docs/reference`, printed from the flags
//! - [`sbom`]: the list of libraries in the programs
//! - [`output`]: results, errors and exit codes
//! - [`format`] and [`progress`]: numbers and progress bars for people
//!
//! The programs in `bin/` only call this library. It knows no byte of an archive or of a protocol: the crates below do.

#![forbid(unsafe_code)]

pub mod flags;

pub mod commands;

pub mod reference;
pub mod sbom;

pub mod format;
pub mod output;
pub mod progress;
