//! Limits the work that a peer can cause with packets that neither request anything nor belong to a response.
//!
//! For example, a peer can send any number of PINGs, PADDING, PATH_CHALLENGE frames, repeated or empty STREAM
//! frames, or acknowledgments without any news. Each packet costs a token. So does a certain number of frames
//! (hundreds of them would fit into a packet), and key updates cost more. The peer gets tokens back over
//! time, for data that it sends on streams, and for our STREAM frames because it has to acknowledge these and
//! enlarge its windows.
//!
//! Only packets that the peer has sealed are charged, and each of them once
//! ([`Records`](crate::quic::packets::records::Records)). Otherwise, an observer on the path could end connections by
//! repeating their packets.
//!
//! The work is only settled every 64 datagrams; most datagrams just cost an addition.

use std::time::Instant;

use crate::limits::{
    QUIC_CREDIT_MAX, QUIC_CREDIT_PER_READ, QUIC_CREDIT_PER_SECOND, QUIC_CREDIT_PER_STREAM_FRAME,
    QUIC_CREDITED_BYTES_MIN, QUIC_FRAMES_PER_TOKEN, QUIC_KEY_UPDATE_COST,
};

/// Datagrams to receive until the next settlement. Even if these are full of frames, they only take a
/// small part of the capacity.
const DATAGRAMS_PER_SETTLEMENT: u32 = 64;

/// A bucket of tokens that refills over time.
pub(crate) struct TokenBucket {
    tokens: u64,
    capacity: u32,
    per_second: u32,
    /// When the bucket was last refilled.
    refilled: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub(crate) fn new(capacity: u32, per_second: u32) -> Self {
        Self { tokens: capacity.into(), capacity, per_second, refilled: None }
    }

    /// Refills the bucket for the whole seconds that have passed.
    pub(crate) fn refill(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(*self.refilled.get_or_insert(now)).as_secs();
        if seconds > 0 {
            self.add(seconds.saturating_mul(self.per_second.into()));
            self.refilled = Some(now);
        }
    }

    fn add(&mut self, tokens: u64) {
        self.tokens = self.tokens.saturating_add(tokens).min(self.capacity.into());
    }

    /// Takes tokens.
    ///
    /// # Errors
    ///
    /// Returns an error if there are not enough tokens, in which case all that are left are taken.
    pub(crate) fn take(&mut self, tokens: u64) -> Result<(), Exhausted> {
        let left = self.tokens.checked_sub(tokens);
        self.tokens = left.unwrap_or(0);
        left.map(drop).ok_or(Exhausted)
    }
}

/// The bucket did not have enough tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// Work done so far by a connection and its peer, as far as it costs or earns tokens.
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    /// Packets sent by the peer.
    pub(super) packets: u64,
    /// Frames received, of all types except PADDING.
    pub(super) received_frames: u64,
    /// Key phases that were started.
    pub(super) key_phases: u64,
    /// Reads that have returned stream data or the end of a stream.
    pub(super) reads: u64,
    /// STREAM frames sent.
    pub(super) sent_stream_frames: u64,
    /// Bytes sent, in datagrams.
    pub(super) sent_bytes: u64,
}

impl Work {
    fn cost(&self) -> u64 {
        self.packets + self.received_frames / QUIC_FRAMES_PER_TOKEN + self.key_phases * QUIC_KEY_UPDATE_COST
    }

    fn earnings(&self) -> u64 {
        let frames = self.sent_stream_frames.min(self.sent_bytes / QUIC_CREDITED_BYTES_MIN);
        self.reads * QUIC_CREDIT_PER_READ + frames * QUIC_CREDIT_PER_STREAM_FRAME
    }

    fn since(&self, before: &Work) -> Work {
        Work {
            packets: self.packets - before.packets,
            received_frames: self.received_frames - before.received_frames,
            key_phases: self.key_phases - before.key_phases,
            reads: self.reads - before.reads,
            sent_stream_frames: self.sent_stream_frames - before.sent_stream_frames,
            sent_bytes: self.sent_bytes - before.sent_bytes,
        }
    }
}

/// Budget of a connection.
pub(super) struct Budget {
    bucket: TokenBucket,
    /// The work that has been settled.
    settled: Work,
    datagrams: u32,
    state: State,
}

/// Tells if the peer has exceeded its budget.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Sufficient,
    /// It has, but we have not told the caller yet.
    Exceeded,
    Reported,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            bucket: TokenBucket::new(QUIC_CREDIT_MAX, QUIC_CREDIT_PER_SECOND),
            settled: Work::default(),
            datagrams: 0,
            state: State::Sufficient,
        }
    }

    /// Counts a datagram.
    pub(super) fn count_datagram(&mut self) {
        self.datagrams += 1;
    }

    /// Returns `true` if it is time to settle.
    pub(super) fn needs_settlement(&self) -> bool {
        self.datagrams >= DATAGRAMS_PER_SETTLEMENT
    }

    /// Charges the work since the last settlement.
    pub(super) fn settle(&mut self, now: Instant, work: Work) {
        let new = work.since(&self.settled);
        self.settled = work;
        self.datagrams = 0;
        self.bucket.refill(now);
        let (cost, earnings) = (new.cost(), new.earnings());
        self.bucket.add(earnings.saturating_sub(cost));
        let taken = self.bucket.take(cost.saturating_sub(earnings));
        if taken == Err(Exhausted) {
            self.exceed();
        }
    }

    /// Must be called if the peer has exceeded some other limit, which has the same effect as exceeding
    /// the budget.
    pub(super) fn exceed(&mut self) {
        if self.state == State::Sufficient {
            self.state = State::Exceeded;
        }
    }

    /// Whether the peer has exceeded its budget, so that reading its datagrams is not worth it any
    /// more.
    pub(super) fn is_exceeded(&self) -> bool {
        self.state != State::Sufficient
    }

    /// Reports (only once) that the peer has exceeded its budget.
    pub(super) fn take_report(&mut self) -> Option<Exhausted> {
        if self.state != State::Exceeded {
            return None;
        }
        self.state = State::Reported;
        Some(Exhausted)
    }
}

#[cfg(test)]
mod tests;
