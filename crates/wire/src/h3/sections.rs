//! Field sections of the peer: decodes them, and writes our QPACK decoder stream.

use super::error::ErrorCode;
use super::stream_id::StreamId;
use crate::head_store::{HeadStore, Trailers, Verdict};
use crate::qpack::{Decoder, InsertCount};
use crate::request_head::Version;

/// Bytes of acknowledgments that are sent together. Sent one by one, each would be a frame in the packet of its response, of which
/// QUIC must keep track. An encoder evicts no entry before the sections that refer to it are acknowledged, so that it uses literals
/// for some requests at worst.
const ACKNOWLEDGMENT_BYTES_MAX: usize = 32;

/// Reads the field sections of a connection.
#[derive(Debug, Default)]
pub(super) struct SectionReader {
    decoder: Decoder,
    /// Instructions for our decoder stream, to be sent.
    instructions: Vec<u8>,
    /// The length of those that can wait for more: acknowledgments of sections.
    deferrable_bytes: usize,
}

impl SectionReader {
    /// Returns the memory of the table and of instructions, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.decoder.memory() + self.instructions.capacity()
    }

    /// Executes the next bytes of the peer's encoder stream.
    pub(super) fn read_encoder_stream(
        &mut self,
        bytes: &[u8],
        store: &mut HeadStore,
    ) -> Result<(), ErrorCode> {
        Ok(self.decoder.read_encoder_stream(bytes, store.strings())?)
    }

    /// Takes the bytes to be sent on our decoder stream. Returns none if all of them can wait.
    pub(super) fn take_decoder_stream(&mut self) -> Vec<u8> {
        self.decoder.acknowledge_insertions(&mut self.instructions);
        let can_wait = self.instructions.len() == self.deferrable_bytes
            && self.deferrable_bytes < ACKNOWLEDGMENT_BYTES_MAX;
        if can_wait {
            return Vec::new();
        }
        self.deferrable_bytes = 0;
        std::mem::take(&mut self.instructions)
    }

    /// Reads the field section that opens a request.
    #[inline]
    pub(super) fn read_head(
        &mut self,
        stream: StreamId,
        section: &[u8],
        store: &mut HeadStore,
    ) -> Result<Verdict, ErrorCode> {
        let mut uses_table = None;
        let verdict = store.read_request(Version::Http3, |strings, fields| {
            let decoded = self.decoder.decode(section, strings, |field| fields.take(field))?;
            uses_table = decoded.uses_table;
            Ok::<_, ErrorCode>(decoded.list)
        })?;
        self.acknowledge(stream, uses_table);
        Ok(verdict)
    }

    /// Reads a trailer section.
    #[cold]
    pub(super) fn read_trailers(
        &mut self,
        stream: StreamId,
        section: &[u8],
        store: &mut HeadStore,
    ) -> Result<Trailers, ErrorCode> {
        let mut uses_table = None;
        let trailers = store.read_trailers(|strings, fields| {
            let decoded = self.decoder.decode(section, strings, |field| fields.take(&field))?;
            uses_table = decoded.uses_table;
            Ok::<_, ErrorCode>(decoded.list)
        })?;
        self.acknowledge(stream, uses_table);
        Ok(trailers)
    }

    /// Notifies the peer that a section of a stream won't be decoded, because it may have used the table (RFC 9204 §2.2.2.2).
    pub(super) fn skip(&mut self, stream: StreamId) {
        self.decoder.cancel(&mut self.instructions, stream.number());
    }

    #[inline]
    fn acknowledge(&mut self, stream: StreamId, uses_table: Option<InsertCount>) {
        if let Some(count) = uses_table {
            let before = self.instructions.len();
            self.decoder.acknowledge(&mut self.instructions, stream.number(), count);
            self.deferrable_bytes += self.instructions.len() - before;
        }
    }
}
