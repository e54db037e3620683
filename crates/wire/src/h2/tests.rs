//! Tests for HTTP/2 connections, entirely in memory: bytes go in, frames come out, and we compare them to the RFCs.

mod abuse;
mod allocations;
mod basics;
mod faults;
mod model;
mod peer;
mod postponed;
mod priorities;
mod requests;
