//! Budgets against abuse of a connection: how much work a peer may cause by packets that neither request anything nor belong to
//! a response.
//!
//! A peer can send a PING, PADDING, PATH_CHALLENGE, a repeated or empty STREAM frame, or an acknowledgment of nothing new, in
//! any number. Each packet costs a token, and so does a number of frames, since hundreds fit one packet. Updated keys cost
//! more. Tokens come back over time, with data that the peer sends on streams, and with STREAM frames of ours: their
//! receiver acknowledges them, and enlarges its windows.
//!
//! Only packets that the peer has sealed are charged, each once ([`Records`](super::records::Records)). Otherwise an observer of
//! the path could end connections by repeating their packets.
//!
//! We settle after every 64 datagrams, so that a datagram costs an addition.

use std::time::Instant;

use crate::limits::{
    QUIC_CREDIT_MAX, QUIC_CREDIT_PER_READ, QUIC_CREDIT_PER_SECOND, QUIC_CREDIT_PER_STREAM_FRAME,
    QUIC_CREDITED_BYTES_MIN, QUIC_FRAMES_PER_TOKEN, QUIC_KEY_UPDATE_COST,
};

/// Datagrams from one settlement to the next: a small part of the capacity, even if all of them are full of frames.
const DATAGRAMS_PER_SETTLEMENT: u32 = 64;

/// A number of tokens that time refills.
pub(super) struct TokenBucket {
    tokens: u64,
    capacity: u64,
    per_second: u64,
    /// When it was last refilled.
    refilled: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub(super) fn new(capacity: u32, per_second: u32) -> Self {
        Self {
            tokens: capacity.into(),
            capacity: capacity.into(),
            per_second: per_second.into(),
            refilled: None,
        }
    }

    /// Refills the bucket for the whole seconds that have passed.
    pub(super) fn refill(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(*self.refilled.get_or_insert(now)).as_secs();
        if seconds > 0 {
            self.add(seconds.saturating_mul(self.per_second));
            self.refilled = Some(now);
        }
    }

    fn add(&mut self, tokens: u64) {
        self.tokens = self.tokens.saturating_add(tokens).min(self.capacity);
    }

    /// Takes tokens.
    ///
    /// # Errors
    /// There are fewer. Those are taken.
    pub(super) fn take(&mut self, tokens: u64) -> Result<(), Exhausted> {
        let left = self.tokens.checked_sub(tokens);
        self.tokens = left.unwrap_or(0);
        left.map(drop).ok_or(Exhausted)
    }
}

/// A bucket has fewer tokens than were to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted;

/// The activity of a connection and its peer since its start, as far as it costs tokens or earns them.
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    /// Packets that the peer has sent.
    pub(super) packets: u64,
    /// Frames of all types that have arrived, except PADDING.
    pub(super) received_frames: u64,
    /// Key phases that have begun.
    pub(super) key_phases: u64,
    /// Reads of streams that have returned data, or their end.
    pub(super) reads: u64,
    /// STREAM frames that were sent.
    pub(super) sent_stream_frames: u64,
    /// Bytes of datagrams that were sent.
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

/// The budget of a connection.
pub(super) struct Budget {
    bucket: TokenBucket,
    /// The work that was settled.
    settled: Work,
    datagrams: u32,
    state: State,
}

/// Whether the peer has exceeded its budget.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Sufficient,
    /// It has, and the caller does not know.
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

    /// Returns `true` if the work must be settled now.
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

    /// Records that the peer has exceeded another limit, which has the same effect.
    pub(super) fn exceed(&mut self) {
        if self.state == State::Sufficient {
            self.state = State::Exceeded;
        }
    }

    /// Returns `true` if the peer has exceeded its budget: its datagrams are not worth reading.
    pub(super) fn is_exceeded(&self) -> bool {
        self.state != State::Sufficient
    }

    /// Returns that the peer has exceeded its budget, once.
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
