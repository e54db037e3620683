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
