//! Decodes bodies of any content coding.
//!
//! We do not trust lengths in the data: contents are limited, and a failed allocation is an error.

use std::io::{self, Write};

use cannery_archive::Coding;
use libdeflater::Decompressor;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// The highest compression ratio of deflate: two bits can encode a run of 258 bytes.
const DEFLATE_RATIO_MAX: usize = 1032;

/// Why a body cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The body is malformed.
    Damaged,
    /// The content is longer than the limit: most likely a decompression bomb.
    TooLong,
    /// The content does not fit into memory.
    OutOfMemory,
}

/// Returns the content of `body`, which may have up to `bytes_max` bytes if it is compressed.
///
/// # Errors
/// The body is malformed, or its content too long.
pub fn decode(coding: Coding, body: &[u8], bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
    match coding {
        Coding::Identity => Ok(body.to_vec()),
        Coding::Gzip => gunzip(body, bytes_max),
        Coding::Brotli => unbrotli(body, bytes_max),
        Coding::Zstd => unzstd(body, bytes_max),
    }
}

/// Decodes brotli. Its streams do not state the length of the content, so the buffer grows.
fn unbrotli(body: &[u8], bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
    let mut writer = BoundedWriter { content: Vec::new(), bytes_max, error: None };
    let decoded = brotli::BrotliDecompress(&mut &body[..], &mut writer);
    match (writer.error, decoded) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(writer.content),
        (None, Err(_)) => Err(DecodeError::Damaged),
    }
}

/// Collects up to `bytes_max` bytes.
struct BoundedWriter {
    content: Vec<u8>,
    bytes_max: u64,
    /// Why the last write failed, if it did.
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

/// Decodes gzip. The last four bytes are the length of the content modulo 2^32 (RFC 1952 §2.3.1).
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

/// Decodes zstd. Not every frame states the length of its content (RFC 8878 §3.1.1), so the buffer grows.
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
        // A full buffer may mean that there is more to come without more input.
        if input.pos() == body.len() && written < chunk.len() {
            return if missing == 0 && !body.is_empty() {
                Ok(writer.content)
            } else {
                Err(DecodeError::Damaged)
            };
        }
    }
}

/// Returns an empty vector with room for `length` bytes.
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
