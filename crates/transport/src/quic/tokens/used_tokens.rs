//! Remembers which address validation tokens were used. Should a token be replayed, an endpoint accepts it at
//! most once (RFC 9000 §8.1.4).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quinn_proto::{TokenLog, TokenReuseError};

use crate::limits::QUIC_USED_TOKENS_BITS;

/// Tokens from NEW_TOKEN frames that an endpoint has accepted.
///
/// There are two Bloom filters, each for the tokens that were issued in one period. Since a period is as long
/// as a token is valid, any older tokens have expired. A full filter will also refuse tokens that were never
/// used, which costs their clients a round trip at worst. Note that clients have no way to make it forget any
/// tokens.
pub(crate) struct UsedTokens(Mutex<Filters>);

struct Filters {
    /// The latest period that we have seen a token of, counted since 1970.
    period: u64,
    /// Filters for even and odd periods.
    filters: [Filter; 2],
}

impl UsedTokens {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Filters { period: 0, filters: [Filter::new(), Filter::new()] }))
    }
}

impl TokenLog for UsedTokens {
    fn check_and_insert(
        &self,
        random: u128,
        issued: SystemTime,
        lifetime: Duration,
    ) -> Result<(), TokenReuseError> {
        let issued = issued.duration_since(UNIX_EPOCH).map_err(|_| TokenReuseError)?;
        let period = issued.as_secs() / lifetime.as_secs().max(1);
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match used.insert(random, period) {
            Insertion::New => Ok(()),
            Insertion::Refused => Err(TokenReuseError),
        }
    }
}

/// Result of inserting a token.
enum Insertion {
    New,
    /// The token is too old or may have been inserted before.
    Refused,
}

impl Filters {
    fn insert(&mut self, random: u128, period: u64) -> Insertion {
        if period + 1 < self.period {
            return Insertion::Refused;
        }
        for new in (self.period + 1..=period).rev().take(2) {
            self.filters[parity(new)] = Filter::new();
        }
        self.period = self.period.max(period);
        self.filters[parity(period)].insert(random)
    }
}

fn parity(period: u64) -> usize {
    usize::from(period % 2 == 1)
}

/// A Bloom filter for random numbers. These are their own hashes.
struct Filter(Box<[u32]>);

impl Filter {
    fn new() -> Self {
        Self(vec![0; QUIC_USED_TOKENS_BITS / 32].into_boxed_slice())
    }

    fn insert(&mut self, random: u128) -> Insertion {
        let mut insertion = Insertion::Refused;
        for hash in random.to_le_bytes().as_chunks::<4>().0 {
            let hash = u32::from_le_bytes(*hash);
            // The number of words is a power of two.
            let word = &mut self.0[(hash >> 5) as usize % (QUIC_USED_TOKENS_BITS / 32)];
            let bit = 1 << (hash & 31);
            if *word & bit == 0 {
                *word |= bit;
                insertion = Insertion::New;
            }
        }
        insertion
    }
}

#[cfg(test)]
mod tests;
