//! Limits for the work that an HTTP/2 or HTTP/3 peer may cause without sending requests.
//!
//! A peer that only sends requests and accepts the responses will never get to these limits. Frames that do not lead to a response
//! cost tokens. We add tokens over time and also for each response, because busy clients typically send more control frames. The
//! time is an argument.

use crate::limits::{
    CREDIT_MAX, CREDIT_PER_RESPONSE, CREDIT_PER_SECOND, CREDITED_DATA_BYTES_MIN, RESETS_MAX,
    RESETS_PER_SECOND, SETTINGS_COST,
};

/// There are not enough tokens, so we must close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// A connection's tokens.
#[derive(Debug)]
pub(crate) struct Budget {
    /// For frames that do not lead to a response.
    credit: u32,
    /// For streams that end before their response.
    resets: u32,
    /// Time when we last added tokens over time, in seconds since 1970.
    seconds: u64,
}

impl Budget {
    pub(crate) const fn new() -> Budget {
        Budget { credit: CREDIT_MAX, resets: RESETS_MAX, seconds: 0 }
    }

    /// Adds tokens for the time that has passed, given the time in seconds since 1970.
    #[inline]
    pub(crate) fn set_time(&mut self, seconds: u64) {
        if seconds != self.seconds {
            self.refill(seconds);
        }
    }

    #[cold]
    fn refill(&mut self, seconds: u64) {
        // More than 32 bits of seconds fill the buckets, but so do 32 bits.
        let passed = u32::try_from(seconds.saturating_sub(self.seconds)).unwrap_or(u32::MAX);
        self.seconds = seconds;
        self.credit = add_tokens(self.credit, passed.saturating_mul(CREDIT_PER_SECOND), CREDIT_MAX);
        self.resets = add_tokens(self.resets, passed.saturating_mul(RESETS_PER_SECOND), RESETS_MAX);
    }

    /// Adds tokens for a DATA frame of this many bytes that we send because the peer may answer with window updates.
    #[inline]
    pub(crate) fn credit_data(&mut self, bytes: u32) {
        if bytes >= CREDITED_DATA_BYTES_MIN {
            self.credit = add_tokens(self.credit, CREDIT_PER_RESPONSE, CREDIT_MAX);
        }
    }

    /// Adds tokens for a response we have written completely.
    #[inline]
    pub(crate) fn credit_response(&mut self) {
        self.credit = add_tokens(self.credit, CREDIT_PER_RESPONSE, CREDIT_MAX);
        self.resets = add_tokens(self.resets, 1, RESETS_MAX);
    }

    /// Charges for a frame that does not lead to a response: PING, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE, unknown types, DATA or
    /// CONTINUATION without content, and RST_STREAM if the stream has already ended.
    #[inline]
    pub(crate) fn charge_frame(&mut self) -> Result<(), Exhausted> {
        take_tokens(&mut self.credit, 1)
    }

    /// Charges for SETTINGS with this many parameters.
    pub(crate) fn charge_settings(&mut self, parameters: usize) -> Result<(), Exhausted> {
        debug_assert!(parameters < 1 << 24, "a frame has fewer than 2^24 bytes");
        let parameters = u32::try_from(parameters).unwrap_or(u32::MAX);
        take_tokens(&mut self.credit, SETTINGS_COST.saturating_add(parameters))
    }

    /// Charges for a stream that has ended before its response, either because the peer has reset it or because the peer made us do
    /// so (CVE-2023-44487, CVE-2025-8671).
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
