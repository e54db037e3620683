//! Certificate compression (RFC 8879).
//!
//! A certificate message is compressed at the first handshake that needs it, and then sent from memory. The
//! message of an RSA chain can become small enough for the three datagrams that a QUIC server may send before it
//! has validated the client's address (RFC 9000 §8.1), which saves a round trip.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use brotli::enc::BrotliEncoderParams;
use libdeflater::{CompressionLvl, Compressor};
use rustls::CertificateCompressionAlgorithm;
use rustls::compress::{CertCompressor, CompressionCache, CompressionFailed, CompressionLevel};

use crate::limits::COMPRESSED_CERTIFICATES_BYTES_MAX;

static BROTLI: LazyLock<KeptMessages> = LazyLock::new(|| KeptMessages::new(Coder::Brotli));
static ZLIB: LazyLock<KeptMessages> = LazyLock::new(|| KeptMessages::new(Coder::Zlib));

/// Length of the algorithm, of the uncompressed length and of the length that precede a compressed message.
const FIELDS_BYTES: usize = 2 + 3 + 3;

/// Returns the algorithms in order of preference. Most browsers support Brotli, and Safari only zlib.
pub(crate) fn compressors() -> Vec<&'static dyn CertCompressor> {
    vec![&*BROTLI, &*ZLIB]
}

/// Returns a disabled cache. The one of `rustls` would compress again and again if there are more certificates
/// than it has entries, and clients choose the certificate.
pub(crate) fn disabled_cache() -> Arc<CompressionCache> {
    Arc::new(CompressionCache::Disabled)
}

/// Forgets all messages. To be called when certificates have been replaced.
pub(crate) fn forget_messages() {
    for kept in [&BROTLI, &ZLIB] {
        *kept.messages.lock().unwrap_or_else(PoisonError::into_inner) = Messages::default();
    }
}

/// Compressed messages of one algorithm, for all contexts of the process.
struct KeptMessages {
    coder: Coder,
    messages: Mutex<Messages>,
}

#[derive(Default)]
struct Messages {
    /// The compressed form of each message. `None` if it is not smaller.
    compressed: HashMap<Vec<u8>, Option<Arc<[u8]>>>,
    /// Length of all messages in both forms.
    bytes: usize,
}

impl KeptMessages {
    fn new(coder: Coder) -> Self {
        Self { coder, messages: Mutex::default() }
    }

    fn find(&self, message: &[u8]) -> Option<Option<Arc<[u8]>>> {
        self.lock().compressed.get(message).cloned()
    }

    fn has_room(&self, message: &[u8]) -> bool {
        self.lock().bytes + 2 * message.len() <= COMPRESSED_CERTIFICATES_BYTES_MAX
    }

    fn keep(&self, message: Vec<u8>, compressed: Option<&[u8]>) {
        let mut messages = self.lock();
        // Other threads may have added messages in the meantime.
        let bytes = messages.bytes + message.len() + compressed.map_or(0, <[u8]>::len);
        if bytes > COMPRESSED_CERTIFICATES_BYTES_MAX {
            return;
        }
        if messages.compressed.insert(message, compressed.map(Arc::from)).is_none() {
            messages.bytes = bytes;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CertCompressor for KeptMessages {
    fn compress(&self, message: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        if let Some(kept) = self.find(&message) {
            return kept.map(|compressed| compressed.to_vec()).ok_or(CompressionFailed);
        }

        let will_be_kept = self.has_room(&message);
        let effort = if will_be_kept { Effort::Once } else { Effort::EachHandshake };
        let compressed = self.coder.compress(&message, effort);
        if will_be_kept {
            self.keep(message, compressed.as_deref());
        }
        compressed.ok_or(CompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        match self.coder {
            Coder::Brotli => CertificateCompressionAlgorithm::Brotli,
            Coder::Zlib => CertificateCompressionAlgorithm::Zlib,
        }
    }
}

impl fmt::Debug for KeptMessages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeptMessages").field("coder", &self.coder).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug)]
enum Coder {
    Brotli,
    Zlib,
}

/// How often the work is done.
#[derive(Clone, Copy)]
enum Effort {
    Once,
    EachHandshake,
}

impl Coder {
    /// Returns `None` if the result is not smaller.
    fn compress(self, message: &[u8], effort: Effort) -> Option<Vec<u8>> {
        let compressed = match self {
            Self::Brotli => brotli(message, effort)?,
            Self::Zlib => zlib(message, effort)?,
        };
        (compressed.len() + FIELDS_BYTES < message.len()).then_some(compressed)
    }
}

fn brotli(message: &[u8], effort: Effort) -> Option<Vec<u8>> {
    let quality = match effort {
        Effort::Once => 11,
        Effort::EachHandshake => 4,
    };
    let params = BrotliEncoderParams {
        quality,
        lgwin: 16,
        size_hint: message.len(),
        ..BrotliEncoderParams::default()
    };
    let mut compressed = Vec::with_capacity(message.len());
    brotli::BrotliCompress(&mut &message[..], &mut compressed, &params).ok()?;
    Some(compressed)
}

fn zlib(message: &[u8], effort: Effort) -> Option<Vec<u8>> {
    let level = match effort {
        Effort::Once => CompressionLvl::best(),
        Effort::EachHandshake => CompressionLvl::default(),
    };
    let mut compressed = vec![0; message.len()];
    let length = Compressor::new(level).zlib_compress(message, &mut compressed).ok()?;
    compressed.truncate(length);
    Some(compressed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

    use super::*;

    /// Returns a message that can be compressed to about half of its length.
    fn message(index: u32, length: usize) -> Vec<u8> {
        let mut state = index + 1;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 28) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn kept_messages_have_a_limit() {
        for coder in [Coder::Brotli, Coder::Zlib] {
            let kept = KeptMessages::new(coder);
            let length = COMPRESSED_CERTIFICATES_BYTES_MAX / 5;
            for index in 0..8 {
                let compressed = kept.compress(message(index, length), CompressionLevel::Amortized).unwrap();
                assert!(compressed.len() < length);
            }
            let messages = kept.lock();
            assert!((2..5).contains(&messages.compressed.len()), "{coder:?} {}", messages.compressed.len());
            assert!(messages.bytes <= COMPRESSED_CERTIFICATES_BYTES_MAX);
        }
    }

    #[test]
    fn message_that_does_not_shrink_is_sent_as_it_is() {
        let random: Vec<u8> = message(1, 2000).chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        for coder in [Coder::Brotli, Coder::Zlib] {
            let kept = KeptMessages::new(coder);
            for _ in 0..2 {
                assert!(kept.compress(random.clone(), CompressionLevel::Amortized).is_err());
                assert_eq!(kept.lock().bytes, random.len(), "it is compressed only once");
            }
        }
    }
}
