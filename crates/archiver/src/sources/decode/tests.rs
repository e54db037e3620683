//! Tests of the decoders.

use super::*;
use crate::ENCODED_BYTES_MAX;
use libdeflater::{CompressionLvl, Compressor};

const CONTENT: &[u8] = b"canned canned canned canned canned canned answers";

fn coded(coding: Coding) -> Vec<u8> {
    let mut out = vec![0; 1000];
    let length = match coding {
        Coding::Identity => return CONTENT.to_vec(),
        Coding::Gzip => Compressor::new(CompressionLvl::default()).gzip_compress(CONTENT, &mut out).unwrap(),
        Coding::Brotli => {
            let mut coded = Vec::new();
            brotli::BrotliCompress(&mut &CONTENT[..], &mut coded, &Default::default()).unwrap();
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
        assert_eq!(decode(coding, &coded(coding), ENCODED_BYTES_MAX).unwrap(), CONTENT, "{}", coding.name());
    }
}

#[test]
fn truncated_bodies_are_damaged() {
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        let body = coded(coding);
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
    let params = brotli::enc::BrotliEncoderParams { quality: 1, ..Default::default() };
    let mut body = Vec::new();
    brotli::BrotliCompress(&mut zeros(), &mut body, &params).unwrap();
    assert!(body.len() < 1_000_000, "{}", body.len());
    assert_eq!(decode(Coding::Brotli, &body, ENCODED_BYTES_MAX), Err(DecodeError::TooLong));
}

#[test]
fn an_impossible_length_is_refused() {
    let mut body = coded(Coding::Gzip);
    let end = body.len() - 4;
    body[end..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(decode(Coding::Gzip, &body, ENCODED_BYTES_MAX), Err(DecodeError::Damaged));
}
