//! Reads the peer's unidirectional streams (RFC 9114 §6.2): control, QPACK, and unknown ones.

use super::connection::Connection;
use super::control::Notice;
use super::error::ErrorCode;
use super::peer_streams::Purpose;
use super::stream_id::StreamId;
use crate::limits::INSTRUCTION_BYTES_PER_TOKEN;
use crate::request::head_store::HeadStore;

/// Whether we want to read more of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// There may be more to read.
    Continues,
    /// The stream type is unknown. The caller should ask the peer to stop sending, with this code (RFC 9114
    /// §6.2).
    Stops(ErrorCode),
}

impl Connection {
    /// Reads the next bytes of a unidirectional stream.
    ///
    /// # Errors
    ///
    /// The connection must be closed with the code.
    pub fn read_unidirectional(
        &mut self,
        stream: StreamId,
        mut input: &[u8],
        store: &mut HeadStore,
    ) -> Result<Reading, ErrorCode> {
        self.budget.set_time(store.seconds());
        // Since the stream's type can arrive in pieces, we might not know yet what the stream is for.
        let purpose = match self.peer_streams.purpose(stream) {
            Some(purpose) => purpose,
            None => {
                let Some(kind) = self.peer_streams.read_kind(stream, &mut input) else {
                    return Ok(Reading::Continues);
                };
                match self.peer_streams.assign(stream, kind)? {
                    Some(purpose) => purpose,
                    None => {
                        self.budget.charge_frame()?;
                        return Ok(Reading::Stops(ErrorCode::StreamCreation));
                    }
                }
            }
        };

        match purpose {
            Purpose::Control => self.read_control(input)?,
            Purpose::QpackEncoder => {
                self.charge_instructions(input)?;
                self.sections.read_encoder_stream(input, store)?;
            }
            Purpose::QpackDecoder => {
                self.charge_instructions(input)?;
                self.encoder.read_decoder_stream(input)?;
            }
        }
        Ok(Reading::Continues)
    }

    /// Handles the end or the reset of a unidirectional stream.
    ///
    /// # Errors
    ///
    /// RFC 9114 §6.2.1, RFC 9204 §4.2: this stream must stay open as long as the connection.
    pub fn end_unidirectional(&mut self, stream: StreamId) -> Result<(), ErrorCode> {
        if self.peer_streams.purpose(stream).is_some() {
            return Err(ErrorCode::ClosedCriticalStream);
        }
        self.peer_streams.forget(stream);
        Ok(self.budget.charge_frame()?)
    }

    fn read_control(&mut self, mut input: &[u8]) -> Result<(), ErrorCode> {
        loop {
            let Some(control) = self.peer_streams.control() else { return Ok(()) };
            let Some(notice) = control.next(&mut input)? else { return Ok(()) };
            match notice {
                Notice::Settings(settings) => self.encoder.set_peer_settings(settings.qpack_table_bytes),
                // RFC 9218 §7.2: the peer must not open this stream yet.
                Notice::Priority { stream, .. } if stream >= self.stream_limit => {
                    return Err(ErrorCode::Id);
                }
                Notice::Priority { stream, priority } => {
                    self.budget.charge_frame()?;
                    self.set_priority(stream, priority);
                }
                Notice::Other => self.budget.charge_frame()?,
            }
        }
    }

    /// Charges QPACK instructions by length because each takes at least a byte.
    fn charge_instructions(&mut self, instructions: &[u8]) -> Result<(), ErrorCode> {
        for _ in 0..instructions.len().div_ceil(INSTRUCTION_BYTES_PER_TOKEN) {
            self.budget.charge_frame()?;
        }
        Ok(())
    }
}
