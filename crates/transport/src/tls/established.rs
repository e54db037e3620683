//! A session after the handshake, with application data in both directions as well as TLS's own
//! messages.
//!
//! Apart from application data, a peer may send alerts. In addition, it may send key updates in TLS 1.3 (RFC
//! 8446 §4.6.3), or a hello to renegotiate in TLS 1.2, which we refuse (RFC 5246 §7.2.2). Anything else ends
//! the session. We also limit the number of consecutive records without application data.

use std::io::IoSlice;

use rustls::AlertDescription;

use super::record::{self, ALERT, APPLICATION_DATA, HANDSHAKE, OpenError, RecordFormat, RecordProtection};
use super::record_split::{RecordSizing, Runs};
use super::rustls_connection::{KeySchedule, TrafficKeys};
use crate::{Failure, OpenOutcome, limits};

// Alert levels (RFC 8446 §6).
const WARNING: u8 = 1;
const FATAL: u8 = 2;

/// A KeyUpdate (type 24, length 1) without the last byte, which tells if we should also send a
/// KeyUpdate.
const KEY_UPDATE: [u8; 4] = [24, 0, 0, 1];

/// Handshake type of a hello. A TLS 1.2 client sends one to renegotiate.
const CLIENT_HELLO: u8 = 1;

/// An established session: the keys for both directions, and the state of TLS messages.
pub(super) struct Established {
    opening: RecordProtection,
    sealing: RecordProtection,
    /// Derives the next keys. `None` in TLS 1.2, which does not have key updates.
    schedule: Option<KeySchedule>,
    sizing: RecordSizing,
    /// Bytes received so far of a KeyUpdate that is split across records.
    key_update_bytes: u8,
    /// Records received since the last one with application data.
    empty_records: u8,
    /// Whether a close_notify or a fatal alert was sent or received, after which no more records may be
    /// sent.
    write_closed: bool,
}

impl Established {
    pub(super) fn new(TrafficKeys { opening, sealing, schedule }: TrafficKeys) -> Self {
        Self {
            opening,
            sealing,
            schedule,
            sizing: RecordSizing::default(),
            key_update_bytes: 0,
            empty_records: 0,
            write_closed: false,
        }
    }

    /// Limits the sealing key to `records` more records.
    #[cfg(test)]
    pub(super) fn limit_key(&mut self, records: u64) {
        self.sealing.limit(records);
    }

    /// Opens the records in `input`, starting at `outcome.consumed`. In case of an error, the alert is
    /// appended to `sealed`.
    pub(super) fn open(
        &mut self,
        input: &mut [u8],
        outcome: &mut OpenOutcome,
        plain: &mut Vec<u8>,
        sealed: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        while !outcome.peer_has_closed {
            let rest = &mut input[outcome.consumed..];
            let Some(length) = record::length(rest) else { return Ok(()) };
            if length > self.opening.format().record_bytes_max() {
                return Err(self.fail(AlertDescription::RecordOverflow, "a record is too long", sealed));
            }
            let Some(record) = rest.get_mut(..length) else { return Ok(()) };
            outcome.consumed += length;
            self.open_record(record, outcome, plain, sealed)?;
        }
        // Anything after the close_notify is ignored (RFC 8446 §6.1).
        outcome.consumed = input.len();
        Ok(())
    }

    fn open_record(
        &mut self,
        record: &mut [u8],
        outcome: &mut OpenOutcome,
        plain: &mut Vec<u8>,
        sealed: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let (kind, content) = match self.opening.open(record) {
            Ok(content) => content,
            Err(error) => return Err(self.refuse(error, sealed)),
        };
        // Nearly all records are application data.
        if kind == APPLICATION_DATA && self.key_update_bytes == 0 && !content.is_empty() {
            self.empty_records = 0;
            plain.extend_from_slice(content);
            return Ok(());
        }

        self.empty_records += 1;
        if self.empty_records > limits::EMPTY_RECORDS_MAX {
            return Err(self.fail(
                AlertDescription::UnexpectedMessage,
                "too many records without content",
                sealed,
            ));
        }

        match (kind, self.opening.format()) {
            (APPLICATION_DATA, _) if self.key_update_bytes == 0 => Ok(()),
            (ALERT, _) if self.key_update_bytes == 0 && !content.is_empty() => {
                self.on_alert(content, outcome, sealed)
            }
            (HANDSHAKE, RecordFormat::Tls13) => self.on_key_update(content, sealed),
            (HANDSHAKE, _) if content.first() == Some(&CLIENT_HELLO) => {
                self.seal_record(ALERT, &[WARNING, AlertDescription::NoRenegotiation.into()], sealed)
            }
            _ => Err(self.fail(
                AlertDescription::UnexpectedMessage,
                "a record of a kind that cannot come now",
                sealed,
            )),
        }
    }

    /// Processes an alert (RFC 8446 §6), which can be the end, a failure of the peer, or a warning without
    /// any effect.
    fn on_alert(
        &mut self,
        content: &[u8],
        outcome: &mut OpenOutcome,
        sealed: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let is_tls13 = self.opening.format() == RecordFormat::Tls13;
        let &[level, description] = content else {
            return Err(self.fail(AlertDescription::DecodeError, "a malformed alert", sealed));
        };
        match (level, AlertDescription::from(description)) {
            (_, AlertDescription::CloseNotify) => outcome.peer_has_closed = true,
            (WARNING, _) if !is_tls13 => {}
            // TLS 1.3 ignores the level. A close_notify will follow.
            (_, AlertDescription::UserCanceled) if is_tls13 => {}
            (WARNING | FATAL, alert) => {
                self.write_closed = true;
                return Err(Failure::Alert(format!("{alert:?}")));
            }
            _ => return Err(self.fail(AlertDescription::DecodeError, "a malformed alert", sealed)),
        }
        Ok(())
    }

    /// Processes a KeyUpdate or a part of one. It MUST be the last message in a record (RFC 8446 §5.1).
    fn on_key_update(&mut self, content: &[u8], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        if content.is_empty() {
            return Err(self.fail(
                AlertDescription::UnexpectedMessage,
                "an empty handshake fragment",
                sealed,
            ));
        }
        // A KeyUpdate can be split across records, so look at each byte.
        for (position, &byte) in content.iter().enumerate() {
            let received = usize::from(self.key_update_bytes);
            if let Some(&expected) = KEY_UPDATE.get(received) {
                if byte != expected {
                    let (alert, why) = match received {
                        0 => {
                            (AlertDescription::UnexpectedMessage, "a handshake message that cannot come now")
                        }
                        _ => (AlertDescription::DecodeError, "a KeyUpdate of a wrong length"),
                    };
                    return Err(self.fail(alert, why, sealed));
                }
                self.key_update_bytes += 1;
                continue;
            }

            // Nothing may follow because it would have been sealed with the old key.
            if position + 1 != content.len() {
                return Err(self.fail(AlertDescription::UnexpectedMessage, "data after a KeyUpdate", sealed));
            }
            self.key_update_bytes = 0;
            match byte {
                0 => self.update_opening_key(sealed)?,
                1 => {
                    self.update_opening_key(sealed)?;
                    self.update_sealing_key(sealed)?;
                }
                _ => {
                    return Err(self.fail(
                        AlertDescription::IllegalParameter,
                        "a KeyUpdate of an unknown kind",
                        sealed,
                    ));
                }
            }
        }
        Ok(())
    }

    fn update_opening_key(&mut self, sealed: &mut Vec<u8>) -> Result<(), Failure> {
        match self.schedule.as_mut().and_then(|schedule| schedule.next_opening().ok()) {
            Some(next) => self.opening = next,
            None => {
                return Err(self.fail(
                    AlertDescription::InternalError,
                    "no new key could be derived",
                    sealed,
                ));
            }
        }
        Ok(())
    }

    /// Tells the peer about a new key, and uses it to seal from now on.
    fn update_sealing_key(&mut self, sealed: &mut Vec<u8>) -> Result<(), Failure> {
        let next = self.schedule.as_mut().ok_or(Failure::KeyExhausted)?.next_sealing()?;

        let [kind, high, middle, low] = KEY_UPDATE;
        let update_not_requested = 0;
        self.seal_record(HANDSHAKE, &[kind, high, middle, low, update_not_requested], sealed)?;
        self.sealing = next;
        Ok(())
    }

    /// Seals `runs` into application data records. Fails after a close_notify or a fatal alert.
    pub(super) fn seal(&mut self, runs: &[IoSlice<'_>], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        if self.write_closed {
            return Err(Failure::Internal("nothing can be sealed after the session was closed".to_owned()));
        }

        let mut runs = Runs::new(runs);
        while runs.remaining() > 0 {
            if self.sealing.is_exhausted() {
                self.update_sealing_key(sealed)?;
            }

            let length = runs.next_length(self.sizing.content_bytes_max(runs.remaining()));
            let start = sealed.len();
            sealed.resize(start + length + self.sealing.format().overhead(), 0);
            let record = &mut sealed[start..];
            // Do not copy the content unless it comes from several runs.
            match runs.take_contiguous(length) {
                Some(content) => self.sealing.seal(APPLICATION_DATA, content, record),
                None => self.sealing.seal_with(APPLICATION_DATA, record, |content| runs.copy_to(content)),
            }
            .ok_or_else(seal_failed)?;
            self.sizing.add(length);
        }
        Ok(())
    }

    /// Returns `true` if the sealing key is close to its limit and cannot be updated.
    pub(super) fn is_near_key_limit(&self) -> bool {
        self.schedule.is_none() && self.sealing.records_left() <= limits::KEY_RECORDS_LEFT
    }

    /// Goes back to small records.
    pub(super) fn reset_record_size(&mut self) {
        self.sizing = RecordSizing::default();
    }

    /// Seals a close_notify, unless that was done before.
    pub(super) fn close(&mut self, sealed: &mut Vec<u8>) {
        // If the key is exhausted, the peer can only see that the connection is closed.
        let _ = self.seal_record(ALERT, &[WARNING, AlertDescription::CloseNotify.into()], sealed);
        self.write_closed = true;
    }

    /// Seals the alert for a record that could not be opened.
    fn refuse(&mut self, error: OpenError, sealed: &mut Vec<u8>) -> Failure {
        match error {
            OpenError::BadMac => {
                self.seal_fatal_alert(AlertDescription::BadRecordMac, sealed);
                Failure::Damaged
            }
            OpenError::Overflow => {
                self.fail(AlertDescription::RecordOverflow, "a record is too long", sealed)
            }
            OpenError::NoType => {
                self.fail(AlertDescription::UnexpectedMessage, "a record without a type", sealed)
            }
        }
    }

    /// Seals the alert for a handshake fragment after the handshake, which would have to be opened with
    /// another key.
    pub(super) fn refuse_fragment(&mut self, sealed: &mut Vec<u8>) -> Failure {
        self.fail(AlertDescription::UnexpectedMessage, "data after the end of the handshake", sealed)
    }

    /// Seals a fatal alert. Returns the error for a peer that has violated the protocol.
    fn fail(&mut self, alert: AlertDescription, why: &str, sealed: &mut Vec<u8>) -> Failure {
        self.seal_fatal_alert(alert, sealed);
        Failure::Misbehaved(why.to_owned())
    }

    /// Seals a fatal alert. This is the last record that we send.
    fn seal_fatal_alert(&mut self, alert: AlertDescription, sealed: &mut Vec<u8>) {
        // If the key is exhausted, the peer can only see that the connection is closed.
        let _ = self.seal_record(ALERT, &[FATAL, alert.into()], sealed);
        self.write_closed = true;
    }

    /// Seals a record that is not application data, unless a close_notify or a fatal alert was sent or
    /// received before.
    fn seal_record(&mut self, kind: u8, content: &[u8], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        if self.write_closed {
            return Ok(());
        }
        let start = sealed.len();
        sealed.resize(start + content.len() + self.sealing.format().overhead(), 0);
        self.sealing.seal(kind, content, &mut sealed[start..]).ok_or_else(seal_failed)
    }
}

fn seal_failed() -> Failure {
    Failure::Internal("a record could not be sealed".to_owned())
}

#[cfg(test)]
mod tests;
