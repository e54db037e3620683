//! What packets contain: frames that we check, count, record or remove as packets are opened and sealed.
//!
//! `quinn-proto` parses each packet by itself, but reports neither its frames nor what became of them. We see
//! every packet without encryption in between, so this is where we apply our own rules.

pub(super) mod contents; // Checks received packets, and what they cost.
mod delivery; // Stream data that the client has acknowledged.
mod frames; // Parses frames.
pub(super) mod packet_type;
pub(super) mod records; // What was opened and sealed, shared by a connection and its keys.
pub(super) mod sealing; // Changes packets before they are sealed. // Packet types, as headers tell them.

/// Length of the tag that ends each packet. It is the same for every AEAD in TLS 1.3.
pub(super) const TAG_BYTES: usize = 16;
