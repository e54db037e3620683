//! QPACK encoder state.

use super::error::Error;

/// Encoder state of one connection.
#[derive(Debug, Default)]
pub struct EncoderTable {}

impl EncoderTable {
    /// Creates the state of a new connection, which uses only the static table.
    #[must_use]
    pub fn new() -> EncoderTable {
        EncoderTable {}
    }

    /// Handles the peer's SETTINGS: the maximum capacity of its dynamic table, in bytes.
    pub fn set_peer_settings(&mut self, capacity_max: u64) {
        let _ = capacity_max;
    }

    /// Returns the bytes that must be sent on our encoder stream, in addition to those returned before.
    #[must_use]
    pub fn take_encoder_stream(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Executes the instructions in the next bytes of the peer's decoder stream.
    ///
    /// # Errors
    ///
    /// [`Error::DecoderStream`] if an instruction is invalid. The connection must be closed.
    pub fn read_decoder_stream(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let _ = bytes;
        Ok(())
    }
}
