//! Command lines of the three programs.
//!
//! - [`flags`]: all flags (each of them is defined once) and the typed values they are parsed into
//! - [`commands`]: one module per command
//! - [`reference`]: manual pages, completions and `docs/reference`, generated from the flags
//! - [`sbom`]: the libraries in the programs (software bill of materials)
//! - [`output`]: results, errors and exit codes
//! - [`format`] and [`progress`]: numbers and progress bars for people
//!
//! The programs in `bin/` do nothing but call this library. Neither of them needs to know about archive formats or protocols:
//! we leave these to the other crates.

#![forbid(unsafe_code)]

pub mod flags;

pub mod commands;

pub mod reference;
pub mod sbom;

pub mod format;
pub mod output;
pub mod progress;
