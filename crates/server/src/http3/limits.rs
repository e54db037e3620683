//! Limits on the work of one loop iteration, so that no connection delays the others.

use std::time::Duration;

/// Calls that receive datagrams from a socket in one iteration. Each returns up to sixteen messages of up to 64 KiB.
pub(super) const BATCHES_PER_ITERATION_MAX: usize = 4;

/// Datagrams that a connection sends with one call. Linux splits up to 64; 44 of 1,472 bytes are as many as fit.
pub(super) const TRAIN_SEGMENTS_MAX: usize = 44;

/// Trains that a connection sends in one iteration: about 256 KiB, as over TCP.
pub(super) const TRAINS_PER_ITERATION_MAX: usize = 4;

/// Connection attempts that wait for the handshake budget. Clients repeat those that are dropped.
pub(super) const INCOMING_WAITING_MAX: usize = 256;

/// How long after its drain time a predecessor may still run: it starts to drain later than this program serves.
pub(super) const PREDECESSOR_GRACE: Duration = Duration::from_secs(10);

/// Bytes of response heads and small contents in one block of memory. A response that a client doesn't acknowledge keeps its
/// block.
pub(super) const BLOCK_BYTES: usize = 8 * 1024;
