//! Unit tests of packets to addresses that may be forged.

use super::*;

const HEADER: [u8; 12] = [0x40; 12];
const CHALLENGE: &[u8] = &[0x1a, 1, 2, 3, 4, 5, 6, 7, 8];
const RESPONSE: &[u8] = &[0x1b, 8, 7, 6, 5, 4, 3, 2, 1];

/// Seals a packet of 1,200 bytes with these frames, returning the payload as it is sent with a
/// limit.
fn limited(packets: &mut Packets, limit: SealLimit, frames: &[u8]) -> Vec<u8> {
    let mut packet = [&HEADER, frames].concat();
    packet.resize(1200, 0);
    packets.restricted().limit = limit;
    let bytes = packets.limit(7, &mut packet, HEADER.len());
    packet[HEADER.len()..bytes - TAG_BYTES].to_vec()
}

#[test]
fn padding_is_left_out() {
    let mut packets = Packets::default();
    let payload = limited(&mut packets, SealLimit::Bytes(99), &[&[1], CHALLENGE].concat());
    assert_eq!((payload.len(), &payload[..10]), (99 - 28, &[&[1], CHALLENGE].concat()[..]));
    assert!(packets.restricted().hidden.is_empty());
    let sealed = packets.restricted().sealed.unwrap();
    assert_eq!((sealed.bytes, sealed.assumed_bytes, sealed.is_mtu_probe), (99, 1200, false));
    assert_eq!(sealed.challenge.unwrap(), CHALLENGE[1..]);

    // It fits, so nothing changes.
    assert_eq!(limited(&mut packets, SealLimit::Bytes(1200), CHALLENGE).len(), 1200 - 28);
    assert_eq!(limited(&mut packets, SealLimit::None, CHALLENGE).len(), 1200 - 28);
}

#[test]
fn challenge_is_sent_without_stream_data() {
    let data = [&[0x0a, 4, 0x44, 0][..], &[7; 0x400]].concat();
    let mut packets = Packets::default();
    let frames = [CHALLENGE, RESPONSE, &data].concat();
    let payload = limited(&mut packets, SealLimit::Bytes(99), &frames);
    assert_eq!((payload.len(), &payload[..18]), (99 - 28, &frames[..18]));
    assert!(payload[18..].iter().all(|byte| *byte == 0));
    assert_eq!(packets.restricted().hidden, [7]);
    // One of the frames would fit.
    let payload = limited(&mut packets, SealLimit::Bytes(40), &frames);
    assert_eq!(payload, [CHALLENGE, &[0; 3]].concat());

    // If there is no challenge or no room for it, the packet should stay as it is and not be sent.
    assert_eq!(limited(&mut packets, SealLimit::Bytes(99), &data).len(), 1200 - 28);
    assert_eq!(limited(&mut packets, SealLimit::Bytes(36), &frames).len(), 1200 - 28);
}

#[test]
fn probes_of_the_mtu_keep_their_length() {
    let mut packets = Packets::default();
    packets.restricted().limit = SealLimit::Bytes(99);
    let mut packet = [&HEADER[..], &[1, 0x1f]].concat();
    packet.resize(1201, 0);
    assert_eq!(packets.limit(7, &mut packet, HEADER.len()), 1201);
    assert!(packets.restricted().sealed.unwrap().is_mtu_probe);

    // A PING frame with padding of an ordinary datagram.
    assert_eq!(limited(&mut packets, SealLimit::Bytes(99), &[1]).len(), 99 - 28);
    assert!(!packets.restricted().sealed.unwrap().is_mtu_probe);
}

#[test]
fn only_answers_to_other_addresses_are_limited() {
    let mut packets = Packets::default();
    assert_eq!(limited(&mut packets, SealLimit::OtherAddress(99), RESPONSE).len(), 99 - 28);
    assert_eq!(limited(&mut packets, SealLimit::OtherAddress(99), CHALLENGE).len(), 1200 - 28);
    assert_eq!(
        limited(&mut packets, SealLimit::OtherAddress(99), &[&[1], RESPONSE].concat()).len(),
        1200 - 28
    );
}
