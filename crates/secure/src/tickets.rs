//! Tickets: what a client needs to resume, sealed so that only this server's processes can open it.
//!
//! A ticket is a name of eight bytes, a random nonce of twelve, what `rustls` has to keep, and a tag: AES-256-GCM, with
//! the name as additional data. A key seals for one period, six hours, and opens for one more. The key of the period
//! that follows opens too, for the moment in which one process has turned and another has not. Nothing is remembered
//! about a ticket, so one that was used can be used again until its key is gone; data before the handshake is done, which
//! alone would be harmed by that, is not accepted.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;
use zeroize::Zeroizing;

use crate::seed::{PERIOD, Seed, period};

const NAME_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

/// The keys of all tickets, for all sessions of a context.
pub(crate) struct Tickets(RwLock<Arc<Keys>>);

struct Keys {
    /// The seed of the period that follows the current one: those before it cannot be had from it.
    following: Seed,
    current: Arc<Key>,
    /// Opens what a process sealed that turned a moment earlier.
    next: Key,
    /// Opens what was sealed in the period before, if this process saw it.
    previous: Option<Arc<Key>>,
}

struct Key {
    name: [u8; NAME_BYTES],
    key: LessSafeKey,
}

impl Tickets {
    /// Keys that grow from `seed` as of `now`.
    pub(crate) fn new(mut seed: Seed, now: SystemTime) -> Self {
        seed.advance(now);
        Self(RwLock::new(Arc::new(Keys::of(&seed, None))))
    }

    /// Goes on to the period of `now`, if it is another. The key before the last is gone once no handshake uses it.
    pub(crate) fn advance(&self, now: SystemTime) {
        let keys = self.keys();
        if period(now) < keys.following.period() {
            return;
        }
        let mut seed = keys.following.clone();
        let previous = (period(now) == seed.period()).then(|| keys.current.clone());
        seed.advance(now);
        if seed.period() != period(now) {
            return;
        }
        let turned = Arc::new(Keys::of(&seed, previous));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = turned;
    }

    fn keys(&self) -> Arc<Keys> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Keys {
    /// The keys of the period of `seed`.
    fn of(seed: &Seed, previous: Option<Arc<Key>>) -> Self {
        let following = seed.next();
        Self { current: Arc::new(Key::of(seed)), next: Key::of(&following), previous, following }
    }

    /// The key that sealed a ticket, by its name.
    fn named(&self, name: &[u8]) -> Option<&Key> {
        let mut keys =
            [Some(&*self.current), self.previous.as_deref(), Some(&self.next)].into_iter().flatten();
        keys.find(|key| key.name == name)
    }
}

impl Key {
    fn of(seed: &Seed) -> Self {
        let (mut name, mut secret) = ([0; NAME_BYTES], Zeroizing::new([0; 32]));
        seed.derive(b"cannery tickets: name of key", &mut name);
        seed.derive(b"cannery tickets: key", &mut *secret);
        let key = UnboundKey::new(&AES_256_GCM, &*secret).expect("the key has the length of the algorithm");
        Self { name, key: LessSafeKey::new(key) }
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    /// What a ticket is good for at least, in seconds: one that was made at the end of a period has one more.
    fn lifetime(&self) -> u32 {
        u32::try_from(PERIOD.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys();
        let Key { name, key } = &*keys.current;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(NAME_BYTES + NONCE_LEN + plain.len() + TAG_BYTES);
        ticket.extend_from_slice(name);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(plain);
        let sealed = ticket.get_mut(NAME_BYTES + NONCE_LEN..)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(name), sealed).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_BYTES)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let (sealed, tag) = sealed.split_last_chunk::<TAG_BYTES>()?;
        let keys = self.keys();
        let key = &keys.named(name)?.key;
        let mut plain = vec![0; sealed.len()];
        let nonce = Nonce::assume_unique_for_key(*nonce);
        key.open_separate_gather(nonce, Aad::from(name), sealed, tag, &mut plain).ok()?;
        Some(plain)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tickets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
