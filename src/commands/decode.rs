//! A coded body back to the bytes that it was made from.
//!
//! Never believes a length from the data without a bound: memory is asked for, not taken, and no content is longer than
//! what the archiver compresses.

use std::io::{self, Write};

use cannery_archive::Coding;
use cannery_archiver::ENCODED_BYTES_MAX;
use libdeflater::Decompressor;

/// deflate cannot make more than this many bytes of one (a run of 258 bytes takes two bits).
const DEFLATE_RATIO_MAX: usize = 1032;

/// Why a body does not decode.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undecodable {
    /// It is not what its coding says.
    Damaged,
    /// It decodes to more than the archiver ever compresses: a decompression bomb.
    Excessive,
    /// There is not so much memory.
    Memory,
}

/// The content of `body`, which is coded so.
pub(super) fn decode(coding: Coding, body: &[u8]) -> Result<Vec<u8>, Undecodable> {
    match coding {
        Coding::Identity => Ok(body.to_vec()),
        Coding::Gzip => gunzip(body),
        Coding::Brotli => unbrotli(body),
        Coding::Zstd => unzstd(body),
    }
}

/// Brotli states no length that could be trusted, so the content grows as it is decoded.
fn unbrotli(body: &[u8]) -> Result<Vec<u8>, Undecodable> {
    let mut bounded = Bounded { content: Vec::new(), refused: None };
    let decoded = brotli::BrotliDecompress(&mut &body[..], &mut bounded);
    match (bounded.refused, decoded) {
        (Some(refused), _) => Err(refused),
        (None, Ok(())) => Ok(bounded.content),
        (None, Err(_)) => Err(Undecodable::Damaged),
    }
}

/// Takes a content up to the longest that there is.
struct Bounded {
    content: Vec<u8>,
    refused: Option<Undecodable>,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.content.len() as u64 + bytes.len() as u64;
        if length > ENCODED_BYTES_MAX {
            self.refused = Some(Undecodable::Excessive);
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if self.content.try_reserve(bytes.len()).is_err() {
            self.refused = Some(Undecodable::Memory);
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.content.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// RFC 1952 §2.3.1: the last four bytes are the content's length, as far as 32 bits go.
fn gunzip(body: &[u8]) -> Result<Vec<u8>, Undecodable> {
    let stated = body.last_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or(Undecodable::Damaged)?;
    let length = usize::try_from(stated).map_err(|_| Undecodable::Memory)?;
    if length > body.len().saturating_mul(DEFLATE_RATIO_MAX) {
        return Err(Undecodable::Damaged);
    }
    let mut content = room(length)?;
    content.resize(length, 0);
    match Decompressor::new().gzip_decompress(body, &mut content) {
        Ok(decoded) if decoded == length => Ok(content),
        _ => Err(Undecodable::Damaged),
    }
}

/// RFC 8878 §3.1.1: our frames state the length of their content.
fn unzstd(body: &[u8]) -> Result<Vec<u8>, Undecodable> {
    let stated = zstd_safe::get_frame_content_size(body).ok().flatten().ok_or(Undecodable::Damaged)?;
    let mut content = room(usize::try_from(stated).map_err(|_| Undecodable::Memory)?)?;
    zstd_safe::decompress(&mut content, body).map_err(|_| Undecodable::Damaged)?;
    Ok(content)
}

fn room(length: usize) -> Result<Vec<u8>, Undecodable> {
    if length as u64 > ENCODED_BYTES_MAX {
        return Err(Undecodable::Excessive);
    }
    let mut content = Vec::new();
    content.try_reserve_exact(length).map_err(|_| Undecodable::Memory)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use libdeflater::{CompressionLvl, Compressor};

    const CONTENT: &[u8] = b"canned canned canned canned canned canned answers";

    fn coded(coding: Coding) -> Vec<u8> {
        let mut out = vec![0; 1000];
        let length = match coding {
            Coding::Identity => return CONTENT.to_vec(),
            Coding::Gzip => {
                Compressor::new(CompressionLvl::default()).gzip_compress(CONTENT, &mut out).unwrap()
            }
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
    fn every_coding_gives_the_content_back() {
        for coding in Coding::ALL {
            assert_eq!(decode(coding, &coded(coding)).unwrap(), CONTENT, "{}", coding.name());
        }
    }

    #[test]
    fn a_body_that_was_cut_is_damaged() {
        for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            let body = coded(coding);
            for length in 0..body.len() {
                assert!(decode(coding, &body[..length]).is_err(), "{} cut to {length}", coding.name());
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
        assert_eq!(decode(Coding::Brotli, &body), Err(Undecodable::Excessive));
    }

    #[test]
    fn a_length_that_cannot_be_is_not_believed() {
        let mut body = coded(Coding::Gzip);
        let end = body.len() - 4;
        body[end..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode(Coding::Gzip, &body), Err(Undecodable::Damaged));
    }
}
