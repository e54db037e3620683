//! Limits on the work of one loop iteration, so that no connection delays the others.

use std::time::Duration;

/// Calls that receive datagrams from a socket in one iteration. Each returns up to sixteen messages of up to 64 KiB.
pub(super) const BATCHES_PER_ITERATION_MAX: usize = 4;

/// Datagrams of connection attempts in one iteration: the connections wait for them, about 80 microseconds.
pub(crate) const ATTEMPTS_PER_ITERATION_MAX: usize = 8;

/// Connection attempts in one iteration after which an Initial packet waits even if a Handshake packet follows it in its datagram. That
/// shows that it belongs to a connection, but an attacker can append a forged one.
pub(super) const ATTEMPTS_WITH_HANDSHAKE_MAX: usize = 2 * ATTEMPTS_PER_ITERATION_MAX;

/// Datagrams of connection attempts that wait for further iterations, or for half-open connections: a thousand clients, each with a
/// ClientHello in two datagrams. A client repeats a datagram after a second, so one that would wait longer is of no use.
/// The datagrams of half-open connections wait in a queue of the same length.
pub(crate) const ATTEMPTS_WAITING_MAX: usize = 2048;

/// Their contents, in bytes: datagrams of 1,500 bytes.
pub(crate) const ATTEMPT_BYTES_MAX: usize = 3_072_000;

/// Bytes of contents in one block of memory: up to 218 datagrams of 1,200 bytes.
pub(super) const ATTEMPT_BLOCK_BYTES: usize = 256 * 1024;

/// The oldest datagrams that are looked through for those that a half-open connection needs, if others have to wait for such a
/// connection. The datagrams of a ClientHello arrive one after the other, with few of other clients between them.
pub(super) const ATTEMPTS_LOOKED_THROUGH_MAX: usize = 64;

/// Datagrams that a connection sends with one call. Linux splits up to 64; 44 of 1,472 bytes are as many as fit.
pub(super) const TRAIN_SEGMENTS_MAX: usize = 44;

/// Trains that a connection sends in one iteration: about 256 KiB, as over TCP.
pub(super) const TRAINS_PER_ITERATION_MAX: usize = 4;

/// Trains that a call sends together: as many as the event loop passes to the kernel at once.
pub(super) const GATHERED_TRAINS_MAX: usize = 16;

/// Longer trains are sent by themselves: a copy would cost more than a call.
pub(super) const GATHERED_TRAIN_BYTES_MAX: usize = 4 * 1024;

/// Connection attempts that wait for the handshake budget. Further ones wait as datagrams, which take less memory, and are not
/// counted as half-open connections.
pub(super) const INCOMING_WAITING_MAX: usize = 64;

/// How long after its drain time a predecessor may still run: it starts to drain later than this program serves.
pub(super) const PREDECESSOR_GRACE: Duration = Duration::from_secs(10);

/// How long after the first connection attempt a program that takes over may share the sockets with its predecessor, which reads
/// them until all processes of this program serve.
pub(crate) const SHARED_SOCKETS_MAX: Duration = Duration::from_secs(3);

/// Bytes of response heads and small contents in one block of memory. A response that a client doesn't acknowledge keeps its
/// block.
pub(super) const BLOCK_BYTES: usize = 8 * 1024;

/// Connections that are closed for their memory before blocks that only they needed are freed.
pub(super) const BLOCK_CHECK_INTERVAL: usize = 16;

/// How long a client may be silent while the server drains. One that has vanished would delay the exit of the server up to
/// the idle timeout of QUIC.
pub(crate) const SILENCE_MIN: Duration = Duration::from_secs(5);

/// The same for a client that has not completed the handshake: time to repeat a lost datagram once. It is likely that it has
/// gone, or that its address is forged, and nothing of it is lost.
pub(crate) const HANDSHAKE_SILENCE_MAX: Duration = Duration::from_secs(2);

/// [`SILENCE_MIN`] in round trips, for distant clients: about two probe timeouts (RFC 9002 §6.2.1) after a PING that is lost.
pub(super) const SILENCE_ROUND_TRIPS: u32 = 8;
