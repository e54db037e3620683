//! The thread that writes the access log and reopens it on request.
//!
//! A log that is slow, full or not read should not affect the rest of the server. Callers never wait for a
//! write, with the exception of [`LogWriter::finish`], which waits only while the log makes progress.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use super::LogBuffer;
use super::failures::BrowserRequests;
use super::message::{BUFFERS, Control, Message};
use super::output::Output;
use crate::config::{AccessLog, LogFormat, LogTarget, NoticeHandler, TrustedProxies};
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::status::Status;
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// Time that a shutdown waits for a log that makes no progress.
const STALL_MAX: Duration = Duration::from_secs(1);

/// Time that a shutdown waits for a slow log.
const FINISH_MAX: Duration = Duration::from_secs(10);

/// The thread that writes an access log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    sender: SyncSender<Message>,
    format: LogFormat,
    proxies: Option<Arc<TrustedProxies>>,
    browser_requests: Arc<BrowserRequests>,
    control: Arc<Control>,
    /// Disconnected once the thread has exited.
    ended: Receiver<()>,
    on_notice: NoticeHandler,
}

/// Requests that the file is reopened.
#[derive(Debug, Clone)]
pub(crate) struct ReopenHandle {
    sender: SyncSender<Message>,
    control: Arc<Control>,
}

impl ReopenHandle {
    /// Requests that the file is reopened, without waiting for it.
    pub(crate) fn request(&self) {
        if !self.control.reopen.swap(true, Ordering::AcqRel) {
            // If the queue is full, then the thread is awake. It checks the flag after each message.
            let _ = self.sender.try_send(Message::Reopen);
        }
    }
}

/// An open log file, before the writer thread is started.
#[derive(Debug)]
pub(crate) struct LogFile {
    log: AccessLog,
    output: Output,
}

impl LogFile {
    /// Opens the log file.
    pub(crate) fn open(log: &AccessLog) -> Result<LogFile, StartError> {
        let failed = |source| StartError::AccessLog { target: log.target.clone(), source };
        Ok(LogFile { log: log.clone(), output: Output::open(&log.target).map_err(failed)? })
    }

    /// Starts the writer thread. The queue has enough capacity for the buffers of `workers` workers.
    pub(crate) fn start(
        self,
        workers: usize,
        status: Arc<Status>,
        on_notice: NoticeHandler,
        sandbox: &Sandbox,
    ) -> Result<LogWriter, StartError> {
        let LogFile { log: AccessLog { target, format, proxies }, output } = self;
        // This is enough for all buffers that exist, so workers never find the queue full.
        let (sender, messages) = sync_channel(workers * (BUFFERS + 1) + 2);
        let (ending, ended) = channel();
        let control = Arc::new(Control::default());
        let mut thread = Thread {
            output,
            target,
            control: Arc::clone(&control),
            status,
            on_notice: on_notice.clone(),
            is_failing: false,
            _ending: ending,
        };
        thread::start("access-log", sandbox, ThreadRole::Log, move || thread.run(&messages))?;
        let proxies = proxies.map(Arc::new);
        let browser_requests = Arc::default();
        Ok(LogWriter { sender, format, proxies, browser_requests, control, ended, on_notice })
    }
}

impl LogWriter {
    /// Returns a buffer for a worker.
    pub(crate) fn buffer(&self) -> LogBuffer {
        let browser_requests = Arc::clone(&self.browser_requests);
        LogBuffer::new(self.format, self.proxies.clone(), self.sender.clone(), browser_requests)
    }

    /// Returns a handle for requesting that the file is reopened.
    pub(crate) fn reopen_handle(&self) -> ReopenHandle {
        ReopenHandle { sender: self.sender.clone(), control: Arc::clone(&self.control) }
    }

    /// Waits until all lines have been written, giving up if the log is too slow. Must be called after the
    /// workers have exited.
    pub(crate) fn finish(self) {
        // The signal thread might still have a sender, so it is not sufficient to drop ours.
        let _ = self.sender.try_send(Message::End);
        let began = Instant::now();
        let progress = || self.control.progress.load(Ordering::Relaxed);
        let mut before = progress();
        while self.ended.recv_timeout(STALL_MAX) == Err(RecvTimeoutError::Timeout) {
            let now = progress();
            if now == before || began.elapsed() > FINISH_MAX {
                // Give up. The thread will exit with the process.
                (self.on_notice.0)(&Notice::LogAbandoned);
                return;
            }
            before = now;
        }
    }
}

/// State of the writer thread.
struct Thread {
    output: Output,
    target: LogTarget,
    control: Arc<Control>,
    status: Arc<Status>,
    on_notice: NoticeHandler,
    is_failing: bool,
    _ending: Sender<()>,
}

impl Thread {
    /// Writes lines until it gets a [`Message::End`] or all senders have been dropped.
    fn run(&mut self, messages: &Receiver<Message>) {
        for message in messages {
            self.reopen_if_requested();
            match &message {
                Message::Lines { bytes, .. } => self.write(bytes),
                Message::Reopen => {}
                Message::End => return,
            }
            message.return_buffer();
            self.reopen_if_requested();
        }
    }

    fn write(&mut self, lines: &[u8]) {
        let outcome = self.output.write(lines, &self.control);
        let outcome = outcome.map_err(|failed| {
            self.status.lose_log_lines(failed.lines);
            failed.cause
        });
        self.report(&outcome);
    }

    fn reopen_if_requested(&mut self) {
        if self.control.reopen.swap(false, Ordering::AcqRel) {
            let outcome = Output::open(&self.target).map(|opened| self.output = opened);
            self.report(&outcome);
        }
    }

    /// Reports the first failure, and the first success after that.
    fn report(&mut self, outcome: &io::Result<()>) {
        match outcome {
            Ok(()) if self.is_failing => (self.on_notice.0)(&Notice::LogWritten),
            Err(error) if !self.is_failing => {
                (self.on_notice.0)(&Notice::LogFailed { why: error.to_string() });
            }
            _ => {}
        }
        self.is_failing = outcome.is_err();
    }
}
