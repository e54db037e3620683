//! Tests of `compile` from outside: a folder in, an archive out, read by the archive's own reader.
//!
//! The tests use only options, errors and report of the archiver. Modules in reading order: the harness, paths, response
//! heads, and the build.

// In tests, a panic is a failure.
#![allow(clippy::unwrap_used)]

mod site;

mod folders;
mod hosts;
mod left_out;
mod loops;
mod names;
mod rules;
mod special;

mod codings;
mod dates;
mod headers;
mod hpack;
mod precompressed;
mod types;

mod caches;
mod determinism;
mod faults;
mod previous;
mod publishing;
mod report;
