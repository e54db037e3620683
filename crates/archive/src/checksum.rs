//! BLAKE3 digests of contents and archives, and entity tags derived from them.
//!
//! None of this happens on the request path: we encode entity tags when we write the archive.

use std::fmt;

use cannery_base::hex::Hex;

/// A BLAKE3 digest. We treat contents as equal if their digests are equal.
// Exhaustive: the format of an archive fixes its length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; Digest::BYTES]);

impl Digest {
    /// Length of a digest in bytes.
    pub const BYTES: usize = 32;

    /// Computes the digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// Returns the strong entity tag for a representation with this digest (RFC 9110 §8.8.3), without quotes.
    // Not for programs, which get whole entity tags.
    #[doc(hidden)]
    #[must_use]
    pub fn etag(&self) -> ETag {
        ETag::encode(self)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The 16 characters between the quotes of an entity tag, encoding the first 96 bits of the representation's digest as base64url.
///
/// Among a billion different contents, the probability that any two have the same tag is about 1 in 10^11. Even then, it would only
/// matter if both were served at the same URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ETag(pub [u8; ETag::BYTES]);

impl ETag {
    /// Length of the tag in bytes, without its quotes.
    pub const BYTES: usize = 16;

    fn encode(digest: &Digest) -> ETag {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut tag = [0; ETag::BYTES];
        for (three, four) in digest.0.chunks_exact(3).zip(tag.chunks_exact_mut(4)) {
            let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
            for (i, character) in four.iter_mut().enumerate() {
                *character = ALPHABET[(bits >> (18 - 6 * i)) as usize & 63];
            }
        }
        ETag(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etag_is_base64url_of_first_96_bits() {
        let mut digest = Digest([0; 32]);
        digest.0[..12].copy_from_slice(&[0, 16, 131, 16, 81, 135, 32, 146, 139, 255, 239, 191]);
        assert_eq!(&digest.etag().0, b"ABCDEFGHIJKL_--_");
    }

    #[test]
    fn digest_is_displayed_as_hex() {
        // From the BLAKE3 test vectors.
        assert_eq!(
            Digest::of(b"").to_string(),
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
    }
}
