//! A connection in memory, held against what the RFCs say: bytes in, frames out.

mod basics;
mod faults;
mod peer;
mod requests;
