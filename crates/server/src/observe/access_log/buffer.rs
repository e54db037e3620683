//! The lines of one worker that are not handed over yet.
//!
//! Buffers go to the thread that writes and come back empty: the worker makes them at its start, and none later.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cannery_wire::RequestLine;

use super::line::{Line, Moment};
use super::message::{BUFFERS, Message};
use super::{combined, failures, json};
use crate::config::{LogFormat, TrustedProxies};
use crate::observe::request_log::{LoggedRequest, RefusedRequest};

/// Lines are handed over when they take so many bytes, or after a second. Each hand-over wakes a thread, and each
/// write asks for pages of the file: for so many lines at a time both cost next to nothing.
const HAND_OVER_BYTES: usize = 256 * 1024;

/// Bytes that a buffer has room for. Few lines are longer than what is left behind the last hand-over.
const BUFFER_BYTES: usize = HAND_OVER_BYTES + 4096;

/// The lines of one worker that are not handed over yet.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    bytes: Vec<u8>,
    lines: u64,
    /// Lines that could not be handed over since this was last asked.
    dropped: u64,
    format: LogFormat,
    /// Proxies that are believed when they name a client.
    proxies: Option<Arc<TrustedProxies>>,
    /// When the loop woke up for the requests that are answered now.
    turn_began: Instant,
    /// The time as the format spells it, made once a second.
    time: Vec<u8>,
    seconds: u64,
    writer: SyncSender<Message>,
    /// Where buffers come back, and the way there.
    spare: Receiver<Vec<u8>>,
    back: SyncSender<Vec<u8>>,
}

impl LogBuffer {
    pub(super) fn new(
        format: LogFormat,
        proxies: Option<Arc<TrustedProxies>>,
        writer: SyncSender<Message>,
    ) -> LogBuffer {
        let (back, spare) = sync_channel(BUFFERS);
        let buffer = || Vec::with_capacity(BUFFER_BYTES);
        // It has room for all of them.
        (1..BUFFERS).for_each(|_| drop(back.try_send(buffer())));
        LogBuffer {
            bytes: buffer(),
            lines: 0,
            dropped: 0,
            format,
            proxies,
            turn_began: Instant::now(),
            time: Vec::with_capacity(32),
            seconds: u64::MAX,
            writer,
            spare,
            back,
        }
    }

    /// The loop has woken up.
    pub(crate) fn begin_turn(&mut self, now: Instant) {
        self.turn_began = now;
    }

    pub(crate) fn set_time(&mut self, seconds: u64) {
        if seconds != self.seconds {
            self.seconds = seconds;
            self.time.clear();
            match self.format {
                LogFormat::Combined => combined::spell_time(&mut self.time, seconds),
                LogFormat::Json => json::spell_time(&mut self.time, seconds),
                LogFormat::Failures => {}
            }
        }
    }

    pub(crate) fn write(&mut self, answered: &LoggedRequest<'_>) {
        let client = match &self.proxies {
            Some(proxies) => proxies.client(answered.peer, answered.head.field_lines),
            None => answered.peer,
        };
        let is_json = self.format == LogFormat::Json;
        let head = answered.head;
        self.write_line(&Line {
            client,
            tls: answered.tls,
            request: Some(RequestLine::of_head(head)),
            host: head.request.host,
            referer: head.referer,
            user_agent: head.user_agent,
            status: answered.response.status(),
            bytes: answered.response.content_bytes(),
            coding: if is_json { answered.response.coding() } else { None },
        });
    }

    pub(in crate::observe) fn write_refused(&mut self, refused: &RefusedRequest<'_>) {
        let head = refused.head;
        let client = match (&self.proxies, head) {
            (Some(proxies), Some(head)) => proxies.client(refused.peer, head.field_lines),
            _ => refused.peer,
        };
        self.write_line(&Line {
            client,
            tls: refused.tls,
            request: refused.line,
            host: head.and_then(|head| head.request.host),
            referer: head.and_then(|head| head.referer),
            user_agent: head.and_then(|head| head.user_agent),
            status: refused.refusal.status(),
            bytes: refused.content_bytes,
            coding: None,
        });
    }

    fn write_line(&mut self, line: &Line<'_>) {
        match self.format {
            LogFormat::Failures if line.status < 400 => return,
            LogFormat::Failures => failures::spell(&mut self.bytes, line),
            LogFormat::Combined => combined::spell(&mut self.bytes, line, &self.time),
            LogFormat::Json => {
                let moment = self.moment();
                json::spell(&mut self.bytes, line, &self.time, moment);
            }
        }
        self.lines += 1;
        if self.bytes.len() >= HAND_OVER_BYTES {
            self.send();
        }
    }

    /// The present. Only a format that needs more than the second of the loop's clock asks for it.
    fn moment(&mut self) -> Moment {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.set_time(now.as_secs());
        Moment { milliseconds: now.subsec_millis(), duration: self.turn_began.elapsed() }
    }

    pub(in crate::observe) fn has_lines(&self) -> bool {
        self.lines > 0
    }

    /// Hands all lines over; tells how many were dropped since this was last asked.
    pub(crate) fn hand_over(&mut self) -> u64 {
        if self.has_lines() {
            self.send();
        }
        std::mem::take(&mut self.dropped)
    }

    /// Hands the lines over, or drops them where those before are not written yet.
    fn send(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let Ok(next) = self.spare.try_recv() else {
            self.bytes.clear();
            self.dropped += lines;
            return;
        };
        let bytes = std::mem::replace(&mut self.bytes, next);
        match self.writer.try_send(Message::Lines { bytes, back: self.back.clone() }) {
            Ok(()) => {}
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => {
                self.dropped += lines;
                message.give_back();
            }
        }
    }

    /// Hands the last lines over. Returns how many lines were dropped since the last call that asked for it.
    pub(crate) fn finish(&mut self) -> u64 {
        let bytes = std::mem::take(&mut self.bytes);
        let lines = std::mem::take(&mut self.lines);
        if !bytes.is_empty()
            && self.writer.try_send(Message::Lines { bytes, back: self.back.clone() }).is_err()
        {
            self.dropped += lines;
        }
        std::mem::take(&mut self.dropped)
    }
}
