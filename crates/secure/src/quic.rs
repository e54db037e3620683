//! QUIC without I/O: datagrams in, datagrams and stream events out (RFC 9000, RFC 9001).
//!
//! A [`Context`] holds what all connections share, and is made from that of TLS. An [`Endpoint`] belongs to one worker and
//! has no lock: it routes a datagram to its [`Connection`], or reports an [`Incoming`] one, or writes a reply itself. A
//! connection is passed its datagrams and timeouts, and asked for [`Event`]s and for datagrams to send. All of it is a
//! function of its arguments: it makes no system call and reads no clock, and randomness comes from a seed.
//!
//! `quinn-proto` is the state machine and `rustls` performs the handshake. The cryptography between them is ours
//! ([`crypto`], [`session`], [`tokens`]), so that the keys of tokens, stateless resets and connection IDs come from the
//! [`Seed`](crate::Seed): another process with the same seed continues where this one stops. Neither library's types appear
//! in the interface.
//!
//! A panic in `quinn-proto` would be its bug, and earlier versions had some that a peer could trigger. A caller that
//! catches one from a method of [`Connection`] passes that connection to [`Endpoint::remove`]; all others are unaffected.
//! After one from [`Endpoint::receive`] or [`Endpoint::accept`] it calls [`Endpoint::recover`], and the endpoint and all
//! connections remain usable.

// Connection IDs, and routing by them.
mod cid;

// Cryptography: keys of packets, the TLS session, and keys from the seed.
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

// The context that all connections share, and its transport parameters.
mod context;
mod transport;

// An endpoint, its connections and their streams.
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
