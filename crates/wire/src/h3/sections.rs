//! Decodes the peer's field sections and writes our QPACK decoder stream.

use super::error::ErrorCode;
use super::stream_id::StreamId;
use crate::compression::qpack::{Decoder, InsertCount};
use crate::request::head::Version;
use crate::request::head_store::{HeadStore, Trailers, Verdict};

/// We collect acknowledgments up to this length. If we sent each one at once, every response packet would carry another frame that
/// QUIC needs to keep track of. On the other hand, the peer's encoder cannot evict entries until we acknowledge the sections that
/// use them, so it might use literals for some requests.
const ACKNOWLEDGMENT_BYTES_MAX: usize = 32;

/// Reads the field sections of a connection.
#[derive(Debug, Default)]
pub(super) struct SectionReader {
    decoder: Decoder,
    /// Instructions to send on our decoder stream.
    instructions: Vec<u8>,
    /// Number of these bytes that can wait for more. Only section acknowledgments can.
    deferrable_bytes: usize,
}

impl SectionReader {
    pub(super) fn memory(&self) -> usize {
        self.decoder.memory() + self.instructions.capacity()
    }

    /// Reads instructions from the peer's encoder stream.
    pub(super) fn read_encoder_stream(
        &mut self,
        bytes: &[u8],
        store: &mut HeadStore,
    ) -> Result<(), ErrorCode> {
        Ok(self.decoder.read_encoder_stream(bytes, store.strings())?)
    }

    /// Takes bytes to send on our decoder stream. The result is empty if everything can wait.
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

    /// Tells the peer we will not decode a section. This is necessary because the section may refer to its table (RFC 9204
    /// §2.2.2.2).
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
