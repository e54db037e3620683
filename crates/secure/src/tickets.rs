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
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const PLAIN: &[u8] = b"what has to be kept";

    fn start() -> SystemTime {
        UNIX_EPOCH + PERIOD * 80_000
    }

    fn tickets(seed: &Seed, now: SystemTime) -> Tickets {
        Tickets::new(seed.clone(), now)
    }

    #[test]
    fn a_ticket_opens_in_every_process_of_the_seed_and_in_no_other() {
        let seed = Seed::fresh(start()).unwrap();
        let (one, two) = (tickets(&seed, start()), tickets(&seed, start() + Duration::from_secs(5)));
        let stranger = tickets(&Seed::fresh(start()).unwrap(), start());
        let ticket = one.encrypt(PLAIN).unwrap();
        assert_eq!(two.decrypt(&ticket).as_deref(), Some(PLAIN));
        assert_eq!(stranger.decrypt(&ticket), None);
        assert!(!ticket.windows(PLAIN.len()).any(|window| window == PLAIN));
    }

    #[test]
    fn a_ticket_opens_in_its_period_and_the_next_and_not_in_the_third() {
        let tickets = tickets(&Seed::fresh(start()).unwrap(), start());
        let ticket = tickets.encrypt(PLAIN).unwrap();
        tickets.advance(start() + PERIOD - Duration::from_secs(1));
        assert!(tickets.decrypt(&ticket).is_some());
        tickets.advance(start() + PERIOD);
        assert!(tickets.decrypt(&ticket).is_some());
        tickets.advance(start() + 2 * PERIOD);
        assert_eq!(tickets.decrypt(&ticket), None);
    }

    #[test]
    fn a_process_that_turned_earlier_is_understood() {
        let seed = Seed::fresh(start()).unwrap();
        let (late, early) = (tickets(&seed, start()), tickets(&seed, start()));
        early.advance(start() + PERIOD);
        let ticket = early.encrypt(PLAIN).unwrap();
        assert_eq!(late.decrypt(&ticket).as_deref(), Some(PLAIN));
    }

    #[test]
    fn a_process_that_slept_or_started_later_agrees_with_the_others() {
        let seed = Seed::fresh(start()).unwrap();
        let now = start() + 9 * PERIOD;
        let (slept, started) = (tickets(&seed, start()), tickets(&seed, now));
        slept.advance(now);
        let ticket = slept.encrypt(PLAIN).unwrap();
        assert!(started.decrypt(&ticket).is_some());
        let before_sleep = tickets(&seed, start()).encrypt(PLAIN).unwrap();
        assert_eq!(slept.decrypt(&before_sleep), None);
    }

    #[test]
    fn a_clock_set_back_keeps_the_keys() {
        let tickets = tickets(&Seed::fresh(start()).unwrap(), start());
        let ticket = tickets.encrypt(PLAIN).unwrap();
        tickets.advance(start() - 3 * PERIOD);
        tickets.advance(UNIX_EPOCH + Duration::from_secs(1 << 40));
        assert!(tickets.decrypt(&ticket).is_some());
    }

    #[test]
    fn cut_and_damaged_tickets_open_nowhere() {
        let tickets = tickets(&Seed::fresh(start()).unwrap(), start());
        let ticket = tickets.encrypt(PLAIN).unwrap();
        for end in 0..ticket.len() {
            assert_eq!(tickets.decrypt(&ticket[..end]), None, "cut at {end}");
        }
        for place in 0..ticket.len() {
            let mut damaged = ticket.clone();
            damaged[place] ^= 1;
            assert_eq!(tickets.decrypt(&damaged), None, "a bit of byte {place}");
        }
    }

    #[test]
    fn two_tickets_of_the_same_have_nothing_in_common_but_the_name() {
        let tickets = tickets(&Seed::fresh(start()).unwrap(), start());
        let (one, two) = (tickets.encrypt(PLAIN).unwrap(), tickets.encrypt(PLAIN).unwrap());
        assert_eq!(one[..NAME_BYTES], two[..NAME_BYTES]);
        assert_ne!(one[NAME_BYTES..][..NONCE_LEN], two[NAME_BYTES..][..NONCE_LEN]);
        assert_ne!(one[NAME_BYTES + NONCE_LEN..], two[NAME_BYTES + NONCE_LEN..]);
    }
}
