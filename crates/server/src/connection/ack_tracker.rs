//! How much of what a connection sent has reached its peer, by what the kernel reports as unacknowledged.
//!
//! Counts over the whole connection: the kernel's figure covers bytes of earlier answers too. Never asks the kernel itself.

/// Bytes that one connection handed to the kernel, and how many of them its peer has acknowledged.
#[derive(Debug, Default)]
pub(super) struct Confirmed {
    handed: u64,
    /// Acknowledged bytes at the last look. Below zero on local sockets, where the kernel's figure includes its own
    /// overhead.
    confirmed: i64,
}

impl Confirmed {
    /// Counts `bytes` more that were handed to the kernel.
    #[inline]
    pub(super) fn hand(&mut self, bytes: u64) {
        self.handed += bytes;
    }

    /// Returns how many bytes the peer has acknowledged since the last call, if `unconfirmed` bytes are still
    /// unacknowledged, or `None` if this cannot be told yet.
    pub(super) fn since_last(&mut self, unconfirmed: u64) -> Option<u64> {
        let confirmed = self.handed.cast_signed() - unconfirmed.cast_signed();
        let before = std::mem::replace(&mut self.confirmed, confirmed);
        if before == 0 && confirmed < 0 {
            return None;
        }
        Some(u64::try_from(confirmed - before).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unacknowledged_bytes_of_earlier_answers_hide_no_progress() {
        let mut confirmed = Confirmed::default();
        confirmed.hand(60_000);
        assert_eq!(confirmed.since_last(50_000), Some(10_000));
        confirmed.hand(5_000);
        assert_eq!(confirmed.since_last(40_000), Some(15_000));
        assert_eq!(confirmed.since_last(40_000), Some(0));
    }

    #[test]
    fn overhead_of_local_sockets_is_told_apart_from_a_stall_by_the_second_look() {
        let mut confirmed = Confirmed::default();
        confirmed.hand(100_000);
        assert_eq!(confirmed.since_last(200_000), None);
        assert_eq!(confirmed.since_last(180_000), Some(20_000));
        assert_eq!(confirmed.since_last(180_000), Some(0));
        assert_eq!(confirmed.since_last(190_000), Some(0));
    }
}
