//! Determines the properties of a source (digest, UTF-8, fingerprint, compressibility) in a single pass over its
//! bytes.

use cannery_archive::Digest;
use libdeflater::{CompressionLvl, Compressor};

use crate::properties::fingerprint::{Candidate, Check};

/// Number of bytes to compress as a probe if the media type is unknown.
const PROBE_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceFacts {
    /// Digest of the content.
    pub(crate) digest: Digest,
    /// Whether the content is valid UTF-8, unless it seems to be in another encoding that just happens to
    /// be valid.
    pub(crate) utf8: bool,
    /// Whether the name contains a digest of the content.
    pub(crate) fingerprinted: bool,
    /// Result of compressing the first bytes.
    pub(crate) probe: Probe,
}

/// Whether the first bytes of a content are compressible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// We did not try because the media type is enough to decide.
    Missing,
    Compressible,
    Incompressible,
}

/// Determines the properties of a source while it's being read.
pub(crate) struct Examination<'n> {
    digest: blake3::Hasher,
    utf8: Utf8,
    other_encoding: OtherEncoding,
    fingerprint: Option<Box<Check<'n>>>,
    /// The first bytes of the content, if they will be probed.
    beginning: Option<Vec<u8>>,
}

impl<'n> Examination<'n> {
    /// Starts with the name of a source, that is, the last segment of its path.
    ///
    /// The first bytes will be compressed if `probe` is set.
    pub(crate) fn begin(name: &'n [u8], probe: bool) -> Examination<'n> {
        Examination {
            digest: blake3::Hasher::new(),
            utf8: Utf8::default(),
            other_encoding: OtherEncoding::default(),
            fingerprint: Candidate::in_name(name).map(|candidate| Box::new(candidate.start())),
            beginning: probe.then(Vec::new),
        }
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.utf8.take(bytes);
        self.other_encoding.take(bytes);
        if let Some(check) = &mut self.fingerprint {
            check.update(bytes);
        }
        if let Some(beginning) = &mut self.beginning {
            let room = PROBE_BYTES.saturating_sub(beginning.len()).min(bytes.len());
            beginning.extend_from_slice(&bytes[..room]);
        }
    }

    pub(crate) fn finish(self) -> SourceFacts {
        SourceFacts {
            digest: Digest(*self.digest.finalize().as_bytes()),
            utf8: self.utf8.is_valid() && !self.other_encoding.is_likely(),
            fingerprinted: self.fingerprint.is_some_and(|check| check.finish().is_some()),
            probe: self.beginning.map_or(Probe::Missing, |beginning| Probe::from_content(&beginning)),
        }
    }
}

impl Probe {
    /// Compresses the first bytes with the fastest compressor. This should save at least a tenth.
    fn from_content(beginning: &[u8]) -> Probe {
        let mut compressor = Compressor::new(CompressionLvl::new(1).unwrap_or_default());
        let mut room = vec![0; beginning.len() - beginning.len() / 10];
        // The buffer is deliberately too small, so that this will return an error unless enough is
        // saved.
        match compressor.deflate_compress(beginning, &mut room) {
            Ok(_) => Probe::Compressible,
            Err(_) => Probe::Incompressible,
        }
    }
}

/// Validates UTF-8 in pieces.
#[derive(Debug, Default)]
struct Utf8 {
    invalid: bool,
    /// The incomplete character at the end of the last piece, consisting of up to three bytes.
    broken: Vec<u8>,
}

impl Utf8 {
    /// Validates the next piece.
    fn take(&mut self, mut bytes: &[u8]) {
        // First try to complete the last character.
        while !self.invalid && !self.broken.is_empty() {
            let Some((first, rest)) = bytes.split_first() else { return };
            self.broken.push(*first);
            bytes = rest;
            match std::str::from_utf8(&self.broken) {
                Ok(_) => self.broken.clear(),
                Err(error) => self.invalid = error.error_len().is_some(),
            }
        }
        if self.invalid {
            return;
        }
        if let Err(error) = std::str::from_utf8(bytes) {
            self.invalid = error.error_len().is_some();
            self.broken.extend_from_slice(&bytes[error.valid_up_to()..]);
        }
    }

    /// Whether all pieces are valid and there is no incomplete character at the end of the last
    /// one.
    fn is_valid(&self) -> bool {
        !self.invalid && self.broken.is_empty()
    }
}

/// Looks for signs of encodings that are valid UTF-8 byte by byte, i.e. UTF-16 without byte order mark, and
/// ISO-2022-JP.
#[derive(Debug, Default)]
struct OtherEncoding {
    /// Number of bytes in which we have counted zeros.
    searched_bytes: usize,
    /// Number of zeros among these bytes. In UTF-16, each ASCII character has one zero byte.
    zeros: usize,
    /// Whether there was a byte that ISO-2022-JP cannot contain.
    has_high_byte: bool,
    escape: Escape,
}

/// An ISO-2022-JP escape sequence that selects another character set (WHATWG Encoding, §12.2.1).
///
/// These do not occur in any other text, except that terminals also use the sequence that returns to ASCII.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Escape {
    #[default]
    Missing,
    Begun,
    /// `ESC $`
    TwoByteSet,
    /// `ESC (`
    OneByteSet,
    Found,
}

impl OtherEncoding {
    /// Number of bytes in which zeros are counted. Zeros after that may be in a string in a
    /// minified script.
    const SEARCHED_BYTES: usize = 1024;

    /// Examines the next piece.
    fn take(&mut self, bytes: &[u8]) {
        let searched = &bytes[..bytes.len().min(Self::SEARCHED_BYTES - self.searched_bytes)];
        self.searched_bytes += searched.len();
        self.zeros += searched.iter().filter(|byte| **byte == 0).count();

        self.has_high_byte = self.has_high_byte || !bytes.is_ascii();
        if self.has_high_byte {
            return;
        }
        let mut rest = bytes;
        while self.escape != Escape::Found {
            if self.escape == Escape::Missing {
                let Some(start) = rest.iter().position(|byte| *byte == 0x1b) else { return };
                rest = &rest[start..];
            }
            let Some((byte, after)) = rest.split_first() else { return };
            self.escape = self.escape.next(*byte);
            rest = after;
        }
    }

    fn is_likely(&self) -> bool {
        // A small number of zeros may just be damage, or the start of a binary file that is named
        // like a text.
        let is_utf16 = self.zeros > self.searched_bytes / 8;
        is_utf16 || (self.escape == Escape::Found && !self.has_high_byte)
    }
}

impl Escape {
    fn next(self, byte: u8) -> Escape {
        match (self, byte) {
            (Escape::Found, _) | (Escape::TwoByteSet, b'@' | b'B') | (Escape::OneByteSet, b'I' | b'J') => {
                Escape::Found
            }
            (Escape::Begun, b'$') => Escape::TwoByteSet,
            (Escape::Begun, b'(') => Escape::OneByteSet,
            (_, 0x1b) => Escape::Begun,
            _ => Escape::Missing,
        }
    }
}

#[cfg(test)]
mod tests;
