//! Unit tests of an HTTP/2 connection in memory, against the RFCs: bytes in, frames out.

mod abuse;
mod allocations;
mod basics;
mod faults;
mod model;
mod peer;
mod postponed;
mod priorities;
mod requests;
