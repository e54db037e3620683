//! Limits for the work in one iteration, so that no connection can delay the others.

use std::time::Duration;

/// How often we receive from a socket per iteration. Each call returns up to 16 messages of up to 64 KiB.
pub(super) const BATCHES_PER_ITERATION_MAX: usize = 4;

/// How many datagrams of connection attempts we process per iteration. Open connections have to wait for these,
/// which takes about 80 µs.
pub(crate) const ATTEMPTS_PER_ITERATION_MAX: usize = 8;

/// After this many connection attempts in an iteration, an Initial packet has to wait even if it's followed by
/// a Handshake packet. Such a packet shows that the datagram belongs to a connection, but an attacker may have
/// appended a forged one.
pub(super) const ATTEMPTS_WITH_HANDSHAKE_MAX: usize = 2 * ATTEMPTS_PER_ITERATION_MAX;

/// How many datagrams of connection attempts may be waiting for later iterations or for half-open connections.
///
/// This is enough for a thousand clients if each ClientHello takes two datagrams. Since clients send a datagram
/// again after a second, it's pointless to let any more wait. Datagrams of half-open connections wait in
/// another queue of the same length.
pub(crate) const ATTEMPTS_WAITING_MAX: usize = 2048;

/// Total size of the waiting datagrams, in bytes. This assumes 1,500 bytes each.
pub(crate) const ATTEMPT_BYTES_MAX: usize = 3_072_000;

/// Size of a memory block for datagrams, in bytes. It has room for up to 218 datagrams of 1,200 bytes.
pub(super) const ATTEMPT_BLOCK_BYTES: usize = 256 * 1024;

/// How many of the oldest datagrams we search for those that half-open connections need, if others have to wait
/// for such a connection. The datagrams of one ClientHello arrive one after the other, so there are not many
/// from other clients in between.
pub(super) const ATTEMPTS_LOOKED_THROUGH_MAX: usize = 64;

/// How many datagrams a connection sends per call. Linux splits up to 64 of them, and 44 of 1,472 bytes are as
/// many as fit.
pub(super) const TRAIN_SEGMENTS_MAX: usize = 44;

/// How many trains a connection sends per iteration. This is about 256 KiB, as for TCP.
pub(super) const TRAINS_PER_ITERATION_MAX: usize = 4;

/// How many trains we send with one call. The event loop passes as many to the kernel at once.
pub(super) const GATHERED_TRAINS_MAX: usize = 16;

/// Trains that are longer than this are sent separately because the copy would be more expensive than a call.
pub(super) const GATHERED_TRAIN_BYTES_MAX: usize = 4 * 1024;

/// How many connection attempts may be waiting for the handshake budget. Any more have to wait as datagrams.
/// These take less memory and do not count as half-open connections.
pub(super) const INCOMING_WAITING_MAX: usize = 64;

/// How long a predecessor may keep running after its drain time. It starts to drain later than we start to
/// serve.
pub(super) const PREDECESSOR_GRACE: Duration = Duration::from_secs(10);

/// How long we may be sharing the sockets with a predecessor, counted from our first connection attempt. The
/// predecessor reads them until all of our processes are serving.
pub(crate) const SHARED_SOCKETS_MAX: Duration = Duration::from_secs(3);

/// Size of a memory block for response heads and small bodies, in bytes. A response keeps its block until the
/// client acknowledges it.
pub(super) const BLOCK_BYTES: usize = 8 * 1024;

/// When we close connections to free memory, how many we close before freeing blocks that only they needed.
pub(super) const BLOCK_CHECK_INTERVAL: usize = 16;

/// How long a client may be silent while the server drains. A client that has vanished would otherwise delay
/// the exit until the QUIC idle timeout.
pub(crate) const SILENCE_MIN: Duration = Duration::from_secs(5);

/// Like [`SILENCE_MIN`], but for clients that have not completed the handshake. This gives them enough time to
/// send a lost datagram again. Usually, they are gone or their address is forged, so there is nothing to lose.
pub(crate) const HANDSHAKE_SILENCE_MAX: Duration = Duration::from_secs(2);

/// [`SILENCE_MIN`] for distant clients, in round trips. If a PING is lost, this is about two probe timeouts
/// (RFC 9002 §6.2.1).
pub(super) const SILENCE_ROUND_TRIPS: u32 = 8;
