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
//! ours ([`crypto`], [`session`], [`tokens`]). This allows us to derive the keys for tokens, stateless resets
//! and connection IDs from the [`Seed`](crate::Seed), so that another process with the same seed can continue
//! where this one stops. Note that types of these libraries are not part of our interface.
//!
//! `quinn-proto` should never panic; however, earlier versions had a few bugs that allowed a peer to cause
//! one. If you catch a panic from a method of [`Connection`], you should pass that connection to
//! [`Endpoint::remove`]; no other connections are affected. If it comes from [`Endpoint::receive`] or
//! [`Endpoint::accept`], call [`Endpoint::recover`], after which the endpoint and all connections can still
//! be used.

// Issues connection IDs, and routes by them.
mod cid;

// Cryptography: packet keys, the TLS session, and keys derived from the seed.
mod client_hello;
mod contents;
mod crypto;
mod delivery;
mod frames;
mod header;
mod initial;
mod key_cache;
mod keys;
mod records;
mod sealing;
mod session;
mod stored_sessions;
mod suites;
mod tokens;
mod used_tokens;

// The context that all connections share, and their transport parameters.
mod context;
mod transport;

// Endpoints, connections and streams.
mod addresses;
mod budget;
mod buffers;
mod connection;
mod datagram;
mod endpoint;
mod packet_type;
mod recently_closed;
mod retry;
mod stream;
mod unread;

pub use cid::{ConnectionIdLayout, Generation, Issuer, ServerId};
pub use connection::{CloseReason, Connection, ConnectionEvent, ConnectionKey, Delivery, Event, Stats};
pub use context::{Context, EarlyData, FORWARDING_KEY_BYTES, are_equal};
pub use datagram::{Arrival, Transmit};
pub use endpoint::{AcceptError, Endpoint, Incoming, Received};
pub use key_cache::drop_unused_keys;
pub use packet_type::PacketType;
pub use stream::{Direction, ReadOutcome, StreamClosed, StreamId, WriteOutcome};
