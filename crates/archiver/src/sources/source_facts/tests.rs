//! Unit tests of the facts: fingerprints, compressibility, UTF-8 and digests.

use proptest::prelude::*;

use super::*;

fn facts(name: &str, content: &[u8], piece_bytes: usize) -> SourceFacts {
    let mut examination = Examination::begin(name.as_bytes(), true);
    content.chunks(piece_bytes).for_each(|piece| examination.take(piece));
    examination.finish()
}

#[test]
fn fingerprint_must_match_the_content() {
    let digest = Digest::of(b"content").to_string();
    assert!(facts(&format!("app-{}.js", &digest[..10]), b"content", 3).fingerprinted);
    assert!(!facts(&format!("app-{}.js", &digest[..10]), b"other", 3).fingerprinted);
    assert!(!facts("app.js", b"content", 3).fingerprinted);
}

#[test]
fn compressible_contents_are_detected() {
    let noise: Vec<u8> = {
        let mut bytes = vec![0; 100_000];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    };
    assert_eq!(facts("x", &noise, 1000).probe, Probe::Incompressible);
    assert_eq!(facts("x", &b"all the same ".repeat(9000), 1000).probe, Probe::Compressible);
    assert_eq!(facts("x", b"", 1).probe, Probe::Incompressible);
    assert_eq!(Examination::begin(b"x", false).finish().probe, Probe::Missing);
}

/// Browsers showed their pages as UTF-8, whatever `<meta charset>` says.
#[test]
fn encodings_whose_bytes_are_valid_utf8_are_detected() {
    let utf16: Vec<u8> = "<p>text</p>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf16_be: Vec<u8> = "<p>text</p>".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let late_zero = [&b" ".repeat(1024)[..], b"\0"].concat();
    let cases: [(&[u8], bool); 12] = [
        (&utf16, false),
        (&utf16_be, false),
        (b"<meta charset=iso-2022-jp>\x1b$B$\"\x1b(B", false),
        (b"\x1b$@$\"\x1b(J", false),
        (b"\x1b\x1b(I1", false),
        (b"<meta charset=iso-2022-jp>text", true),
        (b"\x1b[1mbold\x1b(B\x1b[m", true),
        (b"\x1b$ B", true),
        ("\x1b$B and ä".as_bytes(), true),
        (&late_zero, true),
        ("日本".as_bytes(), true),
        (b"", true),
    ];
    for (content, is_utf8) in cases {
        for piece_bytes in [1, 2, 3, 5000] {
            assert_eq!(facts("x", content, piece_bytes).utf8, is_utf8, "{}", content.escape_ascii());
        }
    }
}

proptest! {
    #[test]
    fn utf8_is_judged_alike_in_pieces_of_any_size(
        text in "[a-zä€😀]{0,20}",
        odd in proptest::collection::vec(1u8.., 0..3),
        piece_bytes in 1usize..6,
    ) {
        let content = [text.as_bytes(), &odd, b"z"].concat();
        prop_assert_eq!(facts("x", &content, piece_bytes).utf8, std::str::from_utf8(&content).is_ok());
        let cut = &text.as_bytes()[..text.len().saturating_sub(1)];
        prop_assert_eq!(facts("x", cut, piece_bytes).utf8, std::str::from_utf8(cut).is_ok());
    }

    #[test]
    fn the_digest_is_that_of_the_whole(content: Vec<u8>, piece_bytes in 1usize..6) {
        prop_assert_eq!(facts("x", &content, piece_bytes).digest, Digest::of(&content));
    }
}
