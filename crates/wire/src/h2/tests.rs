//! A connection in memory, held against what the RFCs say: bytes in, frames out.

mod abuse;
mod allocations;
mod basics;
mod faults;
mod model;
mod peer;
mod priorities;
mod requests;
