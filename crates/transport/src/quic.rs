//! QUIC without I/O, which takes datagrams and returns datagrams and stream events (RFC 9000, RFC
//! 9001).
//!
//! A [`Context`] contains everything that connections share and is created from a TLS context. An
//! [`Endpoint`] belongs to a worker and therefore does not need a lock. It routes each datagram to its
//! [`Connection`], reports an [`Incoming`] connection, or replies by itself. Callers should pass datagrams
//! and timeouts to a connection, and ask it for [`Event`]s and for datagrams to be sent. Everything is a
//! function of its arguments: there are no system calls, the clock is not read, and randomness comes from a
//! seed.
//!
//! `quinn-proto` is the state machine, `rustls` performs the handshake, and the cryptography in between is
//! ours ([`crypto`], [`tokens`]). This allows us to derive the keys for tokens, stateless resets
//! and connection IDs from the [`Seed`](crate::Seed), so that another process with the same seed can continue
//! where this one stops. Note that types of these libraries are not part of our interface.
//!
//! `quinn-proto` should never panic; however, earlier versions had a few bugs that allowed a peer to cause
//! one. If you catch a panic from a method of [`Connection`], you should pass that connection to
//! [`Endpoint::remove`]; no other connections are affected. If it comes from [`Endpoint::receive`] or
//! [`Endpoint::accept`], call [`Endpoint::recover`], after which the endpoint and all connections can still
//! be used.

// The rooms, from the outermost to the innermost. Modules may only import from modules further down.

// Routes datagrams to connections, and admits clients.
mod endpoint;

// Connections and their streams, and budgets for the work and memory of a peer.
mod connection;

// The context that all connections share, and their transport parameters.
mod context;

// Cryptography: the TLS session, and keys of packets.
mod crypto;

// Issues connection IDs, and routes by them.
mod cid;

// Contents of packets.
mod packets;

// Tokens of clients and stateless resets, with keys derived from the seed.
mod tokens;

pub use cid::{ConnectionIdLayout, Generation, Issuer, ServerId};
pub use connection::datagram::{Arrival, Transmit};
pub use connection::stream::{Direction, ReadOutcome, StreamClosed, StreamId, WriteOutcome};
pub use connection::{CloseReason, Connection, ConnectionEvent, ConnectionKey, Delivery, Event, Stats};
pub use context::{Context, EarlyData, FORWARDING_KEY_BYTES, are_equal};
pub use crypto::key_cache::drop_unused_keys;
pub use endpoint::{AcceptError, Endpoint, Incoming, Received};
pub use packets::packet_type::PacketType;
