//! Fuzz targets as plain functions from bytes, for libFuzzer and for the smoke run.
//!
//! A target panics if it finds a bug. To add one, write a function in the module that it belongs to, a line
//! in [`TARGETS`], a file in `fuzz_targets/` and a directory in `corpus/`.

#![forbid(unsafe_code)]

mod archives;
mod choices;
// The tests of `wire` run the same code from seeds.
mod frames;
mod hpack;
#[path = "../../crates/wire/tests/interop/peers/mod.rs"]
mod interop;
mod proxied;
mod qpack;
mod reference;
mod requests;
mod rules;
mod site;
mod streams;

pub use archives::{archive_open, key};
pub use choices::{accept_encoding, conditions, date, ranges};
pub use frames::frames;
pub use hpack::{hpack, hpack_encoder};
pub use interop::{client as interop_client, server as interop_server};
pub use proxied::proxy_header;
pub use qpack::{qpack, qpack_encoder};
pub use requests::requests;
pub use rules::{headers, redirects};
pub use streams::streams;

/// A target: its name, which is also that of its corpus, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 18] = [
    ("archive_open", archive_open),
    ("hpack", hpack),
    ("hpack_encoder", hpack_encoder),
    ("qpack", qpack),
    ("qpack_encoder", qpack_encoder),
    ("key", key),
    ("proxy_header", proxy_header),
    ("requests", requests),
    ("accept_encoding", accept_encoding),
    ("ranges", ranges),
    ("conditions", conditions),
    ("date", date),
    ("redirects", redirects),
    ("headers", headers),
    ("frames", frames),
    ("streams", streams),
    ("interop_client", interop_client),
    ("interop_server", interop_server),
];
