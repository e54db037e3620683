//! The secret that the keys of tickets grow from, and its ratchet.
//!
//! Whoever has the seed of a period computes those of all later ones, and of no earlier one. So processes that were
//! given the same seed agree on the keys for ever, without a word between them; and who steals it learns nothing of the
//! connections that came before the last period but one. Never printed; overwritten when it goes.

use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use aws_lc_rs::rand;
use zeroize::Zeroizing;

use crate::Error;

/// How long a key seals tickets. It opens them for one period more.
pub(crate) const PERIOD: Duration = Duration::from_secs(6 * 60 * 60);

/// A seed as it is handed from process to process: eight bytes of its period, and 32 that are secret.
pub const SEED_BYTES: usize = 8 + 32;

/// The steps that a seed goes at most: a hundred years. A clock that is farther off is wrong.
const STEPS_MAX: u64 = 100 * 366 * 4;

/// The secret of one period.
#[derive(Clone)]
pub struct Seed {
    /// Periods since 1970.
    period: u64,
    secret: Zeroizing<[u8; 32]>,
}

impl Seed {
    /// A seed that nobody else has.
    pub fn fresh(now: SystemTime) -> Result<Self, Error> {
        let mut secret = Zeroizing::new([0; 32]);
        rand::fill(&mut *secret).map_err(|_| Error::NoRandomness)?;
        Ok(Self { period: period(now), secret })
    }

    /// For another process of this server, over a channel that nobody else reads.
    pub fn to_bytes(&self) -> Zeroizing<[u8; SEED_BYTES]> {
        let mut bytes = Zeroizing::new([0; SEED_BYTES]);
        bytes[..8].copy_from_slice(&self.period.to_be_bytes());
        bytes[8..].copy_from_slice(&*self.secret);
        bytes
    }

    /// What [`to_bytes`](Self::to_bytes) made.
    pub fn from_bytes(bytes: &[u8; SEED_BYTES]) -> Self {
        let (mut period, mut secret) = ([0; 8], Zeroizing::new([0; 32]));
        period.copy_from_slice(&bytes[..8]);
        secret.copy_from_slice(&bytes[8..]);
        Self { period: u64::from_be_bytes(period), secret }
    }

    /// The same, read from what another process wrote; nothing of it is left in memory but the seed.
    pub fn read(mut source: impl Read) -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0; SEED_BYTES]);
        source.read_exact(&mut *bytes)?;
        Ok(Self::from_bytes(&bytes))
    }

    /// Goes on to the period of `now`; what the seed was before is overwritten. A clock that was set back, or that is a
    /// century off, changes nothing.
    pub fn advance(&mut self, now: SystemTime) {
        let steps = period(now).saturating_sub(self.period);
        if steps <= STEPS_MAX {
            for _ in 0..steps {
                *self = self.next();
            }
        }
    }

    /// The number of the period.
    pub(crate) fn period(&self) -> u64 {
        self.period
    }

    /// The seed of the period that follows.
    pub(crate) fn next(&self) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        self.derive(b"cannery tickets: next seed", &mut *secret);
        Self { period: self.period + 1, secret }
    }

    /// A secret of this period for one purpose.
    pub(crate) fn derive(&self, purpose: &[u8], secret: &mut [u8]) {
        let info = [purpose];
        let key = Prk::new_less_safe(HKDF_SHA256, &*self.secret);
        let derived = key.expand(&info, Length(secret.len()));
        let filled = derived.and_then(|derived| derived.fill(secret));
        filled.expect("at most 255 times the 32 bytes of a hash are asked for");
    }
}

/// How many periods lie between 1970 and `now`.
pub(crate) fn period(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / PERIOD.as_secs()
}

impl fmt::Debug for Seed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Seed").field("period", &self.period).finish_non_exhaustive()
    }
}

/// The length of what is derived.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests;
