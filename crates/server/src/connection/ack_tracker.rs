//! Tracks a peer's progress by the bytes that the kernel reports as unacknowledged.
//!
//! The kernel's number may include bytes of earlier responses, so we need to count over the whole
//! connection.

/// Counts the bytes that we have sent and the peer has acknowledged.
#[derive(Debug, Default)]
pub(super) struct AckTracker {
    /// Bytes that we have passed to the kernel.
    sent: u64,
    /// Acknowledged bytes at the last call of [`AckTracker::acked_since_last`]. Note that this can be
    /// negative for local sockets, where the kernel's number includes some overhead.
    acked: i64,
}

impl AckTracker {
    /// Adds bytes that we have passed to the kernel.
    #[inline]
    pub(super) fn add_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// Computes the number of bytes that the peer has acknowledged since the last call, given that `unacked`
    /// bytes are currently unacknowledged. Returns `None` if this will not be known before the next call.
    pub(super) fn acked_since_last(&mut self, unacked: u64) -> Option<u64> {
        let acked = self.sent.cast_signed() - unacked.cast_signed();
        let before = std::mem::replace(&mut self.acked, acked);
        if before == 0 && acked < 0 {
            return None;
        }
        // This would be negative if the kernel's overhead has grown.
        Some((acked - before).max(0).cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unacked_bytes_of_earlier_responses_hide_no_progress() {
        let mut tracker = AckTracker::default();
        tracker.add_sent(60_000);
        assert_eq!(tracker.acked_since_last(50_000), Some(10_000));
        tracker.add_sent(5_000);
        assert_eq!(tracker.acked_since_last(40_000), Some(15_000));
        assert_eq!(tracker.acked_since_last(40_000), Some(0));
    }

    #[test]
    fn overhead_of_local_sockets_is_no_stall() {
        let mut tracker = AckTracker::default();
        tracker.add_sent(100_000);
        assert_eq!(tracker.acked_since_last(200_000), None);
        assert_eq!(tracker.acked_since_last(180_000), Some(20_000));
        assert_eq!(tracker.acked_since_last(180_000), Some(0));
        assert_eq!(tracker.acked_since_last(190_000), Some(0));
    }
}
