//! Session tickets, which contain the state for resuming a session. They are encrypted in order to be
//! readable only by processes of this server (RFC 5077, RFC 8446 §4.6.1).
//!
//! A ticket consists of a key name of eight bytes, a random salt of 24 bytes, the state from `rustls`, and a
//! tag. It is sealed with AES-256-GCM, with the key name as additional data, and with a key of its own, which is
//! derived from the salt: machines can share keys without agreeing on nonces (see docs/design/tls.md). A key
//! encrypts for a period of six hours and still decrypts for another one. Since another process may rotate its
//! keys a moment earlier, we can also decrypt with the key of the next period. Note that TLS over TCP and QUIC
//! have different keys; neither can resume a session of the other.
//!
//! Since the server does not store any state for a ticket, a ticket can be used repeatedly until its key is
//! gone. This would only be a problem for early data, which we only accept over QUIC; in this case, however,
//! the server stores the sessions instead ([`EarlyData`](crate::quic::EarlyData)).

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;
use zeroize::Zeroizing;

use super::seed::{Length, PERIOD, Seed, period};

const NAME_BYTES: usize = 8;
const SALT_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// Encrypts and decrypts the tickets of a context's sessions over one transport.
pub(crate) struct Tickets(RwLock<Arc<Keys>>);

/// Transport of the sessions that tickets resume.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    Tcp,
    Quic,
}

struct Keys {
    transport: Transport,
    /// Seed of the next period. Earlier seeds cannot be computed from it.
    following: Seed,
    current: Arc<Key>,
    /// Decrypts tickets of a process that has rotated its keys a moment earlier.
    next: Key,
    /// Decrypts tickets of the previous period. `None` if this process did not have its key.
    previous: Option<Arc<Key>>,
}

/// The key of a period, from which that of each ticket is derived.
struct Key {
    name: [u8; NAME_BYTES],
    secret: Prk,
}

impl Tickets {
    /// Derives the keys for `now` from `seed`.
    pub(crate) fn new(mut seed: Seed, transport: Transport, now: SystemTime) -> Self {
        seed.advance(now);
        Self(RwLock::new(Arc::new(Keys::new(&seed, transport, None))))
    }

    /// Rotates the keys if `now` is in a later period, while handshakes in progress may still use the earlier
    /// ones.
    pub(crate) fn advance(&self, now: SystemTime) {
        let keys = self.keys();
        let current = keys.following.period().saturating_sub(1);
        // A clock that was set right may go back, and then the other machines are there. Our own seeds only go forward.
        let is_due = if keys.following.is_shared() { period(now) != current } else { period(now) > current };
        if !is_due {
            return;
        }

        let mut seed = keys.following.clone();
        let previous = (period(now) == seed.period()).then(|| keys.current.clone());
        seed.advance(now);
        // If the clock is a century ahead, the seed will not advance.
        if seed.period() != period(now) {
            return;
        }

        let rotated = Arc::new(Keys::new(&seed, keys.transport, previous));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = rotated;
    }

    fn keys(&self) -> Arc<Keys> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Keys {
    /// Derives the keys of the seed's period and the next one.
    fn new(seed: &Seed, transport: Transport, previous: Option<Arc<Key>>) -> Self {
        let following = seed.next();
        Self {
            transport,
            current: Arc::new(Key::new(seed, transport)),
            next: Key::new(&following, transport),
            previous: previous.or_else(|| seed.previous().map(|seed| Arc::new(Key::new(&seed, transport)))),
            following,
        }
    }

    /// Returns the key with this name.
    fn by_name(&self, name: &[u8]) -> Option<&Key> {
        let mut keys =
            [Some(&*self.current), self.previous.as_deref(), Some(&self.next)].into_iter().flatten();
        keys.find(|key| key.name == name)
    }
}

impl Key {
    fn new(seed: &Seed, transport: Transport) -> Self {
        let (purpose_of_name, purpose_of_key): (&[u8], &[u8]) = match transport {
            Transport::Tcp => (b"cannery tickets: name of key", b"cannery tickets: key"),
            Transport::Quic => (b"cannery quic tickets: name of key", b"cannery quic tickets: key"),
        };
        let mut name = [0; NAME_BYTES];
        let mut secret = Zeroizing::new([0; 32]);
        seed.derive(purpose_of_name, &mut name);
        seed.derive(purpose_of_key, &mut *secret);
        Self { name, secret: Prk::new_less_safe(HKDF_SHA256, &*secret) }
    }

    /// Derives the key of the ticket with this salt.
    fn of_ticket(&self, salt: &[u8; SALT_BYTES]) -> Option<LessSafeKey> {
        let mut secret = Zeroizing::new([0; 32]);
        let info = [b"cannery ticket".as_slice(), salt];
        self.secret.expand(&info, Length(secret.len())).ok()?.fill(&mut *secret).ok()?;
        Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*secret).ok()?))
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    /// The minimum time, in seconds, for which a ticket is valid. A ticket issued at the end of a period
    /// is valid for the next one.
    fn lifetime(&self) -> u32 {
        u32::try_from(PERIOD.as_secs()).expect("six hours fit 32 bits of seconds")
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys();
        let name = &keys.current.name;
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).ok()?;
        let key = keys.current.of_ticket(&salt)?;

        let mut ticket = Vec::with_capacity(NAME_BYTES + SALT_BYTES + plain.len() + TAG_BYTES);
        ticket.extend_from_slice(name);
        ticket.extend_from_slice(&salt);
        ticket.extend_from_slice(plain);

        let sealed = ticket.get_mut(NAME_BYTES + SALT_BYTES..)?;
        let tag = key.seal_in_place_separate_tag(only_nonce(), Aad::from(name), sealed).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_BYTES)?;
        let (salt, sealed) = rest.split_first_chunk::<SALT_BYTES>()?;
        let (sealed, tag) = sealed.split_last_chunk::<TAG_BYTES>()?;

        let keys = self.keys();
        let key = keys.by_name(name)?.of_ticket(salt)?;
        let mut plain = vec![0; sealed.len()];
        key.open_separate_gather(only_nonce(), Aad::from(name), sealed, tag, &mut plain).ok()?;
        Some(plain)
    }
}

/// The nonce of a key that seals one ticket.
fn only_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

impl fmt::Debug for Tickets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tickets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
