//! Properties of a source, found in one pass over its bytes: digest, UTF-8, fingerprint, compressibility.

use cannery_archive::Digest;
use libdeflater::{CompressionLvl, Compressor};

use crate::properties::fingerprint::{Candidate, Check};

/// Number of bytes that a probe compresses if the media type is unknown.
const PROBE_BYTES: usize = 64 << 10;

/// The properties of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceFacts {
    /// Digest of the content.
    pub(crate) digest: Digest,
    /// `true` if the content is valid UTF-8, and not of an encoding whose bytes are valid UTF-8 too.
    pub(crate) utf8: bool,
    /// `true` if the name contains a digest of the content.
    pub(crate) fingerprinted: bool,
    /// The result of compressing the start of the content.
    pub(crate) probe: Probe,
}

/// Whether the start of a content is compressible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// It was not compressed, because the media type tells.
    Missing,
    Compressible,
    Incompressible,
}

/// A source that is being read.
pub(crate) struct Examination<'n> {
    digest: blake3::Hasher,
    utf8: Utf8,
    other_encoding: OtherEncoding,
    fingerprint: Option<Box<Check<'n>>>,
    /// The start of the content, if it will be probed.
    beginning: Option<Vec<u8>>,
}

impl<'n> Examination<'n> {
    /// Starts a source with this name (the last segment of its path). With `probe`, the start of its content is compressed.
    pub(crate) fn begin(name: &'n [u8], probe: bool) -> Examination<'n> {
        Examination {
            digest: blake3::Hasher::new(),
            utf8: Utf8::default(),
            other_encoding: OtherEncoding::default(),
            fingerprint: Candidate::in_name(name).map(|candidate| Box::new(candidate.start())),
            beginning: probe.then(Vec::new),
        }
    }

    /// Processes the next bytes.
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

    /// Returns the properties.
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
    /// Compresses the start of a content by the fastest compressor, which must save at least one tenth.
    fn from_content(beginning: &[u8]) -> Probe {
        let mut compressor = Compressor::new(CompressionLvl::new(1).unwrap_or_default());
        let mut room = vec![0; beginning.len() - beginning.len() / 10];
        // It returns an error if the buffer is too small.
        match compressor.deflate_compress(beginning, &mut room) {
            Ok(_) => Probe::Compressible,
            Err(_) => Probe::Incompressible,
        }
    }
}

/// UTF-8 validation in pieces.
#[derive(Debug, Default)]
struct Utf8 {
    invalid: bool,
    /// An incomplete character at the end of the last piece: at most three bytes.
    broken: Vec<u8>,
}

impl Utf8 {
    /// Examines the next piece.
    fn take(&mut self, mut bytes: &[u8]) {
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

    /// Returns `true` if all earlier pieces are valid, and end with a whole character.
    fn is_valid(&self) -> bool {
        !self.invalid && self.broken.is_empty()
    }
}

/// Signs of encodings whose bytes are valid UTF-8: UTF-16 without a byte order mark, and ISO-2022-JP.
#[derive(Debug, Default)]
struct OtherEncoding {
    /// Number of bytes so far, up to those that are searched for zeros.
    searched_bytes: usize,
    /// Zeros among them. In UTF-16, one byte of each ASCII character is zero.
    zeros: usize,
    /// A byte that ISO-2022-JP doesn't have.
    has_high_byte: bool,
    escape: Escape,
}

/// An escape sequence of ISO-2022-JP, which selects another character set (WHATWG Encoding, §12.2.1). No other text selects these,
/// while terminals know the one that returns to ASCII.
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
    /// Zeros in text are searched up to here. Later ones may be in a string of a minified script.
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
        // A single zero is damage, or the start of a binary file with the name of a text.
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
