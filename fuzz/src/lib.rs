//! Fuzz targets as plain functions from bytes, for libFuzzer and for the smoke run.
//!
//! A target panics if it finds a bug. To add one, write a function in the module that it belongs to, a file in
//! `fuzz_targets/`, a directory in `corpus/`, and its name in `tests/smoke.rs`.

#![forbid(unsafe_code)]

mod archives;
mod choices;
mod datagrams;
mod frames;
mod hpack;
mod import;
// The tests of `wire` run the same code from seeds.
#[path = "../../crates/wire/tests/interop"]
mod interop {
    pub(crate) mod peers;
}
mod proxied;
mod publish;
mod qpack;
mod reference;
mod requests;
mod rules;
mod site;
mod store;
mod streams;

pub use archives::{archive_open, key};
pub use choices::{accept_encoding, conditions, date, ranges};
pub use datagrams::datagrams;
pub use frames::frames;
pub use hpack::{hpack, hpack_encoder};
pub use import::import;
pub use interop::peers::{client as interop_client, server as interop_server};
pub use proxied::proxy_header;
pub use publish::{receive, recipe};
pub use qpack::{qpack, qpack_encoder};
pub use requests::requests;
pub use rules::{headers, redirects};
pub use store::{statement, store_document};
pub use streams::streams;
