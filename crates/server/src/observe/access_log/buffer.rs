//! Access log lines of one worker that have not yet been sent to the writer thread.
//!
//! Buffers are sent to the writer thread and come back empty. All of them are allocated at the start of
//! the worker.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cannery_wire::RequestLine;

use super::failures::BrowserRequests;
use super::line::{Line, Moment};
use super::message::{BUFFERS, Message};
use super::{combined, failures, json};
use crate::config::{LogFormat, TrustedProxies};
use crate::observe::request_log::{Handled, LoggedRequest, RefusedRequest};

/// Lines are sent to the writer thread once they reach this size in bytes, even if a second has not passed
/// yet. Sending wakes up a thread, and each write allocates pages of the file; with this many lines, both
/// costs are negligible.
const FLUSH_BYTES: usize = 256 * 1024;

/// Capacity of a buffer, in bytes. Few lines are longer than the margin above [`FLUSH_BYTES`].
const BUFFER_BYTES: usize = FLUSH_BYTES + 4096;

/// Lines of one worker that have not been sent to the writer thread.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    bytes: Vec<u8>,
    lines: u64,
    /// Lines dropped since the last call of [`LogBuffer::flush`].
    dropped: u64,
    format: LogFormat,
    /// Proxies that we trust to tell us the client's address.
    proxies: Option<Arc<TrustedProxies>>,
    /// When the event loop woke up for the current requests.
    woken_at: Instant,
    /// Current time in the format of the log. It is encoded once a second.
    time: Vec<u8>,
    seconds: u64,
    writer: SyncSender<Message>,
    browser_requests: Arc<BrowserRequests>,
    /// Empty buffers from the writer thread, and the sender that it uses to return them.
    spare: Receiver<Vec<u8>>,
    back: SyncSender<Vec<u8>>,
}

impl LogBuffer {
    pub(super) fn new(
        format: LogFormat,
        proxies: Option<Arc<TrustedProxies>>,
        writer: SyncSender<Message>,
        browser_requests: Arc<BrowserRequests>,
    ) -> LogBuffer {
        let (back, spare) = sync_channel(BUFFERS);
        let buffer = || Vec::with_capacity(BUFFER_BYTES);
        // The channel has capacity for all buffers, so this never fails.
        for _ in 1..BUFFERS {
            let _ = back.try_send(buffer());
        }

        LogBuffer {
            bytes: buffer(),
            lines: 0,
            dropped: 0,
            format,
            proxies,
            woken_at: Instant::now(),
            time: Vec::with_capacity(32),
            seconds: u64::MAX,
            writer,
            browser_requests,
            spare,
            back,
        }
    }

    /// Records when the event loop woke up.
    pub(crate) fn begin_iteration(&mut self, now: Instant) {
        self.woken_at = now;
    }

    pub(crate) fn set_time(&mut self, seconds: u64) {
        if seconds != self.seconds {
            self.seconds = seconds;
            self.time.clear();
            match self.format {
                LogFormat::Combined => combined::encode_time(&mut self.time, seconds),
                LogFormat::Json => json::encode_time(&mut self.time, seconds),
                LogFormat::Failures => {}
            }
        }
    }

    pub(crate) fn write(&mut self, logged: &LoggedRequest<'_>) {
        let client = match &self.proxies {
            Some(proxies) => proxies.client(logged.peer, logged.head.field_lines),
            None => logged.peer,
        };
        let is_json = self.format == LogFormat::Json;
        let head = logged.head;
        self.write_line(&Line {
            client,
            tls: logged.tls,
            request: Some(RequestLine::from_head(head)),
            host: head.request.host,
            referer: head.referer,
            user_agent: head.user_agent,
            status: logged.response.status(),
            bytes: logged.response.content_bytes(),
            coding: if is_json { logged.response.coding() } else { None },
            handled: logged.handled,
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
            handled: Handled::default(),
        });
    }

    fn write_line(&mut self, line: &Line<'_>) {
        match self.format {
            LogFormat::Failures if line.status < 400 || !self.browser_requests.admits(line) => return,
            LogFormat::Failures => failures::encode(&mut self.bytes, line),
            LogFormat::Combined => combined::encode(&mut self.bytes, line, &self.time),
            LogFormat::Json => {
                let moment = self.moment(line.handled.waited);
                json::encode(&mut self.bytes, line, &self.time, moment);
            }
        }
        self.lines += 1;
        if self.bytes.len() >= FLUSH_BYTES {
            self.send();
        }
    }

    /// Reads the current time, for formats that need it more precisely than the seconds of the loop's
    /// clock.
    fn moment(&mut self, waited: Duration) -> Moment {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.set_time(now.as_secs());
        Moment { milliseconds: now.subsec_millis(), duration: waited + self.woken_at.elapsed() }
    }

    pub(in crate::observe) fn has_lines(&self) -> bool {
        self.lines > 0
    }

    /// Sends all lines to the writer thread. Returns the number of lines dropped since the last call.
    pub(crate) fn flush(&mut self) -> u64 {
        if self.has_lines() {
            self.send();
        }
        std::mem::take(&mut self.dropped)
    }

    /// Sends the lines to the writer thread, or drops them if all other buffers are still waiting to be
    /// written.
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
                message.return_buffer();
            }
        }
    }

    /// Sends the last lines to the writer thread. Returns the number of lines dropped since the last flush.
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
