//! Shortens packets to addresses that may be forged if they would not fit into the address's allowance
//! otherwise (RFC 9000 §8.1, §8.2.1).
//!
//! `quinn-proto` immediately sends a datagram of full length to a new address, and we get to see its frames
//! when they are sealed. Since a packet with a short header ends where the datagram ends, padding can still
//! be omitted at this point. If there is stream data and therefore not enough room, the PATH_CHALLENGE frame
//! is sent without it, using the same packet number. `quinn-proto` must then consider the packet lost, so
//! acknowledgments for it have to be hidden ([`contents`](super::contents)).

use super::TAG_BYTES;
use super::frames::{Frame, Frames};
use super::records::{Packets, SealLimit, Sealed};
use crate::limits::{QUIC_HANDSHAKE_DATAGRAM_BYTES, QUIC_HIDDEN_PACKETS_MAX};

/// Minimum size, in bytes, of a payload. After a packet number of one byte, this is enough to take a sample
/// for header protection.
const PAYLOAD_BYTES_MIN: usize = 3;

const PADDING: u8 = 0x00;
const PATH_CHALLENGE: u8 = 0x1a;
const PATH_RESPONSE: u8 = 0x1b;

impl Packets {
    /// Prepares a packet, which has space for the tag. Returns the length to be sealed.
    #[cold]
    pub(crate) fn limit(&mut self, number: u64, packet: &mut [u8], header_bytes: usize) -> usize {
        let assumed_bytes = packet.len();
        let payload = &mut packet[header_bytes..assumed_bytes - TAG_BYTES];
        let contents = SealedContents::of(payload, assumed_bytes);
        let mut bytes = assumed_bytes;

        let restricted = self.restricted();
        let limit = match restricted.limit {
            SealLimit::None => usize::MAX,
            SealLimit::OtherAddress(limit) if contents.is_lone_response => limit,
            SealLimit::OtherAddress(_) => usize::MAX,
            SealLimit::Bytes(limit) => limit,
        };

        let frame_bytes_max = limit.saturating_sub(header_bytes + TAG_BYTES);
        if assumed_bytes > limit && !contents.is_mtu_probe {
            // It is sufficient to omit some padding.
            if contents.frame_bytes.max(PAYLOAD_BYTES_MIN) <= frame_bytes_max {
                bytes = limit;
            } else if let Some(challenge) = contents.challenge
                && frame_bytes_max > challenge.len()
                && restricted.hidden.len() < QUIC_HIDDEN_PACKETS_MAX
            {
                restricted.hidden.push(number);
                payload.fill(PADDING);
                put_token(PATH_CHALLENGE, challenge, payload);
                if let Some(response) = contents.response
                    && frame_bytes_max > 2 * (1 + response.len())
                {
                    put_token(PATH_RESPONSE, response, &mut payload[1 + challenge.len()..]);
                }
                bytes = limit;
            }
        }

        let challenge = contents.challenge;
        let is_mtu_probe = contents.is_mtu_probe;
        restricted.sealed = Some(Sealed { bytes, assumed_bytes, is_mtu_probe, challenge });
        bytes
    }
}

fn put_token(frame_type: u8, token: [u8; 8], payload: &mut [u8]) {
    payload[0] = frame_type;
    payload[1..=token.len()].copy_from_slice(&token);
}

/// Properties of a payload that decide how long it must be.
#[derive(Default)]
struct SealedContents {
    /// Length of all frames before the padding at the end.
    frame_bytes: usize,
    challenge: Option<[u8; 8]>,
    response: Option<[u8; 8]>,
    /// `true` if there is a PATH_RESPONSE frame, and only padding apart from that.
    is_lone_response: bool,
    is_mtu_probe: bool,
}

impl SealedContents {
    fn of(payload: &[u8], packet_bytes: usize) -> Self {
        let mut contents = Self::default();
        let [mut is_lone_response, mut has_only_pings] = [true; 2];

        let mut end = 0;
        for (position, frame) in Frames::new(payload) {
            end = position.end;
            if frame == Frame::Padding {
                continue;
            }
            contents.frame_bytes = position.end;
            // IMMEDIATE_ACK is 0x1f.
            has_only_pings &= matches!(frame, Frame::Ping | Frame::Other(0x1f));
            is_lone_response &= matches!(frame, Frame::PathResponse(_));
            match frame {
                Frame::PathChallenge(token) => contents.challenge = Some(token),
                Frame::PathResponse(token) => contents.response = Some(token),
                _ => {}
            }
        }

        if end < payload.len() {
            // We do not send any frames like this.
            contents.frame_bytes = payload.len();
        }

        contents.is_lone_response = is_lone_response && contents.response.is_some();
        contents.is_mtu_probe = has_only_pings && packet_bytes > usize::from(QUIC_HANDSHAKE_DATAGRAM_BYTES);
        contents
    }
}

#[cfg(test)]
mod tests;
