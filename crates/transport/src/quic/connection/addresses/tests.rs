//! Unit tests of addresses.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 50_000))
}

#[test]
fn unvalidated_address_is_sent_three_times_as_much() {
    let now = Instant::now();
    let mut addresses = Addresses::default();
    addresses.validate(address(1));
    assert_eq!(addresses.allowance(address(1)), None);
    assert!(!addresses.send(address(2), 1, None), "nothing has come from there");
    addresses.receive(now, address(2), 100, address(1));
    assert!(addresses.send(address(2), 290, Some([7; 8])));
    assert!(!addresses.send(address(2), 11, None) && addresses.send(address(2), 10, None));
    assert_eq!(
        (addresses.allowance(address(2)), addresses.least_allowance_of_others(address(1))),
        (Some(0), None)
    );

    addresses.answer([8; 8]);
    assert_eq!(addresses.last_validated(), Some(address(1)));
    addresses.answer([7; 8]);
    assert_eq!(addresses.last_validated(), Some(address(2)));
    // The client may still move back.
    assert!(addresses.send(address(2), 10_000, None) && addresses.send(address(1), 10_000, None));
    assert!(addresses.are_validated());
}

#[test]
fn few_addresses_are_remembered() {
    let now = Instant::now();
    let mut addresses = Addresses::default();
    addresses.validate(address(0));
    for number in 1..200 {
        addresses.receive(now + u32::from(number) * SECOND / 100, address(number), 1000, address(1));
        assert!(addresses.unvalidated().len() <= QUIC_UNVALIDATED_ADDRESSES_MAX);
        assert_eq!(addresses.allowance(address(1)), Some(3000), "the one in use");
        assert_eq!(addresses.allowance(address(number)), Some(3000));
    }
    addresses.receive(now + 60 * SECOND, address(200), 1000, address(0));
    assert_eq!(addresses.unvalidated().len(), 1);
}
