//! Unit tests of ticket encryption and key rotation.

use std::time::{Duration, UNIX_EPOCH};

use super::*;

const PLAIN: &[u8] = b"the state of a session";

fn start() -> SystemTime {
    UNIX_EPOCH + PERIOD * 80_000
}

fn tickets(seed: &Seed, now: SystemTime) -> Tickets {
    Tickets::new(seed.clone(), Transport::Tcp, now)
}

#[test]
fn only_processes_with_the_seed_decrypt() {
    let seed = Seed::generate(start()).unwrap();
    let (one, two) = (tickets(&seed, start()), tickets(&seed, start() + Duration::from_secs(5)));
    let other = tickets(&Seed::generate(start()).unwrap(), start());
    let ticket = one.encrypt(PLAIN).unwrap();
    assert_eq!(two.decrypt(&ticket).as_deref(), Some(PLAIN));
    assert_eq!(other.decrypt(&ticket), None);
    assert!(!ticket.windows(PLAIN.len()).any(|window| window == PLAIN));
}

#[test]
fn transports_have_different_keys() {
    let seed = Seed::generate(start()).unwrap();
    let quic = Tickets::new(seed.clone(), Transport::Quic, start());
    let ticket = quic.encrypt(PLAIN).unwrap();
    assert_eq!(quic.decrypt(&ticket).as_deref(), Some(PLAIN));
    assert_eq!(tickets(&seed, start()).decrypt(&ticket), None);
    quic.advance(start() + PERIOD);
    assert_eq!(quic.decrypt(&ticket).as_deref(), Some(PLAIN));
    assert_eq!(tickets(&seed, start()).decrypt(&quic.encrypt(PLAIN).unwrap()), None);
}

#[test]
fn ticket_expires_in_the_third_period() {
    let tickets = tickets(&Seed::generate(start()).unwrap(), start());
    let ticket = tickets.encrypt(PLAIN).unwrap();
    tickets.advance(start() + PERIOD - Duration::from_secs(1));
    assert!(tickets.decrypt(&ticket).is_some());
    tickets.advance(start() + PERIOD);
    assert!(tickets.decrypt(&ticket).is_some());
    tickets.advance(start() + 2 * PERIOD);
    assert_eq!(tickets.decrypt(&ticket), None);
}

#[test]
fn ticket_of_a_process_that_rotated_first_decrypts() {
    let seed = Seed::generate(start()).unwrap();
    let (late, early) = (tickets(&seed, start()), tickets(&seed, start()));
    early.advance(start() + PERIOD);
    let ticket = early.encrypt(PLAIN).unwrap();
    assert_eq!(late.decrypt(&ticket).as_deref(), Some(PLAIN));
}

#[test]
fn suspended_process_agrees_with_a_new_one() {
    let seed = Seed::generate(start()).unwrap();
    let now = start() + 9 * PERIOD;
    let (suspended, started) = (tickets(&seed, start()), tickets(&seed, now));
    suspended.advance(now);
    let ticket = suspended.encrypt(PLAIN).unwrap();
    assert!(started.decrypt(&ticket).is_some());
    let before_suspension = tickets(&seed, start()).encrypt(PLAIN).unwrap();
    assert_eq!(suspended.decrypt(&before_suspension), None);
}

#[test]
fn implausible_clock_keeps_the_keys() {
    let tickets = tickets(&Seed::generate(start()).unwrap(), start());
    let ticket = tickets.encrypt(PLAIN).unwrap();
    tickets.advance(start() - 3 * PERIOD);
    tickets.advance(UNIX_EPOCH + Duration::from_secs(1 << 40));
    assert!(tickets.decrypt(&ticket).is_some());
}

#[test]
fn truncated_and_damaged_tickets_are_refused() {
    let tickets = tickets(&Seed::generate(start()).unwrap(), start());
    let ticket = tickets.encrypt(PLAIN).unwrap();
    for end in 0..ticket.len() {
        assert_eq!(tickets.decrypt(&ticket[..end]), None, "cut at {end}");
    }
    for position in 0..ticket.len() {
        let mut damaged = ticket.clone();
        damaged[position] ^= 1;
        assert_eq!(tickets.decrypt(&damaged), None, "a bit of byte {position}");
    }
}

#[test]
fn tickets_of_the_same_state_share_only_the_key_name() {
    let tickets = tickets(&Seed::generate(start()).unwrap(), start());
    let (one, two) = (tickets.encrypt(PLAIN).unwrap(), tickets.encrypt(PLAIN).unwrap());
    assert_eq!(one[..NAME_BYTES], two[..NAME_BYTES]);
    assert_ne!(one[NAME_BYTES..][..NONCE_LEN], two[NAME_BYTES..][..NONCE_LEN]);
    assert_ne!(one[NAME_BYTES + NONCE_LEN..], two[NAME_BYTES + NONCE_LEN..]);
}

fn shared(seed: &[u8], now: SystemTime) -> Tickets {
    let seed = Seed::generate(now).unwrap().with_shared(seed.into());
    Tickets::new(seed, Transport::Tcp, now)
}

#[test]
fn machines_with_the_same_file_agree_whenever_they_start() {
    let (one, two) = (shared(&[1; 32], start()), shared(&[1; 32], start() + 9 * PERIOD));
    one.advance(start() + 9 * PERIOD);
    for (from, to) in [(&one, &two), (&two, &one)] {
        assert_eq!(to.decrypt(&from.encrypt(PLAIN).unwrap()).as_deref(), Some(PLAIN));
    }
    assert_eq!(shared(&[2; 32], start()).decrypt(&shared(&[1; 32], start()).encrypt(PLAIN).unwrap()), None);
}

#[test]
fn shared_keys_of_one_period_before_and_after_are_accepted() {
    let ticket = shared(&[1; 32], start()).encrypt(PLAIN).unwrap();
    for (offset, accepted) in [(-2, false), (-1, true), (0, true), (1, true), (2, false)] {
        let now = start() - 2 * PERIOD + PERIOD * u32::try_from(offset + 2).unwrap();
        // A machine that has just started, and one that was there before.
        assert_eq!(shared(&[1; 32], now).decrypt(&ticket).is_some(), accepted, "{offset}");
        let running = shared(&[1; 32], start());
        running.advance(now);
        assert_eq!(running.decrypt(&ticket).is_some(), accepted, "{offset}");
    }
}

#[test]
fn clock_that_is_an_hour_wrong_does_no_harm() {
    let hour = Duration::from_secs(3600);
    let right = shared(&[1; 32], start());
    for now in [start() - hour, start() + hour] {
        let wrong = shared(&[1; 32], now);
        assert!(wrong.decrypt(&right.encrypt(PLAIN).unwrap()).is_some());
        assert!(right.decrypt(&wrong.encrypt(PLAIN).unwrap()).is_some());
        // Once it is set right, the machine has the keys of the others.
        wrong.advance(start());
        assert_eq!(wrong.encrypt(PLAIN).unwrap()[..NAME_BYTES], right.encrypt(PLAIN).unwrap()[..NAME_BYTES]);
    }
}
