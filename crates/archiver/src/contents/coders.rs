//! Encoders with a common interface: bytes in, bytes out, always the same.
//!
//! Each result is decoded and compared before it is used. The output does not depend on timestamps, file names or thread
//! counts.

use std::io::Write;
use std::num::NonZeroU64;

use brotli::enc::{BrotliEncoderParams, StandardAlloc};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use cannery_archive::{Coding, Digest};
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use zstd_safe::{CCtx, CParameter, DCtx};

use crate::settings::options::{Encoder, Levels};

/// Names and versions of encoders. Together with the level, these determine the output. A test makes sure that they match
/// `Cargo.lock`.
pub(super) const VERSIONS: [(Encoder, &str); 4] = [
    (Encoder::Gzip, "libdeflater-1.26.1"),
    (Encoder::Zopfli, "zopfli-0.8.4"),
    (Encoder::Brotli, "brotli-9.1.1"),
    (Encoder::Zstd, "zstd-safe-8.2.0"),
];

/// Returns the version of an encoder, or an empty string for [`Encoder::Identity`].
pub(crate) fn version(encoder: Encoder) -> &'static str {
    VERSIONS.iter().find(|(named, _)| *named == encoder).map_or("", |(_, version)| version)
}

/// Returns the content coding produced by an encoder.
pub(super) const fn coding(encoder: Encoder) -> Coding {
    match encoder {
        Encoder::Identity => Coding::Identity,
        Encoder::Gzip | Encoder::Zopfli => Coding::Gzip,
        Encoder::Brotli => Coding::Brotli,
        Encoder::Zstd => Coding::Zstd,
    }
}

/// Brotli window sizes as powers of two (RFC 7932 §9.1). Note that clients need 16 MiB for the
/// largest one.
const BROTLI_WINDOW_BITS: (i32, i32) = (10, 24);

/// RFC 9659 §3: the window must not exceed 8 MiB.
const ZSTD_WINDOW_BITS_MAX: u32 = 23;

/// One encoder and decoder of each kind. Each thread should have its own, to be able to reuse their tables.
pub(super) struct Coders {
    levels: Levels,
    gzip: Compressor,
    gunzip: Decompressor,
    zstd: CCtx<'static>,
    unzstd: DCtx<'static>,
}

/// The encoder failed, or its output does not decode to the original content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EncodeError;

impl Coders {
    pub(super) fn new(levels: Levels) -> Coders {
        let level = CompressionLvl::new(levels.of(Encoder::Gzip)).unwrap_or(CompressionLvl::best());
        Coders {
            levels,
            gzip: Compressor::new(level),
            gunzip: Decompressor::new(),
            zstd: CCtx::create(),
            unzstd: DCtx::create(),
        }
    }

    /// Compresses `content` with `encoder`.
    pub(super) fn encode(&mut self, encoder: Encoder, content: &[u8]) -> Result<Vec<u8>, EncodeError> {
        let coded = match encoder {
            Encoder::Identity => return Ok(content.to_vec()),
            Encoder::Gzip => self.gzip(content),
            Encoder::Zopfli => zopfli(content, self.levels.of(Encoder::Zopfli)),
            Encoder::Brotli => brotli(content, self.levels.of(Encoder::Brotli)),
            Encoder::Zstd => self.zstd(content),
        };
        coded.filter(|coded| self.reproduces(coding(encoder), coded, content)).ok_or(EncodeError)
    }

    /// Whether `coded` decodes to the content of `length` bytes with this digest.
    ///
    /// There must not be any trailing bytes, because clients might read on. This allocates at most `length` bytes, regardless of
    /// the length claimed by `coded`.
    pub(super) fn decodes_to(
        &mut self,
        coding: Coding,
        coded: &[u8],
        length: usize,
        content: &Digest,
    ) -> bool {
        let decoded = match coding {
            Coding::Identity => return Digest::of(coded) == *content,
            Coding::Gzip => self.gunzip_exactly(coded, length),
            Coding::Brotli => unbrotli_exactly(coded, length),
            Coding::Zstd => {
                let mut decoded = Vec::with_capacity(length);
                self.unzstd.decompress(&mut decoded, coded).is_ok().then_some(decoded)
            }
        };
        decoded.is_some_and(|decoded| decoded.len() == length && Digest::of(&decoded) == *content)
    }

    fn gunzip_exactly(&mut self, coded: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut decoded = vec![0; length];
        let is_whole = self.gunzip.gzip_decompress(coded, &mut decoded) == Ok(length);
        // The decoder ignores trailing bytes. To detect them, we check if it also succeeds without the last
        // byte.
        let shorter = &coded[..coded.len().saturating_sub(1)];
        let is_exact = is_whole && self.gunzip.gzip_decompress(shorter, &mut vec![0; length]).is_err();
        is_exact.then_some(decoded)
    }

    fn gzip(&mut self, content: &[u8]) -> Option<Vec<u8>> {
        let mut coded = vec![0; self.gzip.gzip_compress_bound(content.len())];
        let length = self.gzip.gzip_compress(content, &mut coded).ok()?;
        coded.truncate(length);
        Some(coded)
    }

    fn zstd(&mut self, content: &[u8]) -> Option<Vec<u8>> {
        let level = self.levels.of(Encoder::Zstd);
        self.zstd.set_parameter(CParameter::CompressionLevel(level)).ok()?;
        // If the content size is known, clients can allocate memory once. We do not need a checksum here: the content is
        // already protected by the transport and the entity tag.
        self.zstd.set_parameter(CParameter::ContentSizeFlag(true)).ok()?;
        self.zstd.set_parameter(CParameter::ChecksumFlag(false)).ok()?;
        if level > 19 {
            self.zstd.set_parameter(CParameter::WindowLog(ZSTD_WINDOW_BITS_MAX)).ok()?;
        }
        let mut coded = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
        self.zstd.compress2(&mut coded, content).ok()?;
        Some(coded)
    }

    /// Returns `true` if `coded` decodes to exactly `content`.
    fn reproduces(&mut self, coding: Coding, coded: &[u8], content: &[u8]) -> bool {
        match coding {
            Coding::Identity => coded == content,
            Coding::Gzip => {
                let mut decoded = vec![0; content.len()];
                self.gunzip.gzip_decompress(coded, &mut decoded) == Ok(content.len()) && decoded == content
            }
            Coding::Brotli => {
                let mut left = Expect(content);
                brotli::BrotliDecompress(&mut &coded[..], &mut left).is_ok() && left.0.is_empty()
            }
            Coding::Zstd => {
                let mut decoded = Vec::with_capacity(content.len());
                self.unzstd.decompress(&mut decoded, coded).is_ok() && decoded == content
            }
        }
    }
}

/// Decodes a whole Brotli stream to a content of exactly `length` bytes.
fn unbrotli_exactly(coded: &[u8], length: usize) -> Option<Vec<u8>> {
    // "Strict" disallows large windows. No RFC defines them, so clients would reject them.
    let new = StandardAlloc::default;

    let mut state = BrotliState::new_strict(new(), new(), new());
    let mut decoded = vec![0; length];
    let mut input_left = coded.len();
    let mut input_at = 0;
    let mut output_left = length;
    let mut output_at = 0;
    let mut total = 0;

    let result = BrotliDecompressStream(
        &mut input_left,
        &mut input_at,
        coded,
        &mut output_left,
        &mut output_at,
        &mut decoded,
        &mut total,
        &mut state,
    );
    let is_exact = matches!(result, BrotliResult::ResultSuccess) && input_left == 0 && output_left == 0;
    is_exact.then_some(decoded)
}

fn zopfli(content: &[u8], iterations: i32) -> Option<Vec<u8>> {
    let iteration_count = NonZeroU64::new(u64::try_from(iterations).ok()?)?;
    let options = zopfli::Options { iteration_count, ..zopfli::Options::default() };
    let mut coded = Vec::new();
    zopfli::compress(options, zopfli::Format::Gzip, content, &mut coded).ok()?;
    Some(coded)
}

fn brotli(content: &[u8], quality: i32) -> Option<Vec<u8>> {
    let params = BrotliEncoderParams {
        quality,
        lgwin: brotli_window_bits(content.len()),
        size_hint: content.len(),
        ..BrotliEncoderParams::default()
    };
    let mut coded = Vec::with_capacity(content.len() / 4);
    brotli::BrotliCompress(&mut &content[..], &mut coded, &params).ok()?;
    Some(coded)
}

/// Computes the smallest window that spans the content. Note that a window of 2^n only covers 2^n - 16 bytes.
///
/// With a larger window, the server and every client would need more memory but no bytes would be saved.
fn brotli_window_bits(length: usize) -> i32 {
    let (smallest, largest) = BROTLI_WINDOW_BITS;
    (smallest..largest).find(|bits| (1usize << bits) - 16 >= length).unwrap_or(largest)
}

/// A writer that only accepts the expected bytes.
///
/// This way, comparing does not require a second copy.
struct Expect<'a>(&'a [u8]);

impl Write for Expect<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.strip_prefix(bytes).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
