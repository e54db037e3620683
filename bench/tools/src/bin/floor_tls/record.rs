//! TLS 1.3 records and the keys of one direction (RFC 8446, sections 5 and 7).

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;

use crate::Refusal;

pub(crate) const HEADER_BYTES: usize = 5;

/// Content of one record, at most.
pub(crate) const CONTENT_BYTES_MAX: usize = 1 << 14;

/// One record, at most: header, content, type, padding and tag.
pub(crate) const RECORD_BYTES_MAX: usize = HEADER_BYTES + CONTENT_BYTES_MAX + 256;

// Content types.
pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const APPLICATION_DATA: u8 = 23;

const HASH_BYTES: usize = 32;
const KEY_BYTES: usize = 16;
const TAG_BYTES: usize = 16;

pub(crate) type Secret = [u8; HASH_BYTES];

pub(crate) fn hmac(key: &[u8], text: &[u8]) -> Secret {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// HKDF-Expand-Label, for up to 32 bytes.
pub(crate) fn expand<const N: usize>(secret: &Secret, label: &str, context: &[u8]) -> [u8; N] {
    let mut info = vec![0, u8::try_from(N).expect("at most 32")];
    info.push(u8::try_from(6 + label.len()).expect("labels are short"));
    info.extend_from_slice(b"tls13 ");
    info.extend_from_slice(label.as_bytes());
    info.push(u8::try_from(context.len()).expect("contexts are hashes"));
    info.extend_from_slice(context);
    // The first block of HKDF-Expand has this number.
    info.push(1);
    hmac(secret, &info)[..N].try_into().expect("at most 32")
}

/// The key of one direction, and the number of its next record.
pub(crate) struct Keys {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
}

impl Keys {
    /// Derives the keys of a traffic secret.
    pub(crate) fn new(secret: &Secret) -> Keys {
        let key: [u8; KEY_BYTES] = expand(secret, "key", &[]);
        let key = UnboundKey::new(&AES_128_GCM, &key).expect("the key has its length");
        Keys { key: LessSafeKey::new(key), iv: expand(secret, "iv", &[]), sequence: 0 }
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Decrypts a record in place. Returns the type and the place of its content.
    pub(crate) fn open(&mut self, record: &mut [u8]) -> Result<(u8, usize), Refusal> {
        let (header, sealed) = record.split_at_mut(HEADER_BYTES);
        let nonce = self.nonce();
        let opened =
            self.key.open_in_place(nonce, Aad::from(&*header), sealed).map_err(|_| "a forged record")?;
        // Padding is zeros after the type.
        let last = opened.iter().rposition(|byte| *byte != 0).ok_or("a record without type")?;
        Ok((opened[last], last))
    }

    /// Appends records with this content.
    pub(crate) fn seal(&mut self, content_type: u8, content: &[u8], output: &mut Vec<u8>) {
        for part in content.chunks(CONTENT_BYTES_MAX) {
            let length = u16::try_from(part.len() + 1 + TAG_BYTES).expect("a part fits in a record");
            let [high, low] = length.to_be_bytes();
            let header = [APPLICATION_DATA, 3, 3, high, low];
            output.extend_from_slice(&header);
            let start = output.len();
            output.extend_from_slice(part);
            output.push(content_type);
            let nonce = self.nonce();
            let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(&header), &mut output[start..]);
            output.extend_from_slice(tag.expect("a part fits in a record").as_ref());
        }
    }
}
