//! Recognizes packet types by the first bytes of a datagram (RFC 9000 §17).

/// The only QUIC version that we support (RFC 9000 §15).
pub(crate) const VERSION: u32 = 1;

/// Bit in a packet's first byte that marks a long header.
pub(crate) const LONG_HEADER: u8 = 0x80;

/// The version in a long header.
const VERSION_1: [u8; 4] = VERSION.to_be_bytes();

/// Bytes in a long header before the connection IDs (RFC 9000 §17.2).
const FLAGS_AND_VERSION_BYTES: usize = 5;

/// Type of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketType {
    /// Starts a connection.
    Initial,
    /// Contains early data.
    ZeroRtt,
    /// Continues the handshake.
    Handshake,
    /// Asks the client to start over, with a token. Only servers send this.
    Retry,
    /// Lists the server's versions. Only servers send this.
    VersionNegotiation,
    /// Has a long header of another version, so we do not know the type.
    OtherVersion,
    /// Has a short header. Used after the handshake.
    Short,
}

impl PacketType {
    /// Returns the type of a datagram's first packet. Returns `None` if the datagram is too short.
    #[inline]
    pub fn of(datagram: &[u8]) -> Option<Self> {
        let (first, rest) = datagram.split_first()?;
        if first & LONG_HEADER == 0 {
            return Some(Self::Short);
        }
        Some(match *rest.first_chunk()? {
            // Types in a long header (RFC 9000 §17.2, table 5).
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

    /// Parses the types of all packets in a datagram, up to the first incomplete one (RFC 9000 §12.2).
    #[inline]
    pub fn all_of(datagram: &[u8]) -> impl Iterator<Item = Self> {
        let mut rest = Some(datagram);
        std::iter::from_fn(move || {
            let packets = rest.take()?;
            let kind = Self::of(packets)?;
            rest = kind.after_first(packets);
            Some(kind)
        })
    }

    /// Skips the first packet, which has this type. If it is incomplete or takes the rest of the datagram,
    /// this is `None`.
    fn after_first(self, packets: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Initial | Self::ZeroRtt | Self::Handshake => {}
            Self::Retry | Self::VersionNegotiation | Self::OtherVersion | Self::Short => return None,
        }
        let mut rest = packets.get(FLAGS_AND_VERSION_BYTES..)?;
        for _connection_id in 0..2 {
            let length = *rest.split_off_first()?;
            rest.split_off(..usize::from(length))?;
        }
        if self == Self::Initial {
            let token = variable_length_integer(&mut rest)?;
            rest.split_off(..token)?;
        }
        let length = variable_length_integer(&mut rest)?;
        rest.split_off(..length)?;
        Some(rest)
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
pub(crate) mod tests {
    use super::*;

    /// Types of packets with a long header (RFC 9000 §17.2, table 5).
    pub(in crate::quic) const INITIAL: u8 = 0;
    pub(in crate::quic) const HANDSHAKE: u8 = 2;
    pub(in crate::quic) const RETRY: u8 = 3;

    /// Builds a packet with a long header: connection IDs of one byte, a token of two in an Initial packet,
    /// and this content.
    pub(in crate::quic) fn packet(kind: u8, content: &[u8]) -> Vec<u8> {
        let token: &[u8] = if kind == INITIAL { &[2, 7, 7] } else { &[] };
        // The length as an integer of two bytes.
        let length = [0x40, u8::try_from(content.len()).unwrap()];
        [&[0xc0 | kind << 4, 0, 0, 0, 1, 1, 8, 1, 9], token, &length, content].concat()
    }

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

    #[test]
    fn datagram_has_all_packets_up_to_the_first_incomplete_one() {
        let (initial, handshake) = (packet(INITIAL, b"hello"), packet(HANDSHAKE, b"finished"));
        let datagram = [&initial[..], &handshake, &[0x40; 30]].concat();
        let all: Vec<_> = PacketType::all_of(&datagram).collect();
        assert_eq!(all, [PacketType::Initial, PacketType::Handshake, PacketType::Short]);
        // A short header has no length, so the packet takes the rest.
        let all: Vec<_> = PacketType::all_of(&[&[0x40; 30][..], &handshake].concat()).collect();
        assert_eq!(all, [PacketType::Short]);

        for length in 0..datagram.len() {
            let types = match length {
                0..5 => 0,
                _ if length < initial.len() + 5 => 1,
                _ if length <= initial.len() + handshake.len() => 2,
                _ => 3,
            };
            assert_eq!(PacketType::all_of(&datagram[..length]).count(), types, "{length}");
        }
        for incomplete in
            [&[0xc0, 0, 0, 0, 1, 255][..], &[0xc0, 0, 0, 0, 1, 0, 0, 0xff, 255, 255, 255, 255, 255, 255, 255]]
        {
            assert_eq!(PacketType::all_of(incomplete).collect::<Vec<_>>(), [PacketType::Initial]);
        }
    }
}
