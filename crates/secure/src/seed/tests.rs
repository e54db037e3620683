//! Unit tests of the ticket seed.

use super::*;

fn at(periods: u64) -> SystemTime {
    UNIX_EPOCH + PERIOD * u32::try_from(periods).unwrap()
}

#[test]
fn who_goes_step_by_step_and_who_leaps_have_the_same_seed() {
    let mut slow = Seed::fresh(at(1000)).unwrap();
    let mut fast = Seed::from_bytes(&slow.to_bytes());
    for period in 1000..1020 {
        slow.advance(at(period));
    }
    fast.advance(at(1019));
    assert_eq!(*Seed::read(&fast.to_bytes()[..]).unwrap().to_bytes(), *fast.to_bytes());
    assert!(Seed::read(&fast.to_bytes()[1..]).is_err());
    assert_eq!(*slow.to_bytes(), *fast.to_bytes());
    assert_eq!(slow.period(), 1019);
}

#[test]
fn a_clock_set_back_or_centuries_off_changes_nothing() {
    let mut seed = Seed::fresh(at(1000)).unwrap();
    let before = seed.to_bytes();
    seed.advance(at(999));
    seed.advance(UNIX_EPOCH - Duration::from_secs(1));
    seed.advance(UNIX_EPOCH + Duration::from_secs(1 << 40));
    assert_eq!(*seed.to_bytes(), *before);
}

#[test]
fn every_seed_is_another_and_every_purpose_too() {
    let (one, two) = (Seed::fresh(at(1)).unwrap(), Seed::fresh(at(1)).unwrap());
    assert_ne!(*one.to_bytes(), *two.to_bytes());
    let derived = |seed: &Seed, purpose: &[u8]| {
        let mut secret = [0; 44];
        seed.derive(purpose, &mut secret);
        secret
    };
    assert_ne!(derived(&one, b"a"), derived(&one, b"b"));
    assert_ne!(derived(&one, b"a"), derived(&one.next(), b"a"));
}

#[test]
fn debugging_shows_no_secret() {
    let seed = Seed::from_bytes(&[0xab; SEED_BYTES]);
    assert_eq!(format!("{seed:?}"), format!("Seed {{ period: {}, .. }}", 0xabab_abab_abab_abab_u64));
}
