//! Clients that accept compressed certificates (RFC 8879).

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::CertificateCompressionAlgorithm as Algorithm;
use rustls::compress::{CertDecompressor, DecompressionFailed};

/// Decompresses certificates and counts them.
#[derive(Debug)]
pub(crate) struct Counted {
    algorithm: Algorithm,
    messages: AtomicUsize,
    /// The latest message in its compressed form.
    pub(crate) last: Mutex<Vec<u8>>,
}

impl Counted {
    pub(crate) fn new(algorithm: Algorithm) -> &'static Self {
        Box::leak(Box::new(Self { algorithm, messages: AtomicUsize::new(0), last: Mutex::default() }))
    }

    /// Returns the number of messages so far.
    pub(crate) fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }
}

impl CertDecompressor for Counted {
    fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressionFailed> {
        self.messages.fetch_add(1, Ordering::Relaxed);
        *self.last.lock().unwrap() = input.to_vec();
        let decompressed = match self.algorithm {
            Algorithm::Brotli => {
                let mut decompressed = Vec::new();
                brotli::BrotliDecompress(&mut &input[..], &mut decompressed).unwrap();
                decompressed
            }
            _ => {
                let mut decompressed = vec![0; output.len()];
                let mut decompressor = libdeflater::Decompressor::new();
                let length = decompressor.zlib_decompress(input, &mut decompressed).unwrap();
                decompressed.truncate(length);
                decompressed
            }
        };
        assert_eq!(decompressed.len(), output.len(), "the stated length is that of the message");
        output.copy_from_slice(&decompressed);
        Ok(())
    }

    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
