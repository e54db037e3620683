//! Limits for the work in one iteration, so that no connection can delay the others.

use std::time::Duration;

/// Limits the number of receive calls per socket and iteration. Each call returns up to 16 messages of up
/// to 64 KiB.
pub(super) const BATCHES_PER_ITERATION_MAX: usize = 4;

/// In each iteration, we process at most this many connection attempt datagrams. This takes about 80 µs,
/// during which open connections have to wait.
pub(crate) const ATTEMPTS_PER_ITERATION_MAX: usize = 8;

/// Limits the number of connection attempt datagrams that are waiting for later iterations or for half-open
/// connections.
///
/// This is enough for a thousand clients with two datagrams per ClientHello. Since clients send a datagram
/// again after a second, there is no point in letting any more wait. Datagrams of half-open connections wait
/// in another queue of the same length. Each takes 1.5 kB.
pub(crate) const ATTEMPTS_WAITING_MAX: usize = 2048;

/// If this many admitted clients are waiting for the handshake budget, any further ones have to wait as
/// datagrams, which do not count as half-open connections.
pub(crate) const HANDSHAKES_WAITING_MAX: usize = 64;

/// Limits the number of datagrams that a connection sends per call. While Linux would split up to 64 of them,
/// no more than 44 datagrams of 1,472 bytes fit.
pub(super) const SEGMENTS_PER_BATCH_MAX: usize = 44;

/// Limits the number of segment batches that a connection sends per iteration. As for TCP, this is about 256
/// KiB.
pub(super) const SEGMENT_BATCHES_PER_ITERATION_MAX: usize = 4;

/// We send at most this many segment batches with one call, which is also the number that the event loop
/// passes to the kernel at once.
pub(super) const GATHERED_BATCHES_MAX: usize = 16;

/// Segment batches longer than this are sent separately because the copy would be more expensive than a call.
pub(super) const GATHERED_BATCH_BYTES_MAX: usize = 4 * 1024;

/// Additional time that a predecessor may keep running after its drain time, considering that it starts to
/// drain later than we start to serve.
pub(super) const PREDECESSOR_GRACE: Duration = Duration::from_secs(10);

/// For this long, counted from our first connection attempt, we may be sharing the sockets with a
/// predecessor. The predecessor keeps reading them until all of our processes are serving.
pub(crate) const SHARED_SOCKETS_MAX: Duration = Duration::from_secs(3);

/// Size, in bytes, of a memory block for response heads and small bodies. A response keeps its block until
/// the client acknowledges it.
pub(super) const BLOCK_BYTES: usize = 8 * 1024;

/// When closing connections to free memory, the number to close before freeing blocks that only they
/// needed.
pub(super) const BLOCK_CHECK_INTERVAL: usize = 16;

/// While the server drains, a client may be silent for this long. Without this limit, a client that has
/// vanished would delay the exit until the QUIC idle timeout.
pub(crate) const SILENCE_MIN: Duration = Duration::from_secs(5);

/// Like [`SILENCE_MIN`], but for clients that have not completed the handshake. It is long enough to send a
/// lost datagram again. Most of these clients are gone or have forged their address, so closing them early
/// does no harm.
pub(crate) const HANDSHAKE_SILENCE_MAX: Duration = Duration::from_secs(2);

/// [`SILENCE_MIN`] for distant clients, in round trips. This corresponds to about two probe timeouts (RFC
/// 9002 §6.2.1) in case a PING is lost.
pub(super) const SILENCE_ROUND_TRIPS: u32 = 8;
