//! Tests `compile` as a black box: a folder goes in, an archive comes out, and we open it with the usual
//! reader.
//!
//! Only the archiver's options, errors and report are used. You may want to read the harness first, then the modules
//! about paths, response heads, and the build.

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
