//! The types of packets, by the first byte of a datagram (RFC 9000 §17).

use cannery_secure::limits::QUIC_HANDSHAKE_DATAGRAM_BYTES;

/// The bit of a packet with a long header.
const LONG_HEADER: u8 = 0b1000_0000;

/// The bits of the type in a long header of version 1 (RFC 9000 §17.2, table 5).
const TYPE: u8 = 0b0011_0000;
const INITIAL: u8 = 0b0000_0000;
const ZERO_RTT: u8 = 0b0001_0000;
const RETRY: u8 = 0b0011_0000;

/// Returns `true` for a packet with a long header, as those of handshakes have it.
pub(super) fn has_long_header(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & LONG_HEADER != 0)
}

/// Returns `true` for an Initial packet.
pub(super) fn is_initial(datagram: &[u8]) -> bool {
    is_of_type(datagram, INITIAL)
}

/// Returns `true` for a Retry packet. Its version distinguishes it from version negotiation.
pub(super) fn is_retry(datagram: &[u8]) -> bool {
    is_of_type(datagram, RETRY) && datagram.get(1..5).is_some_and(|version| version != [0; 4])
}

/// Returns `true` if a datagram with an ID that a client has chosen can belong to a connection attempt: the client pads
/// datagrams with Initial packets to full length (RFC 9000 §14.1), but not those with early data alone.
pub(super) fn can_be_attempt(datagram: &[u8]) -> bool {
    let is_full = datagram.len() >= usize::from(QUIC_HANDSHAKE_DATAGRAM_BYTES);
    has_long_header(datagram) && is_full || is_of_type(datagram, ZERO_RTT)
}

fn is_of_type(datagram: &[u8], kind: u8) -> bool {
    datagram.first().is_some_and(|first| first & (LONG_HEADER | TYPE) == LONG_HEADER | kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_of_version_1() {
        let packet = |first: u8, length: usize| [&[first, 0, 0, 0, 1], &vec![0; length - 5][..]].concat();
        let initial = packet(0xc3, 1200);
        assert!(has_long_header(&initial) && is_initial(&initial) && can_be_attempt(&initial));
        assert!(!is_retry(&initial));
        assert!(!can_be_attempt(&packet(0xc3, 1199)));

        let early_data = packet(0xd3, 100);
        assert!(can_be_attempt(&early_data) && !is_initial(&early_data));

        let short = packet(0x43, 1200);
        assert!(!has_long_header(&short) && !is_initial(&short) && !can_be_attempt(&short));

        let retry = packet(0xf0, 100);
        let version_negotiation = [&[0xf0, 0, 0, 0, 0][..], &[0; 95]].concat();
        assert!(is_retry(&retry) && !is_retry(&version_negotiation) && !is_retry(&[]));
    }
}
