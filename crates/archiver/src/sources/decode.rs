//! Decodes bodies in any content coding.
//!
//! We do not trust lengths in the data: there is a limit for the content, and being unable to allocate it is an
//! error.

use std::io::{self, Write};

use cannery_archive::Coding;
use libdeflater::Decompressor;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Maximum compression ratio of deflate. In the best case, each run of 258 bytes will be encoded
/// with two bits.
const DEFLATE_RATIO_MAX: usize = 1032;

/// Why a body cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Exhaustive: callers must decide for each whose fault it is.
pub enum DecodeError {
    /// The body is malformed.
    Damaged,
    /// The content exceeds the limit. It's probably a decompression bomb.
    TooLong,
    /// There is not enough memory for the content.
    OutOfMemory,
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
        Coding::Gzip => gunzip(body, bytes_max),
        Coding::Brotli => unbrotli(body, bytes_max),
        Coding::Zstd => unzstd(body, bytes_max),
    }
}

/// Decodes Brotli. The content length is not part of the stream, so the buffer needs to grow.
fn unbrotli(body: &[u8], bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
    let mut writer = BoundedWriter { content: Vec::new(), bytes_max, error: None };
    let decoded = brotli::BrotliDecompress(&mut &body[..], &mut writer);
    match (writer.error, decoded) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(writer.content),
        (None, Err(_)) => Err(DecodeError::Damaged),
    }
}

/// Collects up to `bytes_max` bytes, and then fails.
struct BoundedWriter {
    content: Vec<u8>,
    bytes_max: u64,
    /// Set if a write has failed.
    error: Option<DecodeError>,
}

impl Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.content.len() as u64 + bytes.len() as u64;
        if length > self.bytes_max {
            self.error = Some(DecodeError::TooLong);
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if self.content.try_reserve(bytes.len()).is_err() {
            self.error = Some(DecodeError::OutOfMemory);
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.content.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decodes gzip, where the last four bytes of a member are the content length modulo 2^32 (RFC 1952
/// §2.3.1).
fn gunzip(body: &[u8], bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
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

/// Decodes Zstandard. Some frames do not contain the content length (RFC 8878 §3.1.1), so we may have to grow
/// the buffer.
fn unzstd(body: &[u8], bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
    let mut context = DCtx::create();
    let mut input = InBuffer::around(body);
    let mut chunk = vec![0; DCtx::out_size()];
    let mut writer = BoundedWriter { content: Vec::new(), bytes_max, error: None };

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

/// Allocates an empty vector with room for `length` bytes. This fails if it is too much.
fn allocate(length: usize, bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
    if length as u64 > bytes_max {
        return Err(DecodeError::TooLong);
    }
    let mut content = Vec::new();
    content.try_reserve_exact(length).map_err(|_| DecodeError::OutOfMemory)?;
    Ok(content)
}

#[cfg(test)]
mod tests;
