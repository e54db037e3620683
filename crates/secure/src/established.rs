//! A session whose handshake is done: content both ways, and the little that TLS says besides.
//!
//! Beside content a peer may send alerts, in TLS 1.3 a new key (RFC 8446 §4.6.3), in TLS 1.2 a hello to shake hands again,
//! which is refused (RFC 5246 §7.2.2). Everything else ends the session. What is not content costs budget.

use std::io::IoSlice;

use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;

use crate::record::{self, ALERT, APPLICATION_DATA, Form, HANDSHAKE, Protection, Unopened};
use crate::record_split::{Growth, Runs};
use crate::{Failure, Opened, limits};

/// Levels of alerts, and the alerts that are known here (RFC 8446 §6).
const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
const BAD_RECORD_MAC: u8 = 20;
const RECORD_OVERFLOW: u8 = 22;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const INTERNAL_ERROR: u8 = 80;
const USER_CANCELED: u8 = 90;
const NO_RENEGOTIATION: u8 = 100;

/// The start of a KeyUpdate: its type, and a length of one. One byte says whether ours is asked for in return.
const KEY_UPDATE: [u8; 4] = [24, 0, 0, 1];

/// The type of a hello, with which TLS 1.2 would shake hands again.
const CLIENT_HELLO: u8 = 1;

/// Keys of both directions, and what was said besides content.
pub(crate) struct Established {
    opening: Protection,
    sealing: Protection,
    /// What makes new keys in TLS 1.3.
    keys: Option<Box<KernelConnection<ServerConnectionData>>>,
    growth: Growth,
    /// How much is there of a KeyUpdate that comes in parts.
    update_bytes: u8,
    /// Records without content since the last with some.
    barren_records: u8,
    has_closed: bool,
}

impl Established {
    pub(crate) fn new(
        opening: Protection,
        sealing: Protection,
        keys: Option<Box<KernelConnection<ServerConnectionData>>>,
    ) -> Self {
        Self {
            opening,
            sealing,
            keys,
            growth: Growth::default(),
            update_bytes: 0,
            barren_records: 0,
            has_closed: false,
        }
    }

    /// Lets the key that seals be used up after so many records.
    #[cfg(test)]
    pub(crate) fn limit_key(&mut self, records: u64) {
        self.sealing.limit(records);
    }

    /// Opens the records in `input` from `opened.used` on. On failure the alert is in `sealed`.
    pub(crate) fn open(
        &mut self,
        input: &mut [u8],
        opened: &mut Opened,
        plain: &mut Vec<u8>,
        sealed: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        while !opened.has_ended {
            let rest = &mut input[opened.used..];
            let Some(length) = record::length(rest) else { return Ok(()) };
            if length > self.opening.form().record_bytes_max() {
                return Err(self.fail(RECORD_OVERFLOW, "a record is too long", sealed));
            }
            let Some(record) = rest.get_mut(..length) else { return Ok(()) };
            opened.used += length;
            self.open_record(record, opened, plain, sealed)?;
        }
        opened.used = input.len();
        Ok(())
    }

    fn open_record(
        &mut self,
        record: &mut [u8],
        opened: &mut Opened,
        plain: &mut Vec<u8>,
        sealed: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let (kind, content) = match self.opening.open(record) {
            Ok(content) => content,
            Err(why) => return Err(self.refuse(why, sealed)),
        };
        if kind == APPLICATION_DATA && self.update_bytes == 0 && !content.is_empty() {
            self.barren_records = 0;
            plain.extend_from_slice(content);
            return Ok(());
        }
        self.barren_records += 1;
        if self.barren_records > limits::BARREN_RECORDS_MAX {
            return Err(self.fail(UNEXPECTED_MESSAGE, "too many records without content", sealed));
        }
        match (kind, self.opening.form()) {
            (APPLICATION_DATA, _) if self.update_bytes == 0 => Ok(()),
            (ALERT, _) if self.update_bytes == 0 && !content.is_empty() => {
                self.take_alert(content, opened, sealed)
            }
            (HANDSHAKE, Form::Tls13) => self.take_update(content, sealed),
            (HANDSHAKE, _) if content.first() == Some(&CLIENT_HELLO) => {
                self.seal_record(ALERT, &[WARNING, NO_RENEGOTIATION], sealed)
            }
            _ => Err(self.fail(UNEXPECTED_MESSAGE, "a record of a kind that cannot come now", sealed)),
        }
    }

    /// Takes an alert (RFC 8446 §6): the end, a warning that means nothing, or the failure of the peer.
    fn take_alert(
        &mut self,
        content: &[u8],
        opened: &mut Opened,
        sealed: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let is_tls13 = self.opening.form() == Form::Tls13;
        match *content {
            [_, CLOSE_NOTIFY] => opened.has_ended = true,
            [WARNING, _] if !is_tls13 => {}
            // In TLS 1.3 the level says nothing, and a close_notify follows.
            [_, USER_CANCELED] if is_tls13 => {}
            [WARNING | FATAL, alert] => {
                self.has_closed = true;
                return Err(Failure::Alert(name_of(alert)));
            }
            _ => return Err(self.fail(DECODE_ERROR, "an alert that is none", sealed)),
        }
        Ok(())
    }

    /// Takes a part of a KeyUpdate, or the whole, which nothing may follow in its record (RFC 8446 §5.1).
    fn take_update(&mut self, content: &[u8], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        if content.is_empty() {
            return Err(self.fail(UNEXPECTED_MESSAGE, "an empty part of a handshake", sealed));
        }
        for (place, &byte) in content.iter().enumerate() {
            let have = usize::from(self.update_bytes);
            if let Some(&expected) = KEY_UPDATE.get(have) {
                if byte != expected {
                    let (alert, why) = match have {
                        0 => (UNEXPECTED_MESSAGE, "a handshake that cannot come now"),
                        _ => (DECODE_ERROR, "a KeyUpdate of a wrong length"),
                    };
                    return Err(self.fail(alert, why, sealed));
                }
                self.update_bytes += 1;
                continue;
            }
            if place + 1 != content.len() {
                return Err(self.fail(UNEXPECTED_MESSAGE, "something behind a new key", sealed));
            }
            self.update_bytes = 0;
            match byte {
                0 => self.renew_opening(sealed)?,
                1 => {
                    self.renew_opening(sealed)?;
                    self.renew_sealing(sealed)?;
                }
                _ => return Err(self.fail(ILLEGAL_PARAMETER, "a KeyUpdate of an unknown kind", sealed)),
            }
        }
        Ok(())
    }

    fn renew_opening(&mut self, sealed: &mut Vec<u8>) -> Result<(), Failure> {
        let next = self.keys.as_mut().and_then(|keys| keys.update_rx_secret().ok());
        match next.and_then(|(sequence, secrets)| Protection::new(true, sequence, &secrets)) {
            Some(next) => self.opening = next,
            None => return Err(self.fail(INTERNAL_ERROR, "no new key could be made", sealed)),
        }
        Ok(())
    }

    /// Tells the peer of a new key, and seals with that from here on.
    fn renew_sealing(&mut self, sealed: &mut Vec<u8>) -> Result<(), Failure> {
        let keys = self.keys.as_mut().ok_or(Failure::KeyUsedUp)?;
        let (sequence, secrets) = keys.update_tx_secret()?;
        let next = Protection::new(true, sequence, &secrets).ok_or(Failure::KeyUsedUp)?;
        let [kind, high, middle, low] = KEY_UPDATE;
        self.seal_record(HANDSHAKE, &[kind, high, middle, low, 0], sealed)?;
        self.sealing = next;
        Ok(())
    }

    /// Seals `runs` into records of content. Behind a close_notify or a fatal alert nothing may follow.
    pub(crate) fn seal(&mut self, runs: &[IoSlice<'_>], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        if self.has_closed {
            return Err(Failure::Internal("nothing can be sealed behind the end".to_owned()));
        }
        let mut runs = Runs::new(runs);
        while runs.left() > 0 {
            if self.sealing.is_used_up() {
                self.renew_sealing(sealed)?;
            }
            let length = runs.next_length(self.growth.content_bytes_max(runs.left()));
            let start = sealed.len();
            sealed.resize(start + length + self.sealing.form().overhead(), 0);
            let room = &mut sealed[start..];
            match runs.whole(length) {
                Some(content) => self.sealing.seal(APPLICATION_DATA, content, room),
                None => self.sealing.seal_gathered(APPLICATION_DATA, room, |room| runs.copy(room)),
            }
            .ok_or_else(not_sealed)?;
            self.growth.add(length);
        }
        Ok(())
    }

    /// Whether the connection should end soon, because the key that seals is almost used up and there is no other.
    pub(crate) fn is_wearing_out(&self) -> bool {
        self.keys.is_none() && self.sealing.records_left() <= limits::KEY_RECORDS_LEFT
    }

    /// Lets records begin small again.
    pub(crate) fn rest(&mut self) {
        self.growth = Growth::default();
    }

    /// Seals a close_notify, once.
    pub(crate) fn close(&mut self, sealed: &mut Vec<u8>) {
        // If the key cannot even do that the end of the connection must say it.
        let _ = self.seal_record(ALERT, &[WARNING, CLOSE_NOTIFY], sealed);
        self.has_closed = true;
    }

    /// Seals the alert for a record that could not be opened.
    fn refuse(&mut self, why: Unopened, sealed: &mut Vec<u8>) -> Failure {
        match why {
            Unopened::Forged => {
                self.fail(BAD_RECORD_MAC, "", sealed);
                Failure::Damaged
            }
            Unopened::TooLong => self.fail(RECORD_OVERFLOW, "a record is too long", sealed),
            Unopened::Untyped => self.fail(UNEXPECTED_MESSAGE, "a record of no type", sealed),
        }
    }

    /// Seals the alert for a part of a handshake behind its end, which would be opened with another key.
    pub(crate) fn refuse_fragment(&mut self, sealed: &mut Vec<u8>) -> Failure {
        self.fail(UNEXPECTED_MESSAGE, "something behind the end of the handshake", sealed)
    }

    /// Seals a fatal alert, after which nothing follows. Returns the failure.
    fn fail(&mut self, alert: u8, why: &str, sealed: &mut Vec<u8>) -> Failure {
        let _ = self.seal_record(ALERT, &[FATAL, alert], sealed);
        self.has_closed = true;
        Failure::Misbehaved(why.to_owned())
    }

    /// Seals a record that is not content; nothing behind a close_notify or a fatal alert.
    fn seal_record(&mut self, kind: u8, content: &[u8], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        if self.has_closed {
            return Ok(());
        }
        let start = sealed.len();
        sealed.resize(start + content.len() + self.sealing.form().overhead(), 0);
        self.sealing.seal(kind, content, &mut sealed[start..]).ok_or_else(not_sealed)
    }
}

fn not_sealed() -> Failure {
    Failure::Internal("a record could not be sealed".to_owned())
}

/// What an alert is called, for the log.
pub(crate) fn name_of(alert: u8) -> String {
    format!("{:?}", rustls::AlertDescription::from(alert))
}

#[cfg(test)]
mod tests;
