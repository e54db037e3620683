//! A record's protection once the handshake is done: what RFC 8446 §5.2 and RFC 5246 §6.2.3.3 say of nonces, additional
//! data and padding, around the AEAD of the library.
//!
//! This stands here, and is not left to `rustls`, for the copies: there content is copied into a vector of its own before
//! it is sealed and once more behind that, here it goes from where it lies into the bytes that are sent. It knows keys and
//! records, and nothing of what a record says. `rustls` did the handshake and hands the keys over, as it does for those
//! who let the kernel seal.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use rustls::ConnectionTrafficSecrets;

use crate::limits::CONTENT_BYTES_MAX;

/// The types of records (RFC 8446 §5.1).
pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const APPLICATION_DATA: u8 = 23;

/// Type, version, and two bytes of length.
pub(crate) const HEAD_BYTES: usize = 5;

const TAG_BYTES: usize = 16;

/// The nonce's part that AES-GCM in TLS 1.2 writes before the content (RFC 5288 §3).
const EXPLICIT_NONCE_BYTES: usize = 8;

/// What protected records look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// TLS 1.3: the type is sealed with the content, and nothing stands before it.
    Tls13,
    /// TLS 1.2 with AES-GCM: a part of the nonce before the content.
    Tls12Explicit,
    /// TLS 1.2 with ChaCha20-Poly1305 (RFC 7905).
    Tls12,
}

impl Form {
    /// Bytes between the head of a record and its content.
    fn nonce_bytes(self) -> usize {
        if self == Self::Tls12Explicit { EXPLICIT_NONCE_BYTES } else { 0 }
    }

    /// Bytes of a type that is sealed with the content.
    fn type_bytes(self) -> usize {
        usize::from(self == Self::Tls13)
    }

    /// The longest record that may come, in bytes with its head: RFC 8446 §5.2 lets sealing add 256 bytes to the content,
    /// RFC 5246 §6.2.3 2 KiB.
    pub(crate) fn record_bytes_max(self) -> usize {
        HEAD_BYTES + CONTENT_BYTES_MAX + if self == Self::Tls13 { 256 } else { 2048 }
    }

    /// What a record has beside its content.
    pub(crate) fn overhead(self) -> usize {
        HEAD_BYTES + self.nonce_bytes() + self.type_bytes() + TAG_BYTES
    }
}

/// Why a record is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// It was not sealed with the key, or is not what was sealed, or not the next in order.
    Forged,
    /// More content than a record may have.
    TooLong,
    /// Of a type that cannot be, or of none.
    Untyped,
}

/// One direction's key, and how many records it has protected.
pub(crate) struct Protection {
    form: Form,
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
    /// How many records the key may seal.
    sequence_max: u64,
}

impl Protection {
    /// Takes over a direction in which `sequence` records were protected. `None` for a cipher that is not known here.
    pub(crate) fn new(is_tls13: bool, sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        let (algorithm, key, iv, sequence_max) = match secrets {
            // RFC 8446 §5.5: records of the full length until an attacker's advantage is too great.
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv, 1 << 24),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv, 1 << 24),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv, u64::MAX),
            _ => return None,
        };
        let form = match (is_tls13, algorithm == &CHACHA20_POLY1305) {
            (true, _) => Form::Tls13,
            (false, true) => Form::Tls12,
            (false, false) => Form::Tls12Explicit,
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).ok()?);
        Some(Self { form, key, iv: iv.as_ref().try_into().ok()?, sequence, sequence_max })
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Whether only the last record is left that the key may seal: it must tell of another key, or of the end.
    pub(crate) fn is_used_up(&self) -> bool {
        self.sequence + 1 >= self.sequence_max
    }

    /// Returns how many records the key may still seal.
    pub(crate) fn records_left(&self) -> u64 {
        self.sequence_max.saturating_sub(self.sequence)
    }

    /// Lets the key seal only so many records from here on.
    #[cfg(test)]
    pub(crate) fn limit(&mut self, records: u64) {
        self.sequence_max = self.sequence + records;
    }

    /// Opens a whole record in place, of at most [`Form::record_bytes_max`]. Returns its type and its content.
    pub(crate) fn open<'a>(&mut self, record: &'a mut [u8]) -> Result<(u8, &'a [u8]), Unopened> {
        let (head, sealed) = record.split_first_chunk_mut::<HEAD_BYTES>().ok_or(Unopened::Forged)?;
        if self.form == Form::Tls13 && head[0] != APPLICATION_DATA {
            return Err(Unopened::Untyped);
        }
        let nonce_bytes = self.form.nonce_bytes();
        let length = sealed.len().checked_sub(nonce_bytes + TAG_BYTES).ok_or(Unopened::Forged)?;
        let (explicit, sealed) = sealed.split_at_mut(nonce_bytes);
        // With the type and padding of TLS 1.3 it may be longer, which is seen once those are open.
        if length > CONTENT_BYTES_MAX && self.form != Form::Tls13 {
            return Err(Unopened::TooLong);
        }
        let mut nonce = self.nonce();
        nonce[NONCE_LEN - nonce_bytes..].copy_from_slice(explicit);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = match self.form {
            Form::Tls13 => self.key.open_in_place(nonce, Aad::from(*head), sealed),
            _ => self.key.open_in_place(nonce, Aad::from(self.tls12_data(*head, length)), sealed),
        };
        let content = &*opened.map_err(|_| Unopened::Forged)?;
        self.sequence += 1;
        if self.form != Form::Tls13 {
            return Ok((head[0], content));
        }
        if content.len() > CONTENT_BYTES_MAX + 1 {
            return Err(Unopened::TooLong);
        }
        // Zeros behind the type are padding.
        let end = content.iter().rposition(|&byte| byte != 0).ok_or(Unopened::Untyped)?;
        Ok((content[end], &content[..end]))
    }

    /// Seals `content` into a record of this type. `room` has the length of the record.
    pub(crate) fn seal(&mut self, kind: u8, content: &[u8], room: &mut [u8]) -> Option<()> {
        let (head, sealed, tag) = self.lay_out(kind, room, content.len())?;
        let nonce = Nonce::assume_unique_for_key(self.nonce());
        let kinds = [kind];
        let kinds = &kinds[..self.form.type_bytes()];
        match self.form {
            Form::Tls13 => {
                self.key.seal_out_of_place_scatter(nonce, Aad::from(head), content, sealed, kinds, tag)
            }
            _ => {
                let data = Aad::from(self.tls12_data(head, content.len()));
                self.key.seal_out_of_place_scatter(nonce, data, content, sealed, kinds, tag)
            }
        }
        .ok()?;
        self.sequence += 1;
        Some(())
    }

    /// Seals what `fill` writes into the place of the content, which has the length that `room` leaves it.
    pub(crate) fn seal_gathered(
        &mut self,
        kind: u8,
        room: &mut [u8],
        fill: impl FnOnce(&mut [u8]),
    ) -> Option<()> {
        let length = room.len().checked_sub(self.form.overhead())?;
        let (head, content, tag) = self.lay_out(kind, room, length)?;
        fill(content);
        let nonce = Nonce::assume_unique_for_key(self.nonce());
        let kinds = [kind];
        let kinds = &kinds[..self.form.type_bytes()];
        match self.form {
            Form::Tls13 => self.key.seal_in_place_scatter(nonce, Aad::from(head), content, kinds, tag),
            _ => {
                let data = Aad::from(self.tls12_data(head, length));
                self.key.seal_in_place_scatter(nonce, data, content, kinds, tag)
            }
        }
        .ok()?;
        self.sequence += 1;
        Some(())
    }

    /// Writes the head of a record and what stands before the content. Returns the head, the place of the content and
    /// what follows that; nothing once the key has sealed what it may, so that no nonce comes twice.
    fn lay_out<'a>(
        &self,
        kind: u8,
        room: &'a mut [u8],
        length: usize,
    ) -> Option<([u8; HEAD_BYTES], &'a mut [u8], &'a mut [u8])> {
        if self.sequence >= self.sequence_max {
            return None;
        }
        let (head, rest) = room.split_first_chunk_mut::<HEAD_BYTES>()?;
        let [high, low] = u16::try_from(rest.len()).ok()?.to_be_bytes();
        *head = [if self.form == Form::Tls13 { APPLICATION_DATA } else { kind }, 3, 3, high, low];
        let (explicit, rest) = rest.split_at_mut_checked(self.form.nonce_bytes())?;
        explicit.copy_from_slice(&self.nonce()[NONCE_LEN - explicit.len()..]);
        let (content, tag) = rest.split_at_mut_checked(length)?;
        Some((*head, content, tag))
    }

    /// The nonce of the next record: the number of the record, by exclusive or on what both sides know (RFC 8446 §5.3).
    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, digit) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= digit;
        }
        nonce
    }

    /// The additional data of TLS 1.2: number, type, version, and the length of the content (RFC 5246 §6.2.3.3).
    fn tls12_data(&self, head: [u8; HEAD_BYTES], length: usize) -> [u8; 13] {
        let mut data = [0; 13];
        data[..8].copy_from_slice(&self.sequence.to_be_bytes());
        data[8..11].copy_from_slice(&head[..3]);
        // No record is longer than its own length can say.
        data[11..].copy_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
        data
    }
}

/// The length of the record at the start of `input`, its head included; `None` while that is not there.
pub(crate) fn length(input: &[u8]) -> Option<usize> {
    match input {
        [_, _, _, high, low, ..] => Some(HEAD_BYTES + usize::from(u16::from_be_bytes([*high, *low]))),
        _ => None,
    }
}
