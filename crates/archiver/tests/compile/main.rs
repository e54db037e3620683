//! What `compile` promises, seen from outside: a folder in, an archive out, read back by its own reader.
//!
//! Nothing here knows a module of the archiver beyond its options, errors and report. The files in
//! reading order: the harness, what answers which path, what the answers say, and how a build behaves.

// A panic of the harness is a test's report, as one in a test is.
#![allow(clippy::unwrap_used)]

mod site;

mod folders;
mod hosts;
mod names;
mod rules;
mod special;

mod codings;
mod dates;
mod headers;
mod hpack;
mod types;

mod caches;
mod determinism;
mod faults;
mod previous;
mod publishing;
mod report;
