//! Recognizes Retry packets, which only servers send (RFC 9000 §17.2.5).
//!
//! `quinn-proto` closes a connection whose client seems to send one. A Retry packet isn't protected, so one changed bit in the
//! first byte of another packet suffices, or a datagram that an observer of the handshake forges. We drop such datagrams, and
//! the client sends its packets again.

use super::packet_type::PacketType;

/// The bytes of a long header before its connection IDs: flags and version (RFC 9000 §17.2).
const FLAGS_AND_VERSION_BYTES: usize = 5;

/// Returns `true` if a packet of this datagram is a Retry packet.
pub(super) fn contains_retry(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    loop {
        let after = match PacketType::of(rest) {
            Some(PacketType::Retry) => return true,
            Some(kind @ (PacketType::Initial | PacketType::ZeroRtt | PacketType::Handshake)) => {
                after_long_packet(kind, rest)
            }
            // They always take the rest.
            Some(PacketType::Short | PacketType::VersionNegotiation | PacketType::OtherVersion) | None => {
                None
            }
        };
        match after {
            Some(after) => rest = after,
            None => return false,
        }
    }
}

/// Returns the bytes after the first packet of a datagram, whose long header gives its length (RFC 9000 §17.2). Returns `None` if
/// the packet is incomplete.
fn after_long_packet(kind: PacketType, datagram: &[u8]) -> Option<&[u8]> {
    let mut rest = datagram.get(FLAGS_AND_VERSION_BYTES..)?;
    for _connection_id in 0..2 {
        let length = *rest.split_off_first()?;
        rest.split_off(..usize::from(length))?;
    }
    if kind == PacketType::Initial {
        let token = variable_length_integer(&mut rest)?;
        rest.split_off(..token)?;
    }
    let length = variable_length_integer(&mut rest)?;
    rest.split_off(..length)?;
    Some(rest)
}

/// Removes a variable-length integer (RFC 9000 §16).
fn variable_length_integer(bytes: &mut &[u8]) -> Option<usize> {
    let first = *bytes.split_off_first()?;
    let more = bytes.split_off(..(1 << (first >> 6)) - 1)?;
    let number = more.iter().fold(u64::from(first & 0x3f), |number, byte| number << 8 | u64::from(*byte));
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types of packets with a long header (RFC 9000 §17.2, table 5).
    const INITIAL: u8 = 0;
    const HANDSHAKE: u8 = 2;
    const RETRY: u8 = 3;

    /// A packet with a long header: connection IDs of one byte, a token of two in an Initial packet, and this content.
    fn packet(kind: u8, content: &[u8]) -> Vec<u8> {
        let token: &[u8] = if kind == INITIAL { &[2, 7, 7] } else { &[] };
        // The length as an integer of two bytes.
        let length = [0x40, u8::try_from(content.len()).unwrap()];
        [&[0xc0 | kind << 4, 0, 0, 0, 1, 1, 8, 1, 9], token, &length, content].concat()
    }

    #[test]
    fn retry_is_found_anywhere_in_a_datagram() {
        let (initial, handshake) = (packet(INITIAL, b"hello"), packet(HANDSHAKE, b"finished"));
        let (retry, short) = (packet(RETRY, b"token"), [0x40; 30]);
        assert!(contains_retry(&retry));
        assert!(contains_retry(&[&initial[..], &retry].concat()));
        assert!(contains_retry(&[&initial[..], &handshake, &retry].concat()));
        assert!(!contains_retry(&[&initial[..], &handshake, &short].concat()));
        assert!(!contains_retry(&[&short[..], &retry].concat()));
        // Another version has other types.
        assert!(!contains_retry(&[0xf0, 0, 0, 0, 2, 0, 0]));
    }

    #[test]
    fn incomplete_packets_are_no_error() {
        let datagram = [packet(INITIAL, b"hello"), packet(HANDSHAKE, b"finished")].concat();
        for length in 0..datagram.len() {
            assert!(!contains_retry(&datagram[..length]), "{length}");
        }
        assert!(!contains_retry(&[0xc0, 0, 0, 0, 1, 255]));
        assert!(!contains_retry(&[0xc0, 0, 0, 0, 1, 0, 0, 0xff, 255, 255, 255, 255, 255, 255, 255]));
    }
}
