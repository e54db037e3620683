//! Verified fingerprints: names that contain a digest of the file's own content.
//!
//! Build tools use names such as `app-3f9a1c02.js` to allow clients to keep a copy forever. Before we trust such a name, we have
//! to hash the content and check that the name contains the start of the digest.
//!
//! However, some tools hash other things, for example their input, or the content before other names are inserted. We are not
//! able to verify such names here, see the module `bundles` instead.
//!
//! # Probability of a false match
//!
//! The weakest token has 8 hexadecimal digits, that is, 32 bits. For each content, there are 12 byte strings: 9 digests, of which
//! 3 are integers that tools can write in either byte order. The probability for an unrelated name to match is therefore 12 /
//! 2^32, or one in 358 million. All other tokens have at least 36 bits (in base 36, which encodes an integer, the first digit may
//! contain almost no information: 7 * 5.17), and together they add about two hundredths to that.

use std::borrow::Cow;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use xxhash_rust::xxh3::Xxh3;
use xxhash_rust::xxh64::Xxh64;

/// Minimum length of a token in characters. See the probability above.
const TOKEN_LEN_MIN: usize = 8;

/// The longest digest is SHA-512 in hexadecimal.
const TOKEN_LEN_MAX: usize = 128;

/// A name that may contain a digest.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    name: &'a [u8],
}

impl<'a> Candidate<'a> {
    /// Looks for a token that might be a digest. It must have at least 8 letters and digits (for base64url, also `-` and `_`)
    /// and must be enclosed by separators, i.e. `.`, `-`, `_` or the ends of the name.
    ///
    /// Words such as `getting-started` and `Introduction` are excluded. Unfortunately, this also excludes digests with
    /// lower-case letters only, e.g. 7 in 100 of those in base 36, so such files will be cached for less time.
    pub fn in_name(file_name: &'a [u8]) -> Option<Candidate<'a>> {
        let has_plain_token = file_name.split(|&byte| is_separator(byte)).any(|token| {
            token.len() >= TOKEN_LEN_MIN && token.len() <= TOKEN_LEN_MAX && could_be_digest(token)
        });
        let mut dotted = file_name.split(|&byte| byte == b'.');
        (has_plain_token || dotted.any(has_base64url_token)).then_some(Candidate { name: file_name })
    }

    /// Starts hashing the content.
    pub fn start(self) -> Check<'a> {
        Check {
            name: self.name,
            md5: Md5::new(),
            sha1: Sha1::new(),
            sha256: Sha256::new(),
            sha384: Sha384::new(),
            sha512: Sha512::new(),
            blake3: blake3::Hasher::new(),
            xxh64: Xxh64::new(0),
            xxh3: Xxh3::new(),
        }
    }
}

/// Hashes a content to be able to compare it with its name. This takes about 5 kB of memory.
pub struct Check<'a> {
    name: &'a [u8],
    md5: Md5,
    sha1: Sha1,
    sha256: Sha256,
    sha384: Sha384,
    sha512: Sha512,
    blake3: blake3::Hasher,
    xxh64: Xxh64,
    xxh3: Xxh3,
}

impl Check<'_> {
    /// Hashes the next bytes of the content.
    pub fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        self.sha1.update(bytes);
        self.sha256.update(bytes);
        self.sha384.update(bytes);
        self.sha512.update(bytes);
        self.blake3.update(bytes);
        self.xxh64.update(bytes);
        self.xxh3.update(bytes);
    }

    /// If the name contains a digest, returns its algorithm.
    pub fn finish(self) -> Option<&'static str> {
        let Check { name, md5, sha1, sha256, sha384, sha512, blake3, xxh64, xxh3 } = self;
        let is_in_name = |digest: &[u8]| name_carries(name, digest);

        // Tools may write integers in either byte order.
        let is_in_either_order = |digest: &[u8]| {
            let reversed: Vec<u8> = digest.iter().rev().copied().collect();
            is_in_name(digest) || is_in_name(&reversed)
        };

        if is_in_name(&md5.finalize()) {
            Some("MD5")
        } else if is_in_name(&sha1.finalize()) {
            Some("SHA-1")
        } else if is_in_name(&sha256.finalize()) {
            Some("SHA-256")
        } else if is_in_name(&sha384.finalize()) {
            Some("SHA-384")
        } else if is_in_name(&sha512.finalize()) {
            Some("SHA-512")
        } else if is_in_name(blake3.finalize().as_bytes()) {
            Some("BLAKE3")
        } else if is_in_either_order(&xxh64.digest().to_be_bytes()) {
            Some("XXH64")
        } else if is_in_either_order(&xxh3.digest().to_be_bytes()) {
            Some("XXH3-64")
        } else if is_in_either_order(&xxh3.digest128().to_be_bytes()) {
            Some("XXH3-128")
        } else {
            None
        }
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'.' | b'-' | b'_')
}

/// Returns `true` for letters and digits, unless they are a lower-case word.
fn could_be_digest(token: &[u8]) -> bool {
    let is_word = token.iter().skip(1).all(u8::is_ascii_lowercase);
    let is_hex = token.iter().all(u8::is_ascii_hexdigit);
    token.iter().all(u8::is_ascii_alphanumeric) && (is_hex || !is_word)
}

/// Whether `-` or `_` may be base64url digits.
///
/// We assume this when a capital follows a lower-case letter or a digit. That is common in digests but rare in
/// titles.
fn has_base64url_token(part: &[u8]) -> bool {
    let is_mixed = part.windows(2).any(|pair| {
        pair[1].is_ascii_uppercase() && (pair[0].is_ascii_lowercase() || pair[0].is_ascii_digit())
            || pair[1].is_ascii_digit() && pair[0].is_ascii_alphabetic()
    });
    part.len() >= TOKEN_LEN_MIN && part.iter().any(|&byte| matches!(byte, b'-' | b'_')) && is_mixed
}

fn name_carries(name: &[u8], digest: &[u8]) -> bool {
    let hex = in_bits(digest, 4, b"0123456789abcdef");
    carries_any_case(name, &hex)
        || carries_one_case(name, &in_bits(digest, 5, BASE32))
        || carries(name, &in_bits(digest, 6, BASE64URL))
        // Rollup uses these digits for integers.
        || carries(name, &in_base(digest, BASE64URL))
        || carries_one_case(name, &in_base(digest, BASE36))
        || carries(name, &in_base(digest, BASE62_UPPER_FIRST))
        || carries(name, &in_base(digest, BASE62_LOWER_FIRST))
}

/// RFC 4648 §6, but in lower case. The next one is §5.
const BASE32: &[u8] = b"abcdefghijklmnopqrstuvwxyz234567";
const BASE64URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The digits of JavaScript's `toString(36)`.
const BASE36: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// There are two orders of digits for base 62.
const BASE62_UPPER_FIRST: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BASE62_LOWER_FIRST: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Whether one of the name's tokens is a prefix of `encoded`.
fn carries(name: &[u8], encoded: &[u8]) -> bool {
    (0..name.len())
        .filter(|&start| start == 0 || is_separator(name[start - 1]))
        .any(|start| begins_with_token(&name[start..], encoded))
}

/// Whether a prefix of `rest` that ends at a separator is also a prefix of `encoded`.
///
/// A separator might also be a base64url digit, so we need to try each of them.
fn begins_with_token(rest: &[u8], encoded: &[u8]) -> bool {
    let shared = rest.iter().zip(encoded).take_while(|(a, b)| a == b).count();
    (TOKEN_LEN_MIN..=shared).any(|end| rest.get(end).is_none_or(|&byte| is_separator(byte)))
}

fn carries_any_case(name: &[u8], lower: &[u8]) -> bool {
    carries(&name.to_ascii_lowercase(), lower)
}

fn carries_one_case(name: &[u8], lower: &[u8]) -> bool {
    carries(name, lower) || carries(name, &lower.to_ascii_uppercase())
}

/// Encodes bytes in groups of `width` bits without padding, most significant bit first (RFC 4648 §3.2). The alphabet must have
/// `2^width` letters.
fn in_bits(bytes: &[u8], width: u32, alphabet: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(bytes.len() * 2);
    let mut pending: usize = 0;
    let mut pending_bits = 0;
    for &byte in bytes {
        pending = pending << 8 | usize::from(byte);
        pending_bits += 8;
        while pending_bits >= width {
            pending_bits -= width;
            encoded.push(alphabet[pending >> pending_bits]);
            pending &= (1 << pending_bits) - 1;
        }
    }
    if pending_bits > 0 {
        encoded.push(alphabet[pending << (width - pending_bits)]);
    }
    encoded
}

/// Encodes bytes as a single big-endian integer without leading zeros.
fn in_base(bytes: &[u8], alphabet: &[u8]) -> Vec<u8> {
    let mut rest: Cow<'_, [u8]> = Cow::Borrowed(bytes);
    let mut encoded = Vec::new();
    while rest.iter().any(|&byte| byte != 0) {
        let mut remainder = 0;
        for byte in rest.to_mut() {
            let dividend = remainder << 8 | usize::from(*byte);
            remainder = dividend % alphabet.len();
            // The remainder is smaller than the divisor, so the quotient fits into a byte.
            *byte = u8::try_from(dividend / alphabet.len()).expect("the quotient is below 256");
        }
        encoded.push(alphabet[remainder]);
    }
    encoded.reverse();
    encoded
}

#[cfg(test)]
mod tests;
