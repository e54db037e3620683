//! Recognizes Retry packets, which only servers send (RFC 9000 §17.2.5).
//!
//! `quinn-proto` closes a connection whose client seems to send one. A Retry packet isn't protected, so one changed bit in the
//! first byte of another packet suffices, or a datagram that an observer of the handshake forges. We drop such datagrams, and
//! the client sends its packets again.

/// The bit of a packet's first byte that marks a long header (RFC 9000 §17.2).
const LONG_HEADER: u8 = 0x80;

/// The version with these packet types: QUIC version 1 (RFC 9000 §15).
const VERSION_1: [u8; 4] = [0, 0, 0, 1];

/// Types of packets with a long header (RFC 9000 §17.2, table 5).
const INITIAL: u8 = 0;
const RETRY: u8 = 3;

/// Returns `true` if a packet of this datagram is a Retry packet.
pub(super) fn contains_retry(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while let Some(packet) = Packet::split_off(&mut rest) {
        if packet == Packet::Retry {
            return true;
        }
    }
    false
}

/// A packet of version 1 with a long header.
#[derive(PartialEq, Eq)]
enum Packet {
    Retry,
    Other,
}

impl Packet {
    /// Removes the first packet of a datagram. Returns `None` if it has another form, which always takes the rest, or if it is
    /// incomplete.
    fn split_off(rest: &mut &[u8]) -> Option<Packet> {
        let (first, version) = (*rest.first()?, rest.get(1..5)?);
        if first & LONG_HEADER == 0 || version != VERSION_1 {
            return None;
        }
        let kind = first >> 4 & 3;
        if kind == RETRY {
            return Some(Packet::Retry);
        }

        let mut packet = &rest[5..];
        for _connection_id in 0..2 {
            let length = *packet.split_off_first()?;
            packet.split_off(..usize::from(length))?;
        }
        if kind == INITIAL {
            let token = variable_length_integer(&mut packet)?;
            packet.split_off(..token)?;
        }
        let length = variable_length_integer(&mut packet)?;
        packet.split_off(..length)?;
        *rest = packet;
        Some(Packet::Other)
    }
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

    /// A packet with a long header: connection IDs of one byte, a token of two in an Initial packet, and this content.
    fn packet(kind: u8, content: &[u8]) -> Vec<u8> {
        let token: &[u8] = if kind == INITIAL { &[2, 7, 7] } else { &[] };
        // The length as an integer of two bytes.
        let length = [0x40, u8::try_from(content.len()).unwrap()];
        [&[0xc0 | kind << 4, 0, 0, 0, 1, 1, 8, 1, 9], token, &length, content].concat()
    }

    #[test]
    fn retry_is_found_anywhere_in_a_datagram() {
        let (initial, handshake) = (packet(INITIAL, b"hello"), packet(2, b"finished"));
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
        let datagram = [packet(INITIAL, b"hello"), packet(2, b"finished")].concat();
        for length in 0..datagram.len() {
            assert!(!contains_retry(&datagram[..length]), "{length}");
        }
        assert!(!contains_retry(&[0xc0, 0, 0, 0, 1, 255]));
        assert!(!contains_retry(&[0xc0, 0, 0, 0, 1, 0, 0, 0xff, 255, 255, 255, 255, 255, 255, 255]));
    }
}
