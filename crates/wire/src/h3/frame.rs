//! Splits a stream, which may arrive in pieces of any length, into frames (RFC 9114 §7.1).

use super::varint;

/// Frame types (RFC 9114 §7.2, RFC 9218 §7.2).
pub(super) mod kind {
    pub(in crate::h3) const DATA: u64 = 0x0;
    pub(in crate::h3) const HEADERS: u64 = 0x1;
    pub(in crate::h3) const CANCEL_PUSH: u64 = 0x3;
    pub(in crate::h3) const SETTINGS: u64 = 0x4;
    pub(in crate::h3) const PUSH_PROMISE: u64 = 0x5;
    pub(in crate::h3) const GOAWAY: u64 = 0x7;
    pub(in crate::h3) const MAX_PUSH_ID: u64 = 0xd;
    pub(in crate::h3) const PRIORITY_UPDATE: u64 = 0xf_0700;
    pub(in crate::h3) const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;

    /// Returns `true` for types that are used by HTTP/2 but forbidden in HTTP/3 (RFC 9114 §7.2.8).
    pub(in crate::h3) fn is_forbidden(kind: u64) -> bool {
        matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// Longest possible frame head: two integers.
const HEAD_BYTES_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct FrameReader {
    state: State,
}

#[derive(Debug)]
enum State {
    /// In or before a frame head.
    Head { bytes: [u8; HEAD_BYTES_MAX], length: usize },
    /// In a payload. This number of bytes is missing.
    Payload { left: u64 },
}

/// A part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'b> {
    /// The input ends here.
    Incomplete,
    /// A complete frame head.
    Head { kind: u64, length: u64 },
    /// The next payload bytes. For an empty payload, there is one empty piece.
    Payload { bytes: &'b [u8], is_last: bool },
}

impl Default for State {
    fn default() -> Self {
        State::Head { bytes: [0; HEAD_BYTES_MAX], length: 0 }
    }
}

impl FrameReader {
    /// Consumes the next part of a frame from the front of `input`.
    pub(super) fn next<'b>(&mut self, input: &mut &'b [u8]) -> Part<'b> {
        match &mut self.state {
            // Usually the whole head is there.
            State::Head { length: 0, .. } if let Some((kind, payload, head_bytes)) = parse_head(input) => {
                *input = &input[head_bytes..];
                self.state = State::Payload { left: payload };
                Part::Head { kind, length: payload }
            }
            State::Head { bytes, length } => {
                // Some bytes of the head might have arrived earlier. Copy as many as the longest head could
                // have.
                let begun = *length;
                let added = input.len().min(HEAD_BYTES_MAX - begun);
                bytes[begun..begun + added].copy_from_slice(&input[..added]);
                let Some((kind, payload, head_bytes)) = parse_head(&bytes[..begun + added]) else {
                    *length += added;
                    *input = &input[added..];
                    return Part::Incomplete;
                };

                *input = &input[head_bytes - begun..];
                self.state = State::Payload { left: payload };
                Part::Head { kind, length: payload }
            }
            State::Payload { left } => {
                if input.is_empty() && *left > 0 {
                    return Part::Incomplete;
                }

                let available = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                let (bytes, rest) = input.split_at(available);
                *input = rest;
                *left -= available as u64;

                let is_last = *left == 0;
                if is_last {
                    self.state = State::default();
                }
                Part::Payload { bytes, is_last }
            }
        }
    }

    /// Consumes a frame of this type from the front of `input`, if all of it is there and its payload has at most `bytes_max`
    /// bytes. Otherwise, nothing changes.
    #[inline]
    pub(super) fn next_whole<'b>(&self, kind: u64, bytes_max: u64, input: &mut &'b [u8]) -> Option<&'b [u8]> {
        let (next_kind, length, head_bytes) = parse_head(input)?;
        if next_kind != kind || length > bytes_max || !self.is_between_frames() {
            return None;
        }
        let (payload, rest) = input[head_bytes..].split_at_checked(usize::try_from(length).ok()?)?;
        *input = rest;
        Some(payload)
    }

    /// Returns `true` if the stream may end here without cutting off a frame.
    pub(super) fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Head { length: 0, .. })
    }
}

/// Returns the frame type, the payload length and the head length, or `None` when the head is incomplete.
#[inline]
fn parse_head(bytes: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, rest) = varint::read(bytes)?;
    let (length, rest) = varint::read(rest)?;
    Some((kind, length, bytes.len() - rest.len()))
}

pub(super) fn put_head(out: &mut Vec<u8>, kind: u64, length: u64) {
    varint::put(out, kind);
    varint::put(out, length);
}

#[cfg(test)]
mod tests;
