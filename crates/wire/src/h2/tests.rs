//! Tests for HTTP/2 connections. They're in memory: bytes go in, and frames come out. We compare them to the RFCs.

mod abuse;
mod allocations;
mod basics;
mod faults;
mod model;
mod peer;
mod postponed;
mod priorities;
mod requests;
