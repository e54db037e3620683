//! The bodies of the fuzz targets: plain functions from bytes, for libFuzzer and for the smoke run alike.
//!
//! A target returns where nothing is wrong, and panics where something is. Adding one: a function in the file
//! that it belongs to, a line in [`TARGETS`], a file in `fuzz_targets/`, a folder in `corpus/`.

#![forbid(unsafe_code)]

mod archives;
mod choices;
// The ordinary tests of `wire` run the same from seeds.
mod frames;
mod hpack;
#[path = "../../crates/wire/tests/interop/peers/mod.rs"]
mod interop;
mod proxied;
mod requests;
mod rules;
mod site;
mod twins;

pub use archives::{archive_open, key};
pub use choices::{accept_encoding, conditions, date, ranges};
pub use frames::frames;
pub use hpack::{hpack, hpack_encoder};
pub use interop::{client as interop_client, server as interop_server};
pub use proxied::proxy_header;
pub use requests::requests;
pub use rules::{headers, redirects};

/// A target: its name, which is that of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 15] = [
    ("archive_open", archive_open),
    ("hpack", hpack),
    ("hpack_encoder", hpack_encoder),
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
    ("interop_client", interop_client),
    ("interop_server", interop_server),
];
