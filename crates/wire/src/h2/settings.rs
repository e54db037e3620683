//! SETTINGS (RFC 9113 §6.5): our own, and a parser for the peer's.
//!
//! The parser only returns the changes; the connection has to apply them.

use super::error::ErrorCode;
use super::flow::WINDOW_BYTES_MAX;
use super::frame::PAYLOAD_BYTES_MAX;
use crate::limits::{FIELD_LIST_BYTES_MAX, STREAMS_MAX};

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
/// RFC 9218 §2.1.
const NO_RFC7540_PRIORITIES: u16 = 9;

/// Length of a parameter, in bytes.
const PARAMETER_BYTES: usize = 6;

/// Payload of our SETTINGS. We use the defaults of the other parameters: 4 KiB tables, 64 KiB windows and 16
/// KiB frames.
pub(super) const OURS: [u8; 3 * PARAMETER_BYTES] = {
    #[allow(clippy::cast_possible_truncation, reason = "the assertion below")]
    let list_bytes = FIELD_LIST_BYTES_MAX as u32;
    assert!(list_bytes as usize == FIELD_LIST_BYTES_MAX, "a setting is four bytes wide");
    let ours = [
        (MAX_CONCURRENT_STREAMS, STREAMS_MAX),
        (MAX_HEADER_LIST_SIZE, list_bytes),
        (NO_RFC7540_PRIORITIES, 1),
    ];
    let mut bytes = [0; 3 * PARAMETER_BYTES];
    let mut place = 0;
    while place < ours.len() {
        let [i0, i1] = ours[place].0.to_be_bytes();
        let [v0, v1, v2, v3] = ours[place].1.to_be_bytes();
        let parameter = [i0, i1, v0, v1, v2, v3];
        let mut byte = 0;
        while byte < PARAMETER_BYTES {
            bytes[place * PARAMETER_BYTES + byte] = parameter[byte];
            byte += 1;
        }
        place += 1;
    }
    bytes
};

/// Changes requested by the peer's SETTINGS.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Smallest and last value of SETTINGS_HEADER_TABLE_SIZE.
    pub(super) table_bytes: Option<(u32, u32)>,
    /// Largest and last value of SETTINGS_INITIAL_WINDOW_SIZE.
    pub(super) window_bytes: Option<(u32, u32)>,
    /// Number of parameters, unknown ones included.
    pub(super) parameters: usize,
}

pub(super) fn read(payload: &[u8]) -> Result<Changes, ErrorCode> {
    let (parameters, []) = payload.as_chunks::<PARAMETER_BYTES>() else { return Err(ErrorCode::FrameSize) };
    let mut changes = Changes { parameters: parameters.len(), ..Changes::default() };

    for [i0, i1, value @ ..] in parameters {
        let value = u32::from_be_bytes(*value);
        match u16::from_be_bytes([*i0, *i1]) {
            HEADER_TABLE_SIZE => {
                let smallest = changes.table_bytes.map_or(value, |(smallest, _)| smallest.min(value));
                changes.table_bytes = Some((smallest, value));
            }
            ENABLE_PUSH | NO_RFC7540_PRIORITIES if value > 1 => return Err(ErrorCode::Protocol),
            INITIAL_WINDOW_SIZE if value > WINDOW_BYTES_MAX => return Err(ErrorCode::FlowControl),
            INITIAL_WINDOW_SIZE => {
                let largest = changes.window_bytes.map_or(value, |(largest, _)| largest.max(value));
                changes.window_bytes = Some((largest, value));
            }
            // A valid value does not change anything: our frames never exceed the size that all peers must
            // accept.
            MAX_FRAME_SIZE if !(PAYLOAD_BYTES_MAX..1 << 24).contains(&value) => {
                return Err(ErrorCode::Protocol);
            }
            // No other valid parameter matters to us, and unknown ones MUST be ignored (RFC 9113 §6.5.2).
            _ => {}
        }
    }

    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(parameters: &[(u16, u32)]) -> Vec<u8> {
        let bytes = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        parameters.iter().flat_map(bytes).collect()
    }

    #[test]
    fn our_settings_are_encoded() {
        assert_eq!(OURS.as_slice(), payload(&[(3, 128), (6, 16_384), (9, 1)]));
    }

    #[test]
    fn last_value_of_a_setting_counts() {
        let changes = read(&payload(&[(1, 100), (4, 7), (1, 0), (4, 5), (1, 50), (77, 1)])).unwrap();
        let expected = Changes { table_bytes: Some((0, 50)), window_bytes: Some((7, 5)), parameters: 6 };
        assert_eq!(changes, expected);
        assert_eq!(read(&[]), Ok(Changes::default()));
    }

    #[test]
    fn invalid_values_are_refused() {
        for (id, value, code) in [
            (2, 2, ErrorCode::Protocol),
            (4, 1 << 31, ErrorCode::FlowControl),
            (5, 16_383, ErrorCode::Protocol),
            (5, 1 << 24, ErrorCode::Protocol),
            (9, 2, ErrorCode::Protocol),
        ] {
            assert_eq!(read(&payload(&[(id, value)])), Err(code), "{id} {value}");
        }

        for (id, value) in
            [(2, 1), (3, 0), (4, (1 << 31) - 1), (5, 16_384), (5, (1 << 24) - 1), (6, 0), (9, 1)]
        {
            assert!(read(&payload(&[(id, value)])).is_ok(), "{id} {value}");
        }
        assert_eq!(read(&[0; 7]), Err(ErrorCode::FrameSize));
    }
}
