//! Brotli.

use std::io::Write;

use ::brotli::enc::{BrotliEncoderParams, StandardAlloc};
use ::brotli::{BrotliCompress, BrotliDecompress, BrotliDecompressStream, BrotliResult, BrotliState};

use super::bounded::{BoundedWriter, DecodeError};

/// The version that determines the output, together with the level.
pub(super) const VERSION: &str = "brotli-9.1.1";

/// Window sizes as powers of two (RFC 7932 §9.1). Note that clients need 16 MiB for the largest one.
const WINDOW_BITS: (i32, i32) = (10, 24);

pub(super) fn encode(content: &[u8], quality: i32) -> Option<Vec<u8>> {
    let params = BrotliEncoderParams {
        quality,
        lgwin: window_bits(content.len()),
        size_hint: content.len(),
        ..BrotliEncoderParams::default()
    };
    let mut coded = Vec::with_capacity(content.len() / 4);
    BrotliCompress(&mut &content[..], &mut coded, &params).ok()?;
    Some(coded)
}

/// Computes the smallest window that spans the content. Note that a window of 2^n only covers 2^n - 16 bytes.
///
/// With a larger window, the server and every client would need more memory but no bytes would be saved.
fn window_bits(length: usize) -> i32 {
    let (smallest, largest) = WINDOW_BITS;
    (smallest..largest).find(|bits| (1usize << bits) - 16 >= length).unwrap_or(largest)
}

pub(super) fn reproduces(coded: &[u8], content: &[u8]) -> bool {
    let mut left = Expect(content);
    BrotliDecompress(&mut &coded[..], &mut left).is_ok() && left.0.is_empty()
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

/// Decodes a whole stream to a content of exactly `length` bytes.
pub(super) fn decode_exactly(coded: &[u8], length: usize) -> Option<Vec<u8>> {
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

/// Decodes a stream. The content length is not part of it, so the buffer needs to grow.
pub(super) fn decode(body: &[u8], bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
    let mut writer = BoundedWriter::new(bytes_max);
    let decoded = BrotliDecompress(&mut &body[..], &mut writer);
    match (writer.error, decoded) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(writer.content),
        (None, Err(_)) => Err(DecodeError::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_is_the_smallest_that_spans_the_content() {
        assert_eq!(window_bits(0), 10);
        assert_eq!(window_bits(1008), 10);
        assert_eq!(window_bits(1009), 11);
        assert_eq!(window_bits((1 << 22) - 16), 22);
        assert_eq!(window_bits(1 << 30), 24);
    }
}
