//! The types of packets, which the first bytes of a datagram name (RFC 9000 §17).

use super::crypto::VERSION;

/// The bit of a packet's first byte that marks a long header.
pub(super) const LONG_HEADER: u8 = 0x80;

/// The version with these types, as in a long header.
const VERSION_1: [u8; 4] = VERSION.to_be_bytes();

/// The type of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketType {
    /// Begins a connection.
    Initial,
    /// Has early data.
    ZeroRtt,
    /// Continues the handshake.
    Handshake,
    /// Asks the client to begin again, with a token. Only servers send it.
    Retry,
    /// Names the versions of the server. Only servers send it.
    VersionNegotiation,
    /// Has a long header of another version, whose types aren't known.
    OtherVersion,
    /// Has a short header, as after the handshake.
    Short,
}

impl PacketType {
    /// Returns the type of the first packet of a datagram, or `None` if the datagram is too short to have one.
    #[inline]
    pub fn of(datagram: &[u8]) -> Option<Self> {
        let (first, rest) = datagram.split_first()?;
        if first & LONG_HEADER == 0 {
            return Some(Self::Short);
        }
        Some(match *rest.first_chunk()? {
            // The types of a long header (RFC 9000 §17.2, table 5).
            VERSION_1 => match first >> 4 & 3 {
                0 => Self::Initial,
                1 => Self::ZeroRtt,
                2 => Self::Handshake,
                _ => Self::Retry,
            },
            [0, 0, 0, 0] => Self::VersionNegotiation,
            _ => Self::OtherVersion,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_of_version_1() {
        let long = [
            (0xc3, PacketType::Initial),
            (0xd0, PacketType::ZeroRtt),
            (0xe1, PacketType::Handshake),
            (0xff, PacketType::Retry),
            // Without the fixed bit, which says nothing about the type.
            (0x80, PacketType::Initial),
        ];
        for (first, expected) in long {
            assert_eq!(PacketType::of(&[first, 0, 0, 0, 1]), Some(expected), "{first:#x}");
            assert_eq!(PacketType::of(&[first, 0, 0, 0, 0, 8]), Some(PacketType::VersionNegotiation));
            assert_eq!(PacketType::of(&[first, 0, 0, 0, 2, 8]), Some(PacketType::OtherVersion));
            assert_eq!(PacketType::of(&[first, 0, 0, 0]), None);
        }
        assert_eq!(PacketType::of(&[0x40]), Some(PacketType::Short));
        assert_eq!(PacketType::of(&[0x7f, 0, 0, 0, 1]), Some(PacketType::Short));
        assert_eq!(PacketType::of(&[]), None);
    }
}
