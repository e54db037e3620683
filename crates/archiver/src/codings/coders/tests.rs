//! Unit tests of encoders and decoders.

use std::io;

use super::*;
use crate::ENCODED_BYTES_MAX;
use libdeflater::{CompressionLvl, Compressor};

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
        assert!(coders.reproduces(encoder.coding(), &coded, &content));
        assert!(!coders.reproduces(encoder.coding(), &coded, &content[1..]), "{}", encoder.name());
        coded.pop();
        assert!(!coders.reproduces(encoder.coding(), &coded, &content), "{}", encoder.name());
    }
}

#[test]
fn only_an_exact_encoding_is_accepted() {
    let mut coders = Coders::new(Levels::default());
    let content = b"the same and the same and the same and the same".repeat(20);
    let digest = Digest::of(&content);
    for encoder in CODED {
        let name = encoder.name();
        let coding = encoder.coding();
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

const CONTENT: &[u8] = b"canned canned canned canned canned canned answers";

fn coded_by_library(coding: Coding) -> Vec<u8> {
    let mut out = vec![0; 1000];
    let length = match coding {
        Coding::Identity => return CONTENT.to_vec(),
        Coding::Gzip => Compressor::new(CompressionLvl::default()).gzip_compress(CONTENT, &mut out).unwrap(),
        Coding::Brotli => {
            let mut coded = Vec::new();
            ::brotli::BrotliCompress(&mut &CONTENT[..], &mut coded, &Default::default()).unwrap();
            return coded;
        }
        Coding::Zstd => zstd_safe::compress(&mut out[..], CONTENT, 3).unwrap(),
    };
    out.truncate(length);
    out
}

#[test]
fn every_coding_round_trips() {
    for coding in Coding::ALL {
        assert_eq!(
            decode(coding, &coded_by_library(coding), ENCODED_BYTES_MAX).unwrap(),
            CONTENT,
            "{}",
            coding.name()
        );
    }
}

#[test]
fn truncated_bodies_are_damaged() {
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        let body = coded_by_library(coding);
        for length in 0..body.len() {
            assert!(
                decode(coding, &body[..length], ENCODED_BYTES_MAX).is_err(),
                "{} cut to {length}",
                coding.name()
            );
        }
    }
}

#[test]
fn a_decompression_bomb_is_refused() {
    let zeros = || io::Read::take(io::repeat(0), ENCODED_BYTES_MAX + 1);
    let params = ::brotli::enc::BrotliEncoderParams { quality: 1, ..Default::default() };
    let mut body = Vec::new();
    ::brotli::BrotliCompress(&mut zeros(), &mut body, &params).unwrap();
    assert!(body.len() < 1_000_000, "{}", body.len());
    assert_eq!(decode(Coding::Brotli, &body, ENCODED_BYTES_MAX), Err(DecodeError::TooLong));
}

#[test]
fn an_impossible_length_is_refused() {
    let mut body = coded_by_library(Coding::Gzip);
    let end = body.len() - 4;
    body[end..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(decode(Coding::Gzip, &body, ENCODED_BYTES_MAX), Err(DecodeError::Damaged));
}
