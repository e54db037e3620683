//! Unit tests of the ticket seed.

use super::*;

fn at(periods: u64) -> SystemTime {
    UNIX_EPOCH + PERIOD * u32::try_from(periods).unwrap()
}

#[test]
fn many_steps_equal_one_leap() {
    let mut stepped = Seed::generate(at(1000)).unwrap();
    let mut leapt = Seed::from_bytes(&stepped.to_bytes());
    for period in 1000..1020 {
        stepped.advance(at(period));
    }
    leapt.advance(at(1019));
    assert_eq!(*Seed::read(&leapt.to_bytes()[..]).unwrap().to_bytes(), *leapt.to_bytes());
    assert!(Seed::read(&leapt.to_bytes()[1..]).is_err());
    assert_eq!(*stepped.to_bytes(), *leapt.to_bytes());
    assert_eq!(stepped.period(), 1019);
}

#[test]
fn implausible_clock_changes_nothing() {
    let mut seed = Seed::generate(at(1000)).unwrap();
    let before = seed.to_bytes();
    seed.advance(at(999));
    seed.advance(UNIX_EPOCH - Duration::from_secs(1));
    seed.advance(UNIX_EPOCH + Duration::from_secs(1 << 40));
    assert_eq!(*seed.to_bytes(), *before);
}

#[test]
fn seeds_and_purposes_yield_different_secrets() {
    let (one, two) = (Seed::generate(at(1)).unwrap(), Seed::generate(at(1)).unwrap());
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
fn static_secret_outlives_periods_and_serialization() {
    let derived = |seed: &Seed| {
        let mut secret = [0; 16];
        seed.static_secret().derive(b"a", &mut secret);
        secret
    };
    let seed = Seed::generate(at(1)).unwrap();
    let mut later = Seed::from_bytes(&seed.to_bytes());
    later.advance(at(100));
    assert_ne!(later.secret, seed.secret);
    assert_eq!(derived(&later), derived(&seed));
    assert_ne!(derived(&Seed::generate(at(1)).unwrap()), derived(&seed));
}

#[test]
fn debug_output_contains_no_secret() {
    let seed = Seed::from_bytes(&[0xab; SEED_BYTES]);
    assert_eq!(format!("{seed:?}"), format!("Seed {{ period: {}, .. }}", 0xabab_abab_abab_abab_u64));
}
