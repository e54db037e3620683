//! Unit tests of ticket encryption and key rotation.

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
