//! Unit tests of Initial packets with the vectors of RFC 9001, appendix A.

use super::*;

/// The client's first connection ID in all vectors.
const CLIENT_ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

fn keys_of(side: Side) -> Keys {
    InitialKeys::default().of(&client_id(), side, None)
}

fn client_id() -> ConnectionId {
    ConnectionId::new(&CLIENT_ID)
}

/// Parses hexadecimal digits.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

/// Protects a packet that has its number at `number_start`.
fn seal(keys: &Keys, number: u64, number_start: usize, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut packet = [header, payload, &[0; TAG_BYTES]].concat();
    keys.packet.local.encrypt(number, &mut packet, header.len());
    keys.header.local.encrypt(number_start, &mut packet);
    packet
}

/// Removes the protection of a packet with a packet number of `number_bytes` bytes.
fn open(
    keys: &Keys,
    number: u64,
    number_start: usize,
    number_bytes: usize,
    packet: &[u8],
) -> Option<Vec<u8>> {
    let mut packet = packet.to_vec();
    keys.header.remote.decrypt(number_start, &mut packet);
    let mut payload = BytesMut::from(&packet[number_start + number_bytes..]);
    keys.packet.remote.decrypt(number, &packet[..number_start + number_bytes], &mut payload).ok()?;
    Some(payload.to_vec())
}

const SERVER_HEADER: &str = "c1000000010008f067a5502a4262b50040750001";
const SERVER_PAYLOAD: &str = "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a04
    5a1200130100002e00330024001d00209d3c940d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00020304";
const SERVER_PACKET: &str = "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554
    780bb38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd9
    3795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee";

#[test]
fn server_initial_is_that_of_the_rfc() {
    let keys = keys_of(Side::Server);
    let packet = seal(&keys, 1, 18, &hex(SERVER_HEADER), &hex(SERVER_PAYLOAD));
    assert_eq!(packet, hex(SERVER_PACKET));

    let client = keys_of(Side::Client);
    assert_eq!(open(&client, 1, 18, 2, &packet), Some(hex(SERVER_PAYLOAD)));
}

#[test]
fn client_initial_is_that_of_the_rfc() {
    let mut payload = hex(
        "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413011302010000c0000000
        10000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504616c706e000500050100000000003300
        260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e0403050306
        030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff08011001048000753009
        01100f088394c8f03e51570806048000ffff",
    );
    payload.resize(1162, 0);
    let client = keys_of(Side::Client);
    let packet = seal(&client, 2, 18, &hex("c300000001088394c8f03e5157080000449e00000002"), &payload);
    assert_eq!(packet.len(), 1200);
    assert_eq!(packet[..22], hex("c000000001088394c8f03e5157080000449e7b9aec34"));
    assert_eq!(packet[1184..], hex("e221af44860018ab0856972e194cd934"));

    let keys = keys_of(Side::Server);
    assert_eq!(open(&keys, 2, 18, 4, &packet), Some(payload));
}

#[test]
fn damaged_packet_is_refused() {
    let client = keys_of(Side::Client);
    let packet = hex(SERVER_PACKET);
    for position in 0..packet.len() {
        let mut damaged = packet.clone();
        damaged[position] ^= 1;
        assert_eq!(open(&client, 1, 18, 2, &damaged), None, "byte {position}");
    }
}

#[test]
fn last_secrets_are_remembered() {
    let initial_keys = InitialKeys::default();
    let derived = || initial_keys.0.lock().unwrap().as_ref().unwrap().1.clone();
    initial_keys.of(&client_id(), Side::Server, None);
    let first = derived();
    initial_keys.of(&client_id(), Side::Server, None);
    assert!(Arc::ptr_eq(&first, &derived()));

    initial_keys.of(&ConnectionId::new(&[1; 8]), Side::Server, None);
    assert!(!Arc::ptr_eq(&first, &derived()));
    let keys = initial_keys.of(&client_id(), Side::Server, None);
    assert_eq!(seal(&keys, 1, 18, &hex(SERVER_HEADER), &hex(SERVER_PAYLOAD)), hex(SERVER_PACKET));
}

#[test]
fn keys_are_derived_when_used() {
    let initial_keys = InitialKeys::default();
    let keys = initial_keys.of(&client_id(), Side::Server, None);
    keys.header.remote.decrypt(18, &mut [0xc0; 60]);
    let secrets = initial_keys.0.lock().unwrap().as_ref().unwrap().1.clone();
    assert!(secrets.client.header.get().is_some() && secrets.client.packet.get().is_none());
    assert!(secrets.server.secret.get().is_none());
}

/// `rustls` derives the same keys.
#[test]
fn keys_equal_those_of_another_implementation() {
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    let suite = suite.quic_suite().unwrap();
    for id in [&[][..], &[1; 8], &[2; 20]] {
        let theirs = suite.keys(id, rustls::Side::Client, rustls::quic::Version::V1);
        let ours = InitialKeys::default().of(&ConnectionId::new(id), Side::Server, None);
        for number in [0, 1, 255, 65_536, u64::from(u32::MAX) << 8] {
            for first in 0xc0..=0xcf {
                let header = [&[first], &[0; 17][..], &[9; 4]].concat();
                let mut sent = [&header[..], &[7; 50], &[0; TAG_BYTES]].concat();
                let (header, payload) = sent.split_at_mut(header.len());
                let (payload, tag) = payload.split_at_mut(50);
                tag.copy_from_slice(
                    theirs.local.packet.encrypt_in_place(number, header, payload).unwrap().as_ref(),
                );
                let number_bytes = usize::from(first & 3) + 1;
                let mut packet = sent.clone();
                let (start, sample) = packet.split_at_mut(22);
                let (first_byte, rest) = start.split_first_mut().unwrap();
                theirs.local.header.encrypt_in_place(&sample[..16], first_byte, &mut rest[17..]).unwrap();

                ours.header.remote.decrypt(18, &mut packet);
                assert_eq!(packet, sent, "{number_bytes} bytes of number");
                let mut payload = BytesMut::from(&packet[22..]);
                ours.packet.remote.decrypt(number, &packet[..22], &mut payload).unwrap();
                assert_eq!(payload[..], [7; 50]);
            }
        }
    }
}
