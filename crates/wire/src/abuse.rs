//! Budgets against abuse: how much work a peer of HTTP/2 or HTTP/3 may cause without requesting anything.
//!
//! A connection that only sends requests and accepts their responses never exceeds them. Frames that produce
//! no response are charged to a token bucket. It refills over time and with each response, because a busy
//! client also sends more control frames. The time is an argument.

use crate::limits::{
    CREDIT_MAX, CREDIT_PER_RESPONSE, CREDIT_PER_SECOND, CREDITED_DATA_BYTES_MIN, RESETS_MAX,
    RESETS_PER_SECOND, SETTINGS_COST,
};

/// A budget is exhausted: the connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// The budgets of one connection.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Tokens for frames that produce no response.
    credit: u32,
    /// Tokens for streams that end before their response.
    resets: u32,
    /// Time of the last refill, in seconds since 1970.
    seconds: u64,
}

impl Budget {
    pub(crate) const fn new() -> Budget {
        Budget { credit: CREDIT_MAX, resets: RESETS_MAX, seconds: 0 }
    }

    /// Refills both buckets for the time that has passed. `seconds` counts from 1970.
    #[inline]
    pub(crate) fn set_time(&mut self, seconds: u64) {
        if seconds != self.seconds {
            self.refill(seconds);
        }
    }

    #[cold]
    fn refill(&mut self, seconds: u64) {
        // More than 32 bits of seconds fill any bucket, just as 32 bits do.
        let passed = u32::try_from(seconds.saturating_sub(self.seconds)).unwrap_or(u32::MAX);
        self.seconds = seconds;
        self.credit = add_tokens(self.credit, passed.saturating_mul(CREDIT_PER_SECOND), CREDIT_MAX);
        self.resets = add_tokens(self.resets, passed.saturating_mul(RESETS_PER_SECOND), RESETS_MAX);
    }

    /// Refills the budget for a DATA frame of ours with this number of bytes, because the peer may send
    /// window updates for it.
    #[inline]
    pub(crate) fn credit_data(&mut self, bytes: u32) {
        if bytes >= CREDITED_DATA_BYTES_MIN {
            self.credit = add_tokens(self.credit, CREDIT_PER_RESPONSE, CREDIT_MAX);
        }
    }

    /// Refills both budgets for a response that was written to its end.
    #[inline]
    pub(crate) fn credit_response(&mut self) {
        self.credit = add_tokens(self.credit, CREDIT_PER_RESPONSE, CREDIT_MAX);
        self.resets = add_tokens(self.resets, 1, RESETS_MAX);
    }

    /// Charges a frame that produces no response: PING, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE, RST_STREAM
    /// for a stream that has ended, DATA or CONTINUATION without content, and unknown types.
    #[inline]
    pub(crate) fn charge_frame(&mut self) -> Result<(), Exhausted> {
        take_tokens(&mut self.credit, 1)
    }

    /// Charges SETTINGS with this number of parameters.
    pub(crate) fn charge_settings(&mut self, parameters: usize) -> Result<(), Exhausted> {
        debug_assert!(parameters < 1 << 24, "a frame has fewer than 2^24 bytes");
        let parameters = u32::try_from(parameters).unwrap_or(u32::MAX);
        take_tokens(&mut self.credit, SETTINGS_COST.saturating_add(parameters))
    }

    /// Charges a stream that ended before its response: the peer reset it, or made us reset it
    /// (CVE-2023-44487, CVE-2025-8671).
    pub(crate) fn charge_reset(&mut self) -> Result<(), Exhausted> {
        take_tokens(&mut self.resets, 1)
    }
}

#[inline]
fn add_tokens(bucket: u32, tokens: u32, capacity: u32) -> u32 {
    bucket.saturating_add(tokens).min(capacity)
}

#[inline]
fn take_tokens(bucket: &mut u32, tokens: u32) -> Result<(), Exhausted> {
    *bucket = bucket.checked_sub(tokens).ok_or(Exhausted)?;
    Ok(())
}

#[cfg(test)]
mod tests;
