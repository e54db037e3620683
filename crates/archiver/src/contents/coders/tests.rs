//! Unit tests of encoders and decoders.

use super::*;

const CODED: [Encoder; 4] = [Encoder::Gzip, Encoder::Zopfli, Encoder::Brotli, Encoder::Zstd];

fn contents() -> Vec<Vec<u8>> {
    let words = b"once upon a time there was a tin that never opened ".repeat(300);
    let noise: Vec<u8> = blake3::Hasher::new().update(b"noise").finalize_xof().take_bytes(5000);
    vec![Vec::new(), vec![7], words, noise, vec![0; 70_000]]
}

trait TakeBytes {
    fn take_bytes(self, count: usize) -> Vec<u8>;
}

impl TakeBytes for blake3::OutputReader {
    fn take_bytes(mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes);
        bytes
    }
}

#[test]
fn every_encoder_is_correct_and_deterministic_at_every_level() {
    for encoder in CODED {
        for level in [1, 6, -1] {
            let mut levels = Levels::default();
            levels.set(encoder, level).unwrap();
            for content in contents() {
                let once = Coders::new(levels).encode(encoder, &content).unwrap();
                let mut used = Coders::new(levels);
                used.encode(encoder, b"something else before").unwrap();
                assert_eq!(used.encode(encoder, &content).unwrap(), once, "{} {level}", encoder.name());
            }
        }
    }
}

#[test]
fn wrong_result_is_detected() {
    let mut coders = Coders::new(Levels::default());
    let content = b"the same and the same and the same and the same".repeat(20);
    for encoder in CODED {
        let mut coded = coders.encode(encoder, &content).unwrap();
        assert!(coders.reproduces(coding(encoder), &coded, &content));
        assert!(!coders.reproduces(coding(encoder), &coded, &content[1..]), "{}", encoder.name());
        coded.pop();
        assert!(!coders.reproduces(coding(encoder), &coded, &content), "{}", encoder.name());
    }
}

#[test]
fn only_an_exact_encoding_is_accepted() {
    let mut coders = Coders::new(Levels::default());
    let content = b"the same and the same and the same and the same".repeat(20);
    let digest = Digest::of(&content);
    for encoder in CODED {
        let name = encoder.name();
        let coding = coding(encoder);
        let coded = coders.encode(encoder, &content).unwrap();
        let other = coders.encode(encoder, &b"another content".repeat(40)).unwrap();
        let twice = [coded.as_slice(), coded.as_slice()].concat();
        let followed = [coded.as_slice(), b"x"].concat();
        assert!(coders.decodes_to(coding, &coded, content.len(), &digest), "{name}");
        assert!(!coders.decodes_to(coding, &coded, content.len() - 1, &digest), "{name}: too long");
        assert!(!coders.decodes_to(coding, &coded, content.len() + 1, &digest), "{name}: too short");
        assert!(!coders.decodes_to(coding, &other, content.len(), &digest), "{name}: another content");
        assert!(!coders.decodes_to(coding, &twice, content.len(), &digest), "{name}: a second stream");
        assert!(!coders.decodes_to(coding, &followed, content.len(), &digest), "{name}: a byte follows");
        assert!(!coders.decodes_to(coding, &coded[..coded.len() - 1], content.len(), &digest), "{name}: cut");
        assert!(!coders.decodes_to(coding, b"", content.len(), &digest), "{name}: empty");
    }
}

#[test]
fn gzip_has_neither_name_nor_time() {
    let mut coders = Coders::new(Levels::default());
    for encoder in [Encoder::Gzip, Encoder::Zopfli] {
        let coded = coders.encode(encoder, b"content").unwrap();
        // RFC 1952 §2.3: ID1 ID2 CM FLG MTIME.
        assert_eq!(coded[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0], "{}", encoder.name());
    }
}

#[test]
fn brotli_window_is_the_smallest_that_spans_the_content() {
    assert_eq!(brotli_window_bits(0), 10);
    assert_eq!(brotli_window_bits(1008), 10);
    assert_eq!(brotli_window_bits(1009), 11);
    assert_eq!(brotli_window_bits((1 << 22) - 16), 22);
    assert_eq!(brotli_window_bits(1 << 30), 24);
}

#[test]
fn zstd_window_is_at_most_eight_mebibytes() {
    let mut levels = Levels::default();
    levels.set(Encoder::Zstd, 22).unwrap();
    let coded = Coders::new(levels).encode(Encoder::Zstd, &vec![1; 20 << 20]).unwrap();
    // RFC 8878 §3.1.1.1: the frame header descriptor, then the window descriptor.
    let is_single_segment = coded[4] & 0x20 != 0;
    assert!(!is_single_segment, "a single segment would be as large as the content");
    assert_eq!(10 + u32::from(coded[5] >> 3), ZSTD_WINDOW_BITS_MAX);
}

#[test]
fn versions_match_the_dependencies() {
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
    for (_, version) in VERSIONS {
        let (name, number) = version.rsplit_once('-').unwrap();
        let entry = format!("name = \"{name}\"\nversion = \"{number}\"");
        assert!(lock.contains(&entry), "{version} is not what Cargo.lock says: update VERSIONS");
    }
}
