//! Secrets shared by the processes of a server: the ticket secret, which changes over time, and the static
//! secret.
//!
//! Every six hours, the ticket secret is replaced by a one-way function of itself. This means that from the
//! secret of one period, you can compute those of all later periods, but not of any earlier one. Processes
//! that share a seed will therefore agree on all later keys without communicating, and an attacker who steals
//! a seed is unable to decrypt connections from before the previous period (forward secrecy).
//!
//! Several machines can share a [`TicketSeed`]. The ticket secret of each period is then derived from that, so that machines which
//! are started at different times agree. Who steals it can compute the secrets of all periods, until the operator replaces it.
//!
//! The static secret never changes, since connections may last longer than a period and clients must be able
//! to recognize a stateless reset. It does not protect any content, but only authenticates addresses,
//! connection IDs and resets. Machines don't share it: a machine must not be able to reset the connections of another one (RFC
//! 9000 §21.11).
//!
//! Neither secret is ever printed, and both are zeroed when dropped.

use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use aws_lc_rs::rand;
use zeroize::Zeroizing;

use super::ticket_seed::TicketSeed;
use crate::Error;

/// Time during which a key encrypts tickets. After that, it will still decrypt them for another
/// period.
pub(super) const PERIOD: Duration = Duration::from_secs(6 * 60 * 60);

/// Length of a serialized seed. It consists of the period (eight bytes) and two secrets of 32
/// bytes.
pub const SEED_BYTES: usize = 8 + 2 * 32;

/// A seed advances by at most this many steps at once. This amounts to a hundred years, so a clock that is
/// ahead by more must be wrong.
const STEPS_MAX: u64 = 100 * 366 * 4;

/// The ticket secret of a period, and the static secret.
#[derive(Clone)]
pub struct Seed {
    /// Periods since 1970.
    period: u64,
    secret: Zeroizing<[u8; 32]>,
    /// From where the secrets of all periods come, if machines share it.
    shared: Option<TicketSeed>,
    static_secret: StaticSecret,
}

/// A secret shared by all processes of a server, which does not change while the server is running.
#[derive(Clone)]
pub(crate) struct StaticSecret(Zeroizing<[u8; 32]>);

impl Seed {
    /// Generates a random seed for the period of `now`.
    ///
    /// # Errors
    /// Returns an error if the system's random number generator fails.
    pub fn generate(now: SystemTime) -> Result<Self, Error> {
        let mut secret = Zeroizing::new([0; 32]);
        rand::fill(&mut *secret).map_err(|_| Error::NoRandomness)?;
        Ok(Self { period: period(now), secret, shared: None, static_secret: StaticSecret::generate()? })
    }

    /// Derives the ticket secrets from what several machines share.
    #[must_use]
    pub fn with_shared(self, shared: TicketSeed) -> Self {
        let period = self.period;
        Self { shared: Some(shared), ..self }.at_shared(period)
    }

    /// Serializes the seed for another process of this server, without what machines share: each process reads that from its file. The
    /// channel to the other process must be private.
    pub fn to_bytes(&self) -> Zeroizing<[u8; SEED_BYTES]> {
        let mut bytes = Zeroizing::new([0; SEED_BYTES]);
        bytes[..8].copy_from_slice(&self.period.to_be_bytes());
        bytes[8..40].copy_from_slice(&*self.secret);
        bytes[40..].copy_from_slice(&*self.static_secret.0);
        bytes
    }

    /// Parses a seed that was serialized with [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8; SEED_BYTES]) -> Self {
        let mut period = [0; 8];
        let mut secret = Zeroizing::new([0; 32]);
        let mut static_secret = Zeroizing::new([0; 32]);
        period.copy_from_slice(&bytes[..8]);
        secret.copy_from_slice(&bytes[8..40]);
        static_secret.copy_from_slice(&bytes[40..]);
        Self {
            period: u64::from_be_bytes(period),
            secret,
            shared: None,
            static_secret: StaticSecret(static_secret),
        }
    }

    /// Reads a serialized seed without leaving another copy of it in memory.
    ///
    /// # Errors
    /// Returns an error if `source` fails or ends early.
    pub fn read(mut source: impl Read) -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0; SEED_BYTES]);
        source.read_exact(&mut *bytes)?;
        Ok(Self::from_bytes(&bytes))
    }

    /// Advances to the period of `now` and overwrites the earlier ticket secret. This has no effect if the
    /// clock was set back or is a century ahead. With a shared seed, the clock alone decides.
    pub fn advance(&mut self, now: SystemTime) {
        if self.is_shared() {
            *self = self.at_shared(period(now));
            return;
        }
        let steps = period(now).saturating_sub(self.period);
        if steps <= STEPS_MAX {
            for _ in 0..steps {
                *self = self.next();
            }
        }
    }

    /// Returns the number of the period.
    pub(super) fn period(&self) -> u64 {
        self.period
    }

    /// Whether machines share the ticket secrets.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Derives the seed of the next period.
    pub(super) fn next(&self) -> Self {
        if self.is_shared() {
            return self.at_shared(self.period.saturating_add(1));
        }
        let mut secret = Zeroizing::new([0; 32]);
        self.derive(b"cannery tickets: next seed", &mut *secret);
        Self { period: self.period + 1, secret, ..self.clone() }
    }

    /// Derives the seed of the previous period, which is only possible if it is shared.
    pub(super) fn previous(&self) -> Option<Self> {
        let previous = self.period.checked_sub(1).filter(|_| self.is_shared());
        previous.map(|period| self.at_shared(period))
    }

    /// Derives the seed of any period from what machines share.
    fn at_shared(&self, period: u64) -> Self {
        let mut secret = self.secret.clone();
        if let Some(TicketSeed(root)) = &self.shared {
            let period = period.to_be_bytes();
            let info = [b"cannery tickets: period ".as_slice(), &period];
            let derived = root.expand(&info, Length(secret.len()));
            let filled = derived.and_then(|derived| derived.fill(&mut *secret));
            filled.expect("32 bytes are one hash");
        }
        Self { period, secret, ..self.clone() }
    }

    /// Derives a secret of this period for a `purpose`.
    pub(super) fn derive(&self, purpose: &[u8], secret: &mut [u8]) {
        derive(&self.secret, purpose, secret);
    }

    /// Returns the static secret.
    pub(crate) fn static_secret(&self) -> &StaticSecret {
        &self.static_secret
    }
}

impl StaticSecret {
    /// Generates a random secret.
    ///
    /// # Errors
    /// Returns an error if the system's random number generator fails.
    pub(crate) fn generate() -> Result<Self, Error> {
        let mut secret = Zeroizing::new([0; 32]);
        rand::fill(&mut *secret).map_err(|_| Error::NoRandomness)?;
        Ok(Self(secret))
    }

    /// Derives a secret for a `purpose`.
    pub(crate) fn derive(&self, purpose: &[u8], secret: &mut [u8]) {
        derive(&self.0, purpose, secret);
    }
}

/// Derives a secret for a `purpose` from another one, with HKDF (RFC 5869).
pub(crate) fn derive(from: &[u8; 32], purpose: &[u8], secret: &mut [u8]) {
    let info = [purpose];
    let key = Prk::new_less_safe(HKDF_SHA256, from);
    let derived = key.expand(&info, Length(secret.len()));
    let filled = derived.and_then(|derived| derived.fill(secret));
    filled.expect("at most 255 times the 32 bytes of a hash are requested");
}

/// Returns the number of whole periods between 1970 and `now`.
pub(super) fn period(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / PERIOD.as_secs()
}

impl fmt::Debug for Seed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Seed").field("period", &self.period).finish_non_exhaustive()
    }
}

/// Length of the HKDF output, as a type that `aws-lc-rs` accepts.
pub(super) struct Length(pub(super) usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests;
