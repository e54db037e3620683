//! gzip by libdeflate.

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::bounded::{DecodeError, allocate};

/// The version that determines the output, together with the level.
pub(super) const VERSION: &str = "libdeflater-1.26.1";

/// Maximum compression ratio of deflate. In the best case, each run of 258 bytes will be encoded
/// with two bits.
const DEFLATE_RATIO_MAX: usize = 1032;

/// The tables of the encoder and of the decoder.
pub(super) struct Gzip {
    compressor: Compressor,
    decompressor: Decompressor,
}

impl Gzip {
    pub(super) fn new(level: i32) -> Gzip {
        let level = CompressionLvl::new(level).unwrap_or(CompressionLvl::best());
        Gzip { compressor: Compressor::new(level), decompressor: Decompressor::new() }
    }

    pub(super) fn encode(&mut self, content: &[u8]) -> Option<Vec<u8>> {
        let mut coded = vec![0; self.compressor.gzip_compress_bound(content.len())];
        let length = self.compressor.gzip_compress(content, &mut coded).ok()?;
        coded.truncate(length);
        Some(coded)
    }

    pub(super) fn reproduces(&mut self, coded: &[u8], content: &[u8]) -> bool {
        let mut decoded = vec![0; content.len()];
        self.decompressor.gzip_decompress(coded, &mut decoded) == Ok(content.len()) && decoded == content
    }

    pub(super) fn decode_exactly(&mut self, coded: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut decoded = vec![0; length];
        let is_whole = self.decompressor.gzip_decompress(coded, &mut decoded) == Ok(length);
        // The decoder ignores trailing bytes. To detect them, we check if it also succeeds without the last
        // byte.
        let shorter = &coded[..coded.len().saturating_sub(1)];
        let is_exact = is_whole && self.decompressor.gzip_decompress(shorter, &mut vec![0; length]).is_err();
        is_exact.then_some(decoded)
    }
}

/// Decodes gzip, where the last four bytes of a member are the content length modulo 2^32 (RFC 1952
/// §2.3.1).
pub(super) fn decode(body: &[u8], bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
    let stated = body.last_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or(DecodeError::Damaged)?;
    let length = usize::try_from(stated).map_err(|_| DecodeError::OutOfMemory)?;
    if length > body.len().saturating_mul(DEFLATE_RATIO_MAX) {
        return Err(DecodeError::Damaged);
    }

    let mut content = allocate(length, bytes_max)?;
    content.resize(length, 0);
    match Decompressor::new().gzip_decompress(body, &mut content) {
        Ok(decoded) if decoded == length => Ok(content),
        _ => Err(DecodeError::Damaged),
    }
}
