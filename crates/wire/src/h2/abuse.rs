//! What a peer may have us do without asking for anything: how much of it, and when it is enough.
//!
//! A connection that only asks and takes its answers never meets these. Work that answers nothing is paid for from a
//! purse; time fills it again, and so does each answer, since who asks much has much to say besides. Never reads a
//! clock: the time is handed in.

use super::error::ErrorCode;
use crate::limits::{
    CREDIT_MAX, CREDIT_PER_RESPONSE, CREDIT_PER_SECOND, CREDITED_DATA_BYTES_MIN, RESETS_MAX,
    RESETS_PER_SECOND, SETTINGS_COST,
};

/// What one connection may still do.
#[derive(Debug)]
pub(super) struct Budget {
    /// For frames that ask for nothing.
    credit: u32,
    /// For streams that end before their answer.
    resets: u32,
    /// When both were filled last.
    seconds: u64,
}

impl Budget {
    pub(super) const fn new() -> Budget {
        Budget { credit: CREDIT_MAX, resets: RESETS_MAX, seconds: 0 }
    }

    /// It is so many seconds since 1970.
    #[inline]
    pub(super) fn set_time(&mut self, seconds: u64) {
        if seconds != self.seconds {
            self.pass(seconds);
        }
    }

    #[cold]
    fn pass(&mut self, seconds: u64) {
        let passed = u32::try_from(seconds.saturating_sub(self.seconds)).unwrap_or(u32::MAX);
        self.seconds = seconds;
        self.credit = fill(self.credit, passed.saturating_mul(CREDIT_PER_SECOND), CREDIT_MAX);
        self.resets = fill(self.resets, passed.saturating_mul(RESETS_PER_SECOND), RESETS_MAX);
    }

    /// A frame of ours took so many bytes of content to the peer, who may say that it has room again.
    #[inline]
    pub(super) fn content_sent(&mut self, bytes: u32) {
        if bytes >= CREDITED_DATA_BYTES_MIN {
            self.credit = fill(self.credit, CREDIT_PER_RESPONSE, CREDIT_MAX);
        }
    }

    /// An answer left, all of it.
    #[inline]
    pub(super) fn answered(&mut self) {
        self.credit = fill(self.credit, CREDIT_PER_RESPONSE, CREDIT_MAX);
        self.resets = fill(self.resets, 1, RESETS_MAX);
    }

    /// A frame that asks for nothing: PING, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE, RST_STREAM of what has ended,
    /// DATA or CONTINUATION without content, and whatever is unknown.
    #[inline]
    pub(super) fn frame(&mut self) -> Result<(), ErrorCode> {
        spend(&mut self.credit, 1)
    }

    /// SETTINGS with so many parameters.
    pub(super) fn settings(&mut self, parameters: usize) -> Result<(), ErrorCode> {
        spend(&mut self.credit, SETTINGS_COST.saturating_add(u32::try_from(parameters).unwrap_or(u32::MAX)))
    }

    /// A stream ended before its answer did: the peer reset it, or made us do so (CVE-2023-44487, CVE-2025-8671).
    pub(super) fn reset(&mut self) -> Result<(), ErrorCode> {
        spend(&mut self.resets, 1)
    }
}

#[inline]
fn fill(purse: u32, more: u32, most: u32) -> u32 {
    purse.saturating_add(more).min(most)
}

#[inline]
fn spend(purse: &mut u32, cost: u32) -> Result<(), ErrorCode> {
    *purse = purse.checked_sub(cost).ok_or(ErrorCode::EnhanceYourCalm)?;
    Ok(())
}

#[cfg(test)]
mod tests;
