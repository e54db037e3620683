//! Unit tests of fingerprints in file names.

use super::*;

fn algorithm(name: &str, content: &[u8]) -> Option<&'static str> {
    let mut check = Candidate::in_name(name.as_bytes())?.start();
    // There are two pieces, to show that the split doesn't matter.
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
            assert_eq!(algorithm(&format!("a-{}.js", &encoded[..len]), b"abc"), Some("SHA-256"), "{encoded}");
        }
    }
    assert_eq!(algorithm("a_xj4bnp4pahh6uqkb.css", b"abc"), Some("SHA-256"));
    // XXH64 of "abc" as a 64-bit integer, converted by Python.
    for token in ["11mo2jbx36f89", "5tsFwslE9e5", "5TSfWSLe9E5"] {
        assert_eq!(algorithm(&format!("a-{token}.js"), b"abc"), Some("XXH64"), "{token}");
    }
}

/// It used to be the case that clients could only keep images and documents from Vite for an hour.
#[test]
fn names_of_assets_in_rollup_are_recognized() {
    // XXH3-128 of "content" as a 128-bit integer in little-endian byte order, converted by Python.
    let encoded = "CMVtmIIy16spXBTyd0En6R";
    for len in [8, encoded.len()] {
        let name = format!("photo-{}.jpg", &encoded[..len]);
        assert_eq!(algorithm(&name, b"content"), Some("XXH3-128"), "{name}");
        assert_eq!(algorithm(&name, b"other"), None, "{name}");
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
    // Seven digits aren't enough. Moreover, the whole token must be a prefix of the digest.
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
    let base32 = |bytes: &[u8]| String::from_utf8(in_bits(bytes, 5, BASE32).to_ascii_uppercase()).unwrap();
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
