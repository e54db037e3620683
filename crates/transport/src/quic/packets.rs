//! Contents of packets: frames that we check, count, record or remove as packets are opened and sealed.
//!
//! `quinn-proto` parses each packet by itself, but reports neither its frames nor what became of them. We see
//! every packet without encryption in between, so this is where we apply our own rules.

// Checks the frames of received packets.
pub(super) mod contents;

// Shortens packets before they are sealed.
pub(super) mod sealing;

// Records of opened and sealed packets, shared by a connection and its keys.
pub(super) mod records;

// Stream data that the client has acknowledged.
mod delivery;

// Parses frames.
mod frames;

// Packet types, as headers tell them.
pub(super) mod packet_type;

/// Length of the tag that ends each packet. It is the same for every AEAD in TLS 1.3.
pub(super) const TAG_BYTES: usize = 16;
