//! Unit tests of connection IDs and of routing by them.

use super::*;
use crate::credentials::seed::StaticSecret;

const SERVER_ID: ServerId = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7];
const ISSUER: Issuer = Issuer { worker: 5, generation: Generation::new(2) };

fn ids(server_id: Option<ServerId>) -> Arc<ConnectionIds> {
    let secret = StaticSecret::generate().unwrap();
    Arc::new(ConnectionIds::new(ConnectionIdLayout::new(server_id), &secret))
}

/// Returns a datagram with a short header.
fn short(id: &[u8]) -> Vec<u8> {
    [&[0x40], id, &[0; 30]].concat()
}

/// Returns a datagram with a long header.
fn long(id: &[u8]) -> Vec<u8> {
    let id_bytes = u8::try_from(id.len()).unwrap();
    [&[0xc0, 0, 0, 0, 1, id_bytes], id, &[0; 30]].concat()
}

/// The rule of the classic BPF program, instruction by instruction. Note that a load beyond the datagram ends
/// it with 0.
fn bpf(datagram: &[u8], worker_offset: usize) -> Option<u8> {
    let load = |position: usize| datagram.get(position).copied();
    if load(0)? & 0x80 != 0 {
        if usize::from(load(5)?) > worker_offset { load(6 + worker_offset) } else { load(9) }
    } else {
        load(1 + worker_offset)
    }
}

#[test]
fn issued_id_names_its_issuer_in_both_headers() {
    for server_id in [None, Some(SERVER_ID)] {
        let ids = ids(server_id);
        let layout = ids.layout();
        let mut generator = IdGenerator::new(ids.clone(), ISSUER, &[1; 32]);
        for _ in 0..100 {
            let id = generator.generate_cid();
            assert_eq!(id.len(), generator.cid_len());
            assert!(generator.validate(&id).is_ok());
            for datagram in [short(&id), long(&id)] {
                assert_eq!(ids.issuer_of(&datagram), Some(ISSUER));
                assert_eq!(layout.named_issuer(&datagram), Some(ISSUER));
                assert_eq!(layout.worker_of(&datagram), ISSUER.worker);
            }
        }
    }
}

#[test]
fn id_has_the_documented_layout() {
    let with_server_id = IdGenerator::new(ids(Some(SERVER_ID)), ISSUER, &[1; 32]).generate_cid();
    assert_eq!(with_server_id.len(), 18);
    assert_eq!(with_server_id[0] >> 3, 0b0_0010);
    assert_eq!(with_server_id[1..9], SERVER_ID);
    assert_eq!(with_server_id[9], 5);

    let without = IdGenerator::new(ids(None), ISSUER, &[1; 32]).generate_cid();
    assert_eq!(without.len(), 10);
    assert_eq!(without[0] >> 3, 0b1_1110);
    assert_eq!(without[1], 5);
}

#[test]
fn ids_are_distinct_and_depend_on_the_seed() {
    let ids = ids(None);
    let mut all = std::collections::HashSet::new();
    for seed in 0..4 {
        let mut generator = IdGenerator::new(ids.clone(), ISSUER, &[seed; 32]);
        all.extend((0..1000).map(|_| generator.generate_cid()));
    }
    assert_eq!(all.len(), 4000);
}

#[test]
fn changed_or_foreign_id_is_not_ours() {
    let ids = ids(None);
    let mut generator = IdGenerator::new(ids.clone(), ISSUER, &[1; 32]);
    let id = generator.generate_cid();
    let accepted = (0..id.len() * 8).filter(|bit| {
        let mut changed = id;
        changed[bit / 8] ^= 1 << (bit % 8);
        ids.is_ours(&changed)
    });
    // A check of two bytes accepts one in 65,536.
    assert!(accepted.count() < 3);
    assert!(!ids.is_ours(&id[1..]) && !ids.is_ours(&[]));
    assert!(!self::ids(None).is_ours(&id), "another seed");
    assert!(generator.validate(&ConnectionId::new(&[0; 10])).is_err());
}

#[test]
fn worker_rule_equals_that_of_the_kernel() {
    let mut state = 9_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };

    for server_id in [None, Some(SERVER_ID)] {
        let ids = ids(server_id);
        let layout = ids.layout();

        let mut accepted = 0;
        for _ in 0..20_000 {
            let length = usize::from(random() % 40);
            let mut datagram: Vec<u8> = (0..length).map(|_| random()).collect();
            if let Some(id_bytes) = datagram.get_mut(5) {
                *id_bytes %= 24;
            }

            let expected = bpf(&datagram, layout.worker_offset()).unwrap_or(0);
            assert_eq!(layout.worker_of(&datagram), expected, "{datagram:?}");
            accepted += usize::from(ids.issuer_of(&datagram).is_some());
        }
        // A check of two bytes accepts one in 65,536.
        assert!(accepted < 12, "{accepted}");
    }
}

#[test]
fn generations_repeat_after_four() {
    let first = Generation::default();
    assert_eq!(first.next().next().next().next(), first);
    assert_eq!(Generation::new(3).next().number(), 0);
}
