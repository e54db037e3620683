//! Limits for decoders.
//!
//! We do not trust lengths in the data: there is a limit for the content, and being unable to allocate it is an
//! error.

use std::io::{self, Write};

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

/// Collects up to `bytes_max` bytes, and then fails.
pub(super) struct BoundedWriter {
    pub(super) content: Vec<u8>,
    bytes_max: u64,
    /// Set if a write has failed.
    pub(super) error: Option<DecodeError>,
}

impl BoundedWriter {
    pub(super) fn new(bytes_max: u64) -> BoundedWriter {
        BoundedWriter { content: Vec::new(), bytes_max, error: None }
    }
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

/// Allocates an empty vector with room for `length` bytes. This fails if it is too much.
pub(super) fn allocate(length: usize, bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
    if length as u64 > bytes_max {
        return Err(DecodeError::TooLong);
    }
    let mut content = Vec::new();
    content.try_reserve_exact(length).map_err(|_| DecodeError::OutOfMemory)?;
    Ok(content)
}
