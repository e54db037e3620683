//! Verified fingerprints: names that contain a digest of the file's own content.
//!
//! Build tools write names such as `app-3f9a1c02.js`, so that clients may keep a copy forever. We trust such a name only
//! after hashing the content and finding that the name contains the start of the digest.
//!
//! Tools that hash something else (their input, or the content before other names were inserted) write names that can't be
//! verified here; see the module `bundles`.
//!
//! # Probability of a false match
//!
//! The weakest token is 8 hexadecimal digits, which are 32 bits. A content yields 12 byte strings (9 digests, of which 3
//! are integers that tools write in either byte order), so an unrelated name of that kind matches with a probability of 12
//! / 2^32, one in 358 million. All other tokens have at least 36 bits (base 36 encodes an integer, and its first digit may
//! have almost no information: 7 * 5.17), and together they add about two hundredths to that probability.

use std::borrow::Cow;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use xxhash_rust::xxh3::Xxh3;
use xxhash_rust::xxh64::Xxh64;

/// Minimum length of a token in characters; see the probability above.
const TOKEN_LEN_MIN: usize = 8;

/// SHA-512 in hexadecimal is the longest digest.
const TOKEN_LEN_MAX: usize = 128;

/// A name that may contain a digest.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    name: &'a [u8],
}

impl<'a> Candidate<'a> {
    /// Looks for a token that could be a digest: at least 8 letters and digits (and, for base64url, `-` and `_`) between
    /// separators, which are `.`, `-`, `_` and the ends of the name.
    ///
    /// Words such as `getting-started` and `Introduction` are excluded. This also excludes digests of lower-case letters
    /// only (7 in 100 of those in base 36), which are cached for less time.
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

/// A content that is being hashed to compare it with its name. Takes about 5 kB.
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

    /// Returns the algorithm of the digest in the name, if there is one.
    pub fn finish(self) -> Option<&'static str> {
        let Check { name, md5, sha1, sha256, sha384, sha512, blake3, xxh64, xxh3 } = self;
        let is_in_name = |digest: &[u8]| name_carries(name, digest);
        // Tools write integers in either byte order.
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

/// Returns `true` for letters and digits that aren't a lower-case word.
fn could_be_digest(token: &[u8]) -> bool {
    let is_word = token.iter().skip(1).all(u8::is_ascii_lowercase);
    let is_hex = token.iter().all(u8::is_ascii_hexdigit);
    token.iter().all(u8::is_ascii_alphanumeric) && (is_hex || !is_word)
}

/// Returns `true` if `-` or `_` may be base64url digits: a capital follows a small letter or a digit, as in a digest and
/// rarely in a title.
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
        || carries_one_case(name, &in_base(digest, BASE36))
        || carries(name, &in_base(digest, BASE62_UPPER_FIRST))
        || carries(name, &in_base(digest, BASE62_LOWER_FIRST))
}

/// RFC 4648 §6, in lower case here; §5 below.
const BASE32: &[u8] = b"abcdefghijklmnopqrstuvwxyz234567";
const BASE64URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The digits of JavaScript's `toString(36)`.
const BASE36: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// Both orders of base 62 are in use.
const BASE62_UPPER_FIRST: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BASE62_LOWER_FIRST: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Returns `true` if a token of the name is a prefix of `encoded`.
fn carries(name: &[u8], encoded: &[u8]) -> bool {
    (0..name.len())
        .filter(|&start| start == 0 || is_separator(name[start - 1]))
        .any(|start| begins_with_token(&name[start..], encoded))
}

/// Returns `true` if a prefix of `rest` that ends at a separator is a prefix of `encoded`. We try every separator, because
/// it may be a base64url digit.
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

/// Encodes bytes in groups of `width` bits, most significant bit first, without padding (RFC 4648 §3.2). The alphabet has
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

/// Encodes bytes as one big-endian integer, without leading zeros.
fn in_base(bytes: &[u8], alphabet: &[u8]) -> Vec<u8> {
    let mut rest: Cow<'_, [u8]> = Cow::Borrowed(bytes);
    let mut encoded = Vec::new();
    while rest.iter().any(|&byte| byte != 0) {
        let mut remainder = 0;
        for byte in rest.to_mut() {
            let dividend = remainder << 8 | usize::from(*byte);
            remainder = dividend % alphabet.len();
            // The remainder was below the divisor, so the quotient fits a byte.
            *byte = u8::try_from(dividend / alphabet.len()).expect("the quotient is below 256");
        }
        encoded.push(alphabet[remainder]);
    }
    encoded.reverse();
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn algorithm(name: &str, content: &[u8]) -> Option<&'static str> {
        let mut check = Candidate::in_name(name.as_bytes())?.start();
        // Two pieces show that the split doesn't matter.
        let (first, second) = content.split_at(content.len() / 2);
        check.update(first);
        check.update(second);
        check.finish()
    }

    #[test]
    fn each_algorithm_is_recognized() {
        // Prefixes of the published digests of "abc".
        let cases = [
            ("900150983cd24fb0d6963f7d28e17f72", "MD5"),
            ("a9993e364706816aba3e25717850c26c9cd0d89d", "SHA-1"),
            ("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "SHA-256"),
            ("cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed", "SHA-384"),
            ("ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a", "SHA-512"),
            ("6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85", "BLAKE3"),
            ("44bc2cf5ad770999", "XXH64"),
            ("78af5f94892f3950", "XXH3-64"),
            ("06b05ab6733a618578af5f94892f3950", "XXH3-128"),
        ];
        for (digest, expected) in cases {
            for len in [8, 12, digest.len()] {
                let token = &digest[..len];
                assert_eq!(algorithm(&format!("app.{token}.min.js"), b"abc"), Some(expected), "{token}");
                assert_eq!(algorithm(&format!("app-{}.js", token.to_uppercase()), b"abc"), Some(expected));
                assert_eq!(algorithm(&format!("{token}.js"), b"abc"), Some(expected));
                assert_eq!(algorithm(token, b"abc"), Some(expected));
            }
        }
    }

    #[test]
    fn each_encoding_is_recognized() {
        // SHA-256 of "abc", encoded by Python's base64 module.
        let sha256 = [
            "XJ4BNP4PAHH6UQKBIDPF3LRCEOYAGYNDSYLXVHFUCD7WD4QACWWQ",
            "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0",
        ];
        for encoded in sha256 {
            for len in [8, 16, encoded.len()] {
                assert_eq!(
                    algorithm(&format!("a-{}.js", &encoded[..len]), b"abc"),
                    Some("SHA-256"),
                    "{encoded}"
                );
            }
        }
        assert_eq!(algorithm("a_xj4bnp4pahh6uqkb.css", b"abc"), Some("SHA-256"));
        // XXH64 of "abc" as a 64-bit integer, converted by Python.
        for token in ["11mo2jbx36f89", "5tsFwslE9e5", "5TSfWSLe9E5"] {
            assert_eq!(algorithm(&format!("a-{token}.js"), b"abc"), Some("XXH64"), "{token}");
        }
    }

    #[test]
    fn integers_are_recognized_in_either_byte_order() {
        assert_eq!(algorithm("a-999077adf52cbc44.js", b"abc"), None);
        assert_eq!(algorithm("a-990977adf52cbc44.js", b"abc"), Some("XXH64"));
    }

    #[test]
    fn separators_within_base64url_are_digits() {
        // SHA-256 of "abc" in base64url, cut after a `-` that is part of it.
        assert_eq!(algorithm("app-ungWv48Bz-p.js", b"abc"), Some("SHA-256"));
        assert_eq!(algorithm("app-ungWv48Bz-.js", b"abc"), Some("SHA-256"));
    }

    #[test]
    fn digest_of_another_content_is_not_a_fingerprint() {
        assert_eq!(algorithm("app.900150983cd24fb0.js", b"abd"), None);
        assert_eq!(algorithm("app.900150983cd24fb1.js", b"abc"), None);
        // Seven digits are too few, and a token must be a prefix of the digest from start to end.
        assert_eq!(algorithm("app.9001509.js", b"abc"), None);
        assert_eq!(algorithm("app.x900150983.js", b"abc"), None);
        assert_eq!(algorithm("app.900150983x.js", b"abc"), None);
        assert_eq!(algorithm("app.00150983cd24.js", b"abc"), None);
    }

    #[test]
    fn words_are_excluded() {
        for name in
            ["index.html", "installation.html", "Introduction.pdf", "getting-started.html", "a", "", "..."]
        {
            assert!(Candidate::in_name(name.as_bytes()).is_none(), "{name}");
        }
        assert!(Candidate::in_name(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff").is_none());
        assert!(Candidate::in_name(b"deadbeef.js").is_some());
        assert!(Candidate::in_name(b"index-B5Qt_x-9.js").is_some());
    }

    #[test]
    fn bit_groups_are_encoded_as_in_rfc_4648() {
        // RFC 4648 §10, without the padding.
        let base32 =
            |bytes: &[u8]| String::from_utf8(in_bits(bytes, 5, BASE32).to_ascii_uppercase()).unwrap();
        let base64 = |bytes: &[u8]| String::from_utf8(in_bits(bytes, 6, BASE64URL)).unwrap();
        let cases = [
            ("", "", ""),
            ("f", "MY", "Zg"),
            ("fo", "MZXQ", "Zm8"),
            ("foo", "MZXW6", "Zm9v"),
            ("foob", "MZXW6YQ", "Zm9vYg"),
            ("fooba", "MZXW6YTB", "Zm9vYmE"),
            ("foobar", "MZXW6YTBOI", "Zm9vYmFy"),
        ];
        for (plain, in_base32, in_base64) in cases {
            assert_eq!((&*base32(plain.as_bytes()), &*base64(plain.as_bytes())), (in_base32, in_base64));
        }
    }

    #[test]
    fn integers_are_encoded_without_leading_zeros() {
        assert_eq!(in_base(&[0, 0], BASE36), b"");
        assert_eq!(in_base(&[0, 35], BASE36), b"z");
        assert_eq!(in_base(&[4, 208], BASE36), b"y8");
        assert_eq!(in_base(&[1, 0], BASE62_UPPER_FIRST), b"48");
        // JavaScript: (2n ** 64n - 1n).toString(36)
        assert_eq!(in_base(&[255; 8], BASE36), b"3w5e11264sgsf");
    }
}
