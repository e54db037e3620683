//! SETTINGS (RFC 9114 §7.2.4, RFC 9204 §5): our own, and a parser for the peer's.

use super::error::ErrorCode;
use super::frame::kind;
use super::varint;
use crate::limits::{FIELD_LIST_BYTES_MAX, QPACK_TABLE_BYTES};

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
/// RFC 9220 §3.
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
/// RFC 9297 §2.1.1.
const H3_DATAGRAM: u64 = 0x33;

/// Our SETTINGS frame. We keep the defaults of the other parameters. In particular, the peer must not use QPACK in a way that might
/// block streams.
pub(super) const OURS: [u8; 10] = {
    let [.., t0, t1] = (QPACK_TABLE_BYTES as u64).to_be_bytes();
    let [.., l0, l1, l2, l3] = (FIELD_LIST_BYTES_MAX as u64).to_be_bytes();
    assert!(QPACK_TABLE_BYTES < 0x4000 && FIELD_LIST_BYTES_MAX < 0x4000_0000, "two bytes and four bytes");
    #[allow(clippy::cast_possible_truncation, reason = "identifiers below 64 take one byte")]
    let [table, list] = [QPACK_MAX_TABLE_CAPACITY as u8, MAX_FIELD_SECTION_SIZE as u8];
    #[allow(clippy::cast_possible_truncation, reason = "so do frame types")]
    let kind = kind::SETTINGS as u8;
    [kind, 8, table, t0 | 0x40, t1, list, l0 | 0x80, l1, l2, l3]
};

/// The settings that matter to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PeerSettings {
    /// Maximum size of the table that we may fill at the peer, in bytes.
    pub(super) qpack_table_bytes: u64,
}

pub(super) fn read(mut payload: &[u8]) -> Result<PeerSettings, ErrorCode> {
    let mut settings = PeerSettings::default();
    // A bit for each identifier, to find duplicates.
    let mut seen = 0_u64;
    while !payload.is_empty() {
        let (identifier, rest) = varint::read(payload).ok_or(ErrorCode::Frame)?;
        let (value, rest) = varint::read(rest).ok_or(ErrorCode::Frame)?;
        payload = rest;

        // Identifiers above 63 do not matter to us.
        let bit = 1_u64.checked_shl(u32::try_from(identifier).unwrap_or(u32::MAX)).unwrap_or(0);
        if seen & bit != 0 {
            return Err(ErrorCode::Settings);
        }
        seen |= bit;
        match identifier {
            // RFC 9114 §7.2.4.1: HTTP/2 settings must not be sent.
            0x2..=0x5 => return Err(ErrorCode::Settings),
            ENABLE_CONNECT_PROTOCOL | H3_DATAGRAM if value > 1 => return Err(ErrorCode::Settings),
            QPACK_MAX_TABLE_CAPACITY => settings.qpack_table_bytes = value,
            // The peer's limit for blocked streams does not matter, since our encoder never blocks any. Unknown parameters MUST be
            // ignored (RFC 9114 §9).
            _ => {}
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(parameters: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (identifier, value) in parameters {
            varint::put(&mut bytes, *identifier);
            varint::put(&mut bytes, *value);
        }
        bytes
    }

    #[test]
    fn our_settings_are_encoded() {
        let expected = payload(&[(QPACK_MAX_TABLE_CAPACITY, 4096), (MAX_FIELD_SECTION_SIZE, 16_384)]);
        assert_eq!(OURS.as_slice(), [&[4, 8], &expected[..]].concat());
    }

    #[test]
    fn known_settings_are_taken_and_others_ignored() {
        assert_eq!(read(&[]), Ok(PeerSettings::default()));
        let settings =
            read(&payload(&[(7, 100), (0x33, 1), (0x21, 5), (6, 1), (1, 65_536), (varint::MAX, 2)]));
        assert_eq!(settings, Ok(PeerSettings { qpack_table_bytes: 65_536 }));
    }

    #[test]
    fn invalid_settings_are_refused() {
        for parameters in
            [&[(2, 0)][..], &[(3, 1)], &[(4, 1)], &[(5, 1)], &[(8, 2)], &[(0x33, 2)], &[(1, 0), (1, 0)]]
        {
            assert_eq!(read(&payload(parameters)), Err(ErrorCode::Settings), "{parameters:?}");
        }
        assert_eq!(read(&payload(&[(1, 4096)])[..2]), Err(ErrorCode::Frame));
        assert_eq!(read(&[1]), Err(ErrorCode::Frame));
    }
}
