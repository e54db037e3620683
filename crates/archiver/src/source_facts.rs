//! Properties of a source, found in one pass over its bytes: digest, UTF-8, fingerprint, compressibility.

use cannery_archive::Digest;
use libdeflater::{CompressionLvl, Compressor};

use crate::fingerprint::{Candidate, Check};

/// Number of bytes that a probe compresses if the media type is unknown.
const PROBE_BYTES: usize = 64 << 10;

/// The properties of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceFacts {
    /// Digest of the content.
    pub(crate) digest: Digest,
    /// `true` if the content is valid UTF-8.
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
            fingerprint: Candidate::in_name(name).map(|candidate| Box::new(candidate.start())),
            beginning: probe.then(Vec::new),
        }
    }

    /// Processes the next bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.utf8.take(bytes);
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
            utf8: self.utf8.is_valid(),
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

#[cfg(test)]
mod tests;
