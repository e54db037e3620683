//! Tests of QUIC, using connections in memory between the product's endpoint and the client of `quinn-proto`,
//! with a virtual clock.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod addresses;
mod amplification;
mod compression;
#[path = "../support/decompressor.rs"]
mod decompressor;
mod early_data;
mod handshake;
mod hostile;
mod memory;
mod network;
mod streams;
