//! Buffers that a worker lends to the connection that it serves.

use cannery_eventloop::SplicePipe;

/// Maximum number of bytes that we receive per call.
pub(crate) const RECEIVE_BYTES: usize = 64 * 1024;

/// Buffers that are used by one transport at a time. This way, idle connections do not need their
/// own.
pub(crate) struct Buffers {
    /// Data received without TLS.
    pub(crate) received: Vec<u8>,
    /// For zero-copy sends of large bodies.
    pub(crate) pipe: SplicePipe,
    pub(crate) tls: TlsBuffers,
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers { received: vec![0; RECEIVE_BYTES], pipe: SplicePipe::new(), tls: TlsBuffers::default() }
    }

    /// Takes the buffer with the data that was received last. Callers should put it back with [`Buffers::restore`].
    #[inline]
    pub(crate) fn take(&mut self, is_decrypted: bool) -> ReceivedBuffer {
        ReceivedBuffer { bytes: std::mem::take(self.plaintext(is_decrypted)), is_decrypted }
    }

    /// Puts back a buffer that was taken with [`Buffers::take`].
    #[inline]
    pub(crate) fn restore(&mut self, buffer: ReceivedBuffer) {
        *self.plaintext(buffer.is_decrypted) = buffer.bytes;
    }

    #[inline]
    fn plaintext(&mut self, is_decrypted: bool) -> &mut Vec<u8> {
        if is_decrypted { &mut self.tls.plaintext } else { &mut self.received }
    }
}

/// A buffer with the data that was received last.
pub(crate) struct ReceivedBuffer {
    pub(crate) bytes: Vec<u8>,
    /// Whether the bytes were encrypted. This needs to be remembered as the connection might have started TLS
    /// by the time the buffer is put back.
    is_decrypted: bool,
}

/// Buffers shared by all TLS streams of a worker. No memory is taken until they are needed.
#[derive(Default)]
pub(crate) struct TlsBuffers {
    /// Records: first an incomplete one from before, then newly received data.
    pub(crate) received: Vec<u8>,
    /// Plaintext of `received`.
    pub(crate) plaintext: Vec<u8>,
    /// Records to be sent.
    pub(crate) records: Vec<u8>,
}
