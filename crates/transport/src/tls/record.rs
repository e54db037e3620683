//! Protects records after the handshake. This module implements the nonces, additional data and padding of
//! RFC 8446 §5.2 and RFC 5246 §6.2.3.3, while the AEAD is the library's.
//!
//! The purpose of doing this ourselves is to avoid copies: `rustls` copies content to another buffer before
//! it is encrypted, and then copies the record again, whereas we encrypt content directly into the bytes that
//! are sent. `rustls` still performs the handshake, after which it hands over the keys as it does for kernel
//! TLS.
//!
//! Note that the content of records is not interpreted here.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use rustls::ConnectionTrafficSecrets;

use crate::Version;
use crate::limits::CONTENT_BYTES_MAX;

// Content types of records (RFC 8446 §5.1).
pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION_DATA: u8 = 23;

/// The header consists of a type, a version, and a length of two bytes.
pub(super) const HEADER_BYTES: usize = 5;

const TAG_BYTES: usize = 16;

/// Length of the explicit part of the nonce, which TLS 1.2 with AES-GCM writes before the content (RFC
/// 5288 §3).
const EXPLICIT_NONCE_BYTES: usize = 8;

/// Layout of protected records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordFormat {
    /// TLS 1.3: the content type is encrypted together with the content. The nonce is implicit.
    Tls13,
    /// TLS 1.2 with AES-GCM: a part of the nonce precedes the content.
    Tls12ExplicitNonce,
    /// TLS 1.2 with ChaCha20-Poly1305 (RFC 7905): the nonce is implicit.
    Tls12,
}

impl RecordFormat {
    /// Returns the number of bytes between the record header and the content.
    fn nonce_bytes(self) -> usize {
        if self == Self::Tls12ExplicitNonce { EXPLICIT_NONCE_BYTES } else { 0 }
    }

    /// Length of the encrypted content type.
    fn type_bytes(self) -> usize {
        usize::from(self == Self::Tls13)
    }

    /// The maximum length of a record from a peer, including the header. Protection can add up to 256 bytes
    /// to the content in RFC 8446 §5.2, or up to 2 KiB in RFC 5246 §6.2.3.
    pub(super) fn record_bytes_max(self) -> usize {
        HEADER_BYTES + CONTENT_BYTES_MAX + if self == Self::Tls13 { 256 } else { 2048 }
    }

    /// Returns the number of bytes by which our records are longer than their content.
    pub(super) fn overhead(self) -> usize {
        HEADER_BYTES + self.nonce_bytes() + self.type_bytes() + TAG_BYTES
    }
}

/// Why a record cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenError {
    /// Authentication has failed. The record was changed or reordered, or was not sealed with this key.
    BadMac,
    /// The content is longer than a record may contain.
    Overflow,
    /// The content type is impossible or missing.
    NoType,
}

/// Protects records in one direction, using a key and the number of records that it has protected so
/// far.
pub(super) struct RecordProtection {
    format: RecordFormat,
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
    /// Limit for the records that the key may seal.
    sequence_max: u64,
}

impl RecordProtection {
    /// Takes over a direction in which `sequence` records have already been protected. Returns `None` if the
    /// cipher is unknown.
    pub(super) fn new(version: Version, sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        let (algorithm, key, iv, sequence_max) = match secrets {
            // The limit is 2^24.5 records of full length (RFC 8446 §5.5).
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv, 1 << 24),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv, 1 << 24),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv, u64::MAX),
            _ => return None,
        };
        let format = match version {
            Version::Tls13 => RecordFormat::Tls13,
            Version::Tls12 if algorithm == &CHACHA20_POLY1305 => RecordFormat::Tls12,
            Version::Tls12 => RecordFormat::Tls12ExplicitNonce,
        };
        Some(Self {
            format,
            key: LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).ok()?),
            iv: iv.as_ref().try_into().ok()?,
            sequence,
            sequence_max,
        })
    }

    pub(super) fn format(&self) -> RecordFormat {
        self.format
    }

    /// Whether the key may only seal one more record, which should be a KeyUpdate or an alert.
    pub(super) fn is_exhausted(&self) -> bool {
        self.sequence + 1 >= self.sequence_max
    }

    /// Returns the number of records that the key may still seal.
    pub(super) fn records_left(&self) -> u64 {
        self.sequence_max.saturating_sub(self.sequence)
    }

    /// Limits the key to `records` more records.
    #[cfg(test)]
    pub(super) fn limit(&mut self, records: u64) {
        self.sequence_max = self.sequence + records;
    }

    /// Opens a whole record in place and returns the content type and the content. The length of the record
    /// must not exceed [`RecordFormat::record_bytes_max`].
    pub(super) fn open<'a>(&mut self, record: &'a mut [u8]) -> Result<(u8, &'a [u8]), OpenError> {
        let (header, sealed) = record.split_first_chunk_mut::<HEADER_BYTES>().ok_or(OpenError::BadMac)?;
        if self.format == RecordFormat::Tls13 && header[0] != APPLICATION_DATA {
            return Err(OpenError::NoType);
        }

        let nonce_bytes = self.format.nonce_bytes();
        let length = sealed.len().checked_sub(nonce_bytes + TAG_BYTES).ok_or(OpenError::BadMac)?;
        let (explicit, sealed) = sealed.split_at_mut(nonce_bytes);
        // In TLS 1.3, this includes the type and padding, the length of which is not known before
        // decryption.
        if length > CONTENT_BYTES_MAX && self.format != RecordFormat::Tls13 {
            return Err(OpenError::Overflow);
        }

        let mut nonce = self.nonce();
        nonce[NONCE_LEN - nonce_bytes..].copy_from_slice(explicit);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = match self.format {
            RecordFormat::Tls13 => self.key.open_in_place(nonce, Aad::from(*header), sealed),
            _ => self.key.open_in_place(nonce, Aad::from(self.tls12_data(*header, length)), sealed),
        };
        let content = &*opened.map_err(|_| OpenError::BadMac)?;
        self.sequence += 1;

        // The rest is TLS 1.3, where the type comes after the content.
        if self.format != RecordFormat::Tls13 {
            return Ok((header[0], content));
        }
        if content.len() > CONTENT_BYTES_MAX + 1 {
            return Err(OpenError::Overflow);
        }
        // Any zeros after the type are padding.
        let end = content.iter().rposition(|&byte| byte != 0).ok_or(OpenError::NoType)?;
        Ok((content[end], &content[..end]))
    }

    /// Seals `content` into `record`, which must have the right length. Returns `None` if the key is
    /// exhausted.
    pub(super) fn seal(&mut self, kind: u8, content: &[u8], record: &mut [u8]) -> Option<()> {
        let (header, sealed, tag) = self.lay_out(kind, record, content.len())?;
        let nonce = Nonce::assume_unique_for_key(self.nonce());
        let kinds = [kind];
        let kinds = &kinds[..self.format.type_bytes()];
        match self.format {
            RecordFormat::Tls13 => {
                self.key.seal_out_of_place_scatter(nonce, Aad::from(header), content, sealed, kinds, tag)
            }
            _ => {
                let data = Aad::from(self.tls12_data(header, content.len()));
                self.key.seal_out_of_place_scatter(nonce, data, content, sealed, kinds, tag)
            }
        }
        .ok()?;
        self.sequence += 1;
        Some(())
    }

    /// Seals content that `fill` writes into `record`, whose length determines the length of the
    /// content. Returns `None` if the key is exhausted.
    pub(super) fn seal_with(
        &mut self,
        kind: u8,
        record: &mut [u8],
        fill: impl FnOnce(&mut [u8]),
    ) -> Option<()> {
        let length = record.len().checked_sub(self.format.overhead())?;
        let (header, content, tag) = self.lay_out(kind, record, length)?;
        fill(content);

        let nonce = Nonce::assume_unique_for_key(self.nonce());
        let kinds = [kind];
        let kinds = &kinds[..self.format.type_bytes()];
        match self.format {
            RecordFormat::Tls13 => {
                self.key.seal_in_place_scatter(nonce, Aad::from(header), content, kinds, tag)
            }
            _ => {
                let data = Aad::from(self.tls12_data(header, length));
                self.key.seal_in_place_scatter(nonce, data, content, kinds, tag)
            }
        }
        .ok()?;
        self.sequence += 1;
        Some(())
    }

    /// Writes the header and the explicit nonce. Returns the header, the place for the content, and the rest,
    /// or `None` if the key is exhausted (as a nonce must not be used twice).
    fn lay_out<'a>(
        &self,
        kind: u8,
        record: &'a mut [u8],
        length: usize,
    ) -> Option<([u8; HEADER_BYTES], &'a mut [u8], &'a mut [u8])> {
        if self.sequence >= self.sequence_max {
            return None;
        }
        let (header, rest) = record.split_first_chunk_mut::<HEADER_BYTES>()?;
        let [high, low] = u16::try_from(rest.len()).ok()?.to_be_bytes();
        *header = [if self.format == RecordFormat::Tls13 { APPLICATION_DATA } else { kind }, 3, 3, high, low];
        let (explicit, rest) = rest.split_at_mut_checked(self.format.nonce_bytes())?;
        explicit.copy_from_slice(&self.nonce()[NONCE_LEN - explicit.len()..]);
        let (content, tag) = rest.split_at_mut_checked(length)?;
        Some((*header, content, tag))
    }

    /// Returns the nonce of the next record, the sequence number XORed with the IV (RFC 8446 §5.3).
    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, digit) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= digit;
        }
        nonce
    }

    /// Returns the additional data for TLS 1.2: sequence number, type, version and content length (RFC
    /// 5246 §6.2.3.3).
    fn tls12_data(&self, header: [u8; HEADER_BYTES], length: usize) -> [u8; 13] {
        let length = u16::try_from(length).expect("a record's length field has 16 bits");
        let mut data = [0; 13];
        data[..8].copy_from_slice(&self.sequence.to_be_bytes());
        data[8..11].copy_from_slice(&header[..3]);
        data[11..].copy_from_slice(&length.to_be_bytes());
        data
    }
}

/// Parses the length of the record at the start of `input` including the header, or `None` if the header is
/// incomplete.
pub(super) fn length(input: &[u8]) -> Option<usize> {
    match input {
        [_, _, _, high, low, ..] => Some(HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low]))),
        _ => None,
    }
}
