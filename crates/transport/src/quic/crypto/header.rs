//! Header protection: the parts of a packet that it uses and the effect of a mask on them (RFC 9001
//! §5.4).

use crate::quic::packets::packet_type::LONG_HEADER;

/// Length of a sample. It is the same for all TLS 1.3 cipher suites.
pub(super) const SAMPLE_BYTES: usize = 16;

/// Distance between the start of the packet number and the sample, in bytes.
const PACKET_NUMBER_BYTES_MAX: usize = 4;

/// Parts of a packet.
pub(super) struct HeaderParts<'a> {
    pub(super) first: &'a mut u8,
    /// As many bytes as a packet number may have.
    pub(super) packet_number: &'a mut [u8],
    pub(super) sample: &'a [u8],
}

impl<'a> HeaderParts<'a> {
    /// Splits off the parts of a packet whose number is at this position, or `None` if the packet is
    /// too short for a sample (`quinn-proto` does not pass any such packets, however).
    pub(super) fn split(number_start: usize, packet: &'a mut [u8]) -> Option<Self> {
        let (header, rest) = packet.split_at_mut_checked(number_start + PACKET_NUMBER_BYTES_MAX)?;
        let sample = rest.get(..SAMPLE_BYTES)?;
        let (first, header) = header.split_first_mut()?;
        let packet_number = header.get_mut(number_start.checked_sub(1)?..)?;
        Some(Self { first, packet_number, sample })
    }
}

/// The bits of a first byte that are protected. These do not include the type, which only long headers
/// have.
fn protected_bits(first: u8) -> u8 {
    if first & LONG_HEADER == 0 { 0x1f } else { 0x0f }
}

/// Protects the first byte and the packet number with a mask (RFC 9001 §5.4.1).
pub(super) fn protect(first: &mut u8, packet_number: &mut [u8], [first_mask, mask @ ..]: [u8; 5]) {
    xor_number(*first, packet_number, mask);
    *first ^= first_mask & protected_bits(*first);
}

/// Removes the protection.
pub(super) fn unprotect(first: &mut u8, packet_number: &mut [u8], [first_mask, mask @ ..]: [u8; 5]) {
    *first ^= first_mask & protected_bits(*first);
    xor_number(*first, packet_number, mask);
}

/// Applies a mask to the packet number, the length of which is in the unprotected first byte.
fn xor_number(first: u8, packet_number: &mut [u8], mask: [u8; 4]) {
    let number_bytes = usize::from(first & 3) + 1;
    for (byte, mask) in packet_number.iter_mut().zip(mask).take(number_bytes) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_too_short_for_a_sample_has_no_parts() {
        for length in 0..100 {
            let mut packet = vec![0; length];
            let parts = HeaderParts::split(18, &mut packet);
            assert_eq!(parts.is_some(), length >= 18 + 4 + 16, "{length} bytes");
        }
        assert!(HeaderParts::split(0, &mut [0; 64]).is_none());
    }
}
