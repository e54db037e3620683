//! Decodes bodies of any content coding.
//!
//! We do not trust lengths in the data: contents are limited to the longest that the archiver compresses, and a failed
//! allocation is an error.

use std::io::{self, Write};

use cannery_archive::Coding;
use cannery_archiver::ENCODED_BYTES_MAX;
use libdeflater::Decompressor;

/// The highest compression ratio of deflate: two bits can encode a run of 258 bytes.
const DEFLATE_RATIO_MAX: usize = 1032;

/// Why a body cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// The body is malformed.
    Damaged,
    /// The content is longer than any that the archiver compresses: a decompression bomb.
    TooLong,
    /// The content does not fit into memory.
    OutOfMemory,
}

/// Returns the content of `body`.
pub(super) fn decode(coding: Coding, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    match coding {
        Coding::Identity => Ok(body.to_vec()),
        Coding::Gzip => gunzip(body),
        Coding::Brotli => unbrotli(body),
        Coding::Zstd => unzstd(body),
    }
}

/// Decodes brotli. Its streams do not state the length of the content, so the buffer grows.
fn unbrotli(body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut writer = BoundedWriter { content: Vec::new(), error: None };
    let decoded = brotli::BrotliDecompress(&mut &body[..], &mut writer);
    match (writer.error, decoded) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(writer.content),
        (None, Err(_)) => Err(DecodeError::Damaged),
    }
}

/// Collects up to [`ENCODED_BYTES_MAX`] bytes.
struct BoundedWriter {
    content: Vec<u8>,
    /// Why the last write failed, if it did.
    error: Option<DecodeError>,
}

impl Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.content.len() as u64 + bytes.len() as u64;
        if length > ENCODED_BYTES_MAX {
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
fn gunzip(body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let stated = body.last_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or(DecodeError::Damaged)?;
    let length = usize::try_from(stated).map_err(|_| DecodeError::OutOfMemory)?;
    if length > body.len().saturating_mul(DEFLATE_RATIO_MAX) {
        return Err(DecodeError::Damaged);
    }
    let mut content = allocate(length)?;
    content.resize(length, 0);
    match Decompressor::new().gzip_decompress(body, &mut content) {
        Ok(decoded) if decoded == length => Ok(content),
        _ => Err(DecodeError::Damaged),
    }
}

/// Decodes zstd. Frames of the archiver state the length of their content (RFC 8878 §3.1.1).
fn unzstd(body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let stated = zstd_safe::get_frame_content_size(body).ok().flatten().ok_or(DecodeError::Damaged)?;
    let mut content = allocate(usize::try_from(stated).map_err(|_| DecodeError::OutOfMemory)?)?;
    zstd_safe::decompress(&mut content, body).map_err(|_| DecodeError::Damaged)?;
    Ok(content)
}

/// Returns an empty vector with room for `length` bytes.
fn allocate(length: usize) -> Result<Vec<u8>, DecodeError> {
    if length as u64 > ENCODED_BYTES_MAX {
        return Err(DecodeError::TooLong);
    }
    let mut content = Vec::new();
    content.try_reserve_exact(length).map_err(|_| DecodeError::OutOfMemory)?;
    Ok(content)
}

#[cfg(test)]
mod tests;
