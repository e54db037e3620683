//! SHA-256 digests, of bytes and of what is written.

use std::fmt;
use std::io::{self, Write};

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest. Formatted as hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A writer that counts and hashes the bytes that it passes on.
#[derive(Debug)]
pub struct HashingWriter<W> {
    inner: W,
    hasher: Sha256,
    bytes: u64,
}

impl<W: Write> HashingWriter<W> {
    /// Wraps a writer.
    pub fn new(inner: W) -> HashingWriter<W> {
        HashingWriter { inner, hasher: Sha256::new(), bytes: 0 }
    }

    /// Returns the writer, and the digest and number of the bytes written.
    #[must_use]
    pub fn finish(self) -> (W, Digest, u64) {
        (self.inner, Digest(self.hasher.finalize().into()), self.bytes)
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_that_of_the_standard() {
        // FIPS 180-4, the example with one block.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), expected);

        let mut writer = HashingWriter::new(Vec::new());
        writer.write_all(b"a").and_then(|()| writer.write_all(b"bc")).expect("memory has no errors");
        let (written, digest, bytes) = writer.finish();
        assert_eq!((written.as_slice(), digest.to_string().as_str(), bytes), (&b"abc"[..], expected, 3));
    }
}
