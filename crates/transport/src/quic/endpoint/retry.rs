//! Recognizes Retry packets, which may only be sent by servers (RFC 9000 §17.2.5).
//!
//! `quinn-proto` closes the connection if a client seems to send one. Retry packets are not protected, so
//! this can be caused by a single wrong bit in the first byte of another packet, or by a datagram that an
//! observer of the handshake has forged. To avoid this, such datagrams are dropped (the client will send its
//! packets again).

use crate::quic::packets::packet_type::PacketType;

/// Returns `true` if this datagram contains a Retry packet.
#[inline]
pub(super) fn contains_retry(datagram: &[u8]) -> bool {
    PacketType::all_of(datagram).any(|packet| packet == PacketType::Retry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::packets::packet_type::tests::{HANDSHAKE, INITIAL, RETRY, packet};

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
}
