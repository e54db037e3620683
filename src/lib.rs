//! The command line: words in, exit codes out.
//!
//! The modules in reading order: [`flags`] defines every flag once and reads them into plain values,
//! [`commands`] has a file for each command, [`output`] is how they speak and end, [`format`] and [`progress`]
//! are how numbers look, [`reference`] prints the manual from the flags, [`sbom`] what all is made of. The three programs in `bin/` are
//! one line each. Nothing here knows a byte of an archive or of a protocol: the crates below do.

#![forbid(unsafe_code)]

pub mod flags;

pub mod commands;

pub mod reference;
pub mod sbom;

pub mod format;
pub mod output;
pub mod progress;
