//! Zstandard.

use std::io::Write;

use zstd_safe::{CCtx, CParameter, DCtx, InBuffer, OutBuffer};

use super::bounded::{BoundedWriter, DecodeError};

/// The version that determines the output, together with the level.
pub(super) const VERSION: &str = "zstd-safe-8.2.0";

/// RFC 9659 §3: the window must not exceed 8 MiB.
const WINDOW_BITS_MAX: u32 = 23;

/// The tables of the encoder and of the decoder.
pub(super) struct Zstd {
    compressor: CCtx<'static>,
    decompressor: DCtx<'static>,
}

impl Zstd {
    pub(super) fn new() -> Zstd {
        Zstd { compressor: CCtx::create(), decompressor: DCtx::create() }
    }

    pub(super) fn encode(&mut self, content: &[u8], level: i32) -> Option<Vec<u8>> {
        self.compressor.set_parameter(CParameter::CompressionLevel(level)).ok()?;
        // If the content size is known, clients can allocate memory once. We do not need a checksum here: the content is
        // already protected by the transport and the entity tag.
        self.compressor.set_parameter(CParameter::ContentSizeFlag(true)).ok()?;
        self.compressor.set_parameter(CParameter::ChecksumFlag(false)).ok()?;
        if level > 19 {
            self.compressor.set_parameter(CParameter::WindowLog(WINDOW_BITS_MAX)).ok()?;
        }
        let mut coded = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
        self.compressor.compress2(&mut coded, content).ok()?;
        Some(coded)
    }

    pub(super) fn reproduces(&mut self, coded: &[u8], content: &[u8]) -> bool {
        self.decode_exactly(coded, content.len()).is_some_and(|decoded| decoded == content)
    }

    pub(super) fn decode_exactly(&mut self, coded: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut decoded = Vec::with_capacity(length);
        self.decompressor.decompress(&mut decoded, coded).is_ok().then_some(decoded)
    }
}

/// Decodes a stream. Some frames do not contain the content length (RFC 8878 §3.1.1), so we may have to grow
/// the buffer.
pub(super) fn decode(body: &[u8], bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
    let mut context = DCtx::create();
    let mut input = InBuffer::around(body);
    let mut chunk = vec![0; DCtx::out_size()];
    let mut writer = BoundedWriter::new(bytes_max);

    loop {
        let mut output = OutBuffer::around(&mut chunk[..]);
        let missing = context.decompress_stream(&mut output, &mut input).map_err(|_| DecodeError::Damaged)?;
        let written = output.pos();
        if writer.write_all(&chunk[..written]).is_err() {
            return Err(writer.error.unwrap_or(DecodeError::TooLong));
        }

        // If the buffer is full, there may be more output even if there is no more input.
        if input.pos() == body.len() && written < chunk.len() {
            return if missing == 0 && !body.is_empty() {
                Ok(writer.content)
            } else {
                Err(DecodeError::Damaged)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_is_at_most_eight_mebibytes() {
        let coded = Zstd::new().encode(&vec![1; 20 << 20], 22).unwrap();
        // RFC 8878 §3.1.1.1: the frame header descriptor, then the window descriptor.
        let is_single_segment = coded[4] & 0x20 != 0;
        assert!(!is_single_segment, "a single segment would be as large as the content");
        assert_eq!(10 + u32::from(coded[5] >> 3), WINDOW_BITS_MAX);
    }
}
