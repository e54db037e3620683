//! Encoders and decoders with a common interface: bytes in, bytes out, always the same.
//!
//! Each result is decoded and compared before it is used. The output does not depend on timestamps, file names or thread
//! counts.

use cannery_archive::{Coding, Digest};

use super::bounded::DecodeError;
use super::encoder::Encoder;
use super::gzip::{self, Gzip};
use super::levels::Levels;
use super::zstd::{self, Zstd};
use super::{brotli, zopfli};

/// One encoder and decoder of each kind. Each thread should have its own, to be able to reuse their tables.
pub(crate) struct Coders {
    levels: Levels,
    gzip: Gzip,
    zstd: Zstd,
}

/// The encoder failed, or its output does not decode to the original content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EncodeError;

impl Coders {
    pub(crate) fn new(levels: Levels) -> Coders {
        Coders { levels, gzip: Gzip::new(levels.of(Encoder::Gzip)), zstd: Zstd::new() }
    }

    /// Compresses `content` with `encoder`.
    pub(crate) fn encode(&mut self, encoder: Encoder, content: &[u8]) -> Result<Vec<u8>, EncodeError> {
        let level = self.levels.of(encoder);
        let coded = match encoder {
            Encoder::Identity => return Ok(content.to_vec()),
            Encoder::Gzip => self.gzip.encode(content),
            Encoder::Zopfli => zopfli::encode(content, level),
            Encoder::Brotli => brotli::encode(content, level),
            Encoder::Zstd => self.zstd.encode(content, level),
        };
        coded.filter(|coded| self.reproduces(encoder.coding(), coded, content)).ok_or(EncodeError)
    }

    /// Returns `true` if `coded` decodes to exactly `content`.
    fn reproduces(&mut self, coding: Coding, coded: &[u8], content: &[u8]) -> bool {
        match coding {
            Coding::Identity => coded == content,
            Coding::Gzip => self.gzip.reproduces(coded, content),
            Coding::Brotli => brotli::reproduces(coded, content),
            Coding::Zstd => self.zstd.reproduces(coded, content),
        }
    }

    /// Whether `coded` decodes to the content of `length` bytes with this digest.
    ///
    /// There must not be any trailing bytes, because clients might read on. This allocates at most `length` bytes, regardless of
    /// the length claimed by `coded`.
    pub(crate) fn decodes_to(
        &mut self,
        coding: Coding,
        coded: &[u8],
        length: usize,
        content: &Digest,
    ) -> bool {
        let decoded = match coding {
            Coding::Identity => return Digest::of(coded) == *content,
            Coding::Gzip => self.gzip.decode_exactly(coded, length),
            Coding::Brotli => brotli::decode_exactly(coded, length),
            Coding::Zstd => self.zstd.decode_exactly(coded, length),
        };
        decoded.is_some_and(|decoded| decoded.len() == length && Digest::of(&decoded) == *content)
    }
}

/// Decodes `body` if necessary and returns its content. If it is compressed, the content must not exceed
/// `bytes_max` bytes.
///
/// # Errors
///
/// Returns an error if the body is malformed or its content is too long.
pub fn decode(coding: Coding, body: &[u8], bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
    match coding {
        Coding::Identity => Ok(body.to_vec()),
        Coding::Gzip => gzip::decode(body, bytes_max),
        Coding::Brotli => brotli::decode(body, bytes_max),
        Coding::Zstd => zstd::decode(body, bytes_max),
    }
}

#[cfg(test)]
mod tests;
