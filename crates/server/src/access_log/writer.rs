//! The thread that writes lines to the file, and opens it anew when told so.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::LogBuffer;
use crate::cage::{Cage, Role};
use crate::config::{AccessLog, Listener, LogFormat, LogTarget};
use crate::error::StartError;
use crate::notice::Notice;
use crate::thread;

/// Buffers of lines that may wait to be written, all workers together: sixteen megabytes.
const WAITING_MAX: usize = 64;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Message {
    /// Whole lines, and where their buffer goes afterwards.
    Lines { bytes: Vec<u8>, back: SyncSender<Vec<u8>> },
    /// The file may have another name by now.
    Reopen,
    /// No more lines will come.
    End,
}

impl Message {
    /// Empties the buffer, and gives it to the worker that it is of.
    pub(super) fn give_back(self) {
        if let Message::Lines { mut bytes, back } = self {
            bytes.clear();
            // It fails only where the worker has ended.
            let _ = back.try_send(bytes);
        }
    }
}

/// The thread that writes an access log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    sender: SyncSender<Message>,
    format: LogFormat,
    thread: JoinHandle<()>,
}

/// Orders the file to be opened anew.
#[derive(Debug, Clone)]
pub(crate) struct Reopen(SyncSender<Message>);

impl Reopen {
    pub(crate) fn order(&self) {
        // It fails only where nobody writes any more.
        let _ = self.0.send(Message::Reopen);
    }
}

/// The file of a log, which nobody writes to yet.
#[derive(Debug)]
pub(crate) struct LogFile {
    log: AccessLog,
    output: Output,
}

impl LogFile {
    /// Opens the file.
    pub(crate) fn open(log: &AccessLog) -> Result<LogFile, StartError> {
        let failed = |source| StartError::AccessLog { target: log.target.clone(), source };
        Ok(LogFile { log: log.clone(), output: Output::open(&log.target).map_err(failed)? })
    }

    /// Starts the thread that writes to it.
    pub(crate) fn start(self, listener: Listener, cage: &Cage) -> Result<LogWriter, StartError> {
        let LogFile { log: AccessLog { target, format }, output } = self;
        let (sender, messages) = sync_channel(WAITING_MAX);
        let life = move || write(&messages, output, &target, &listener);
        let thread = thread::start("access-log", cage, Role::Log, life)?;
        Ok(LogWriter { sender, format, thread })
    }
}

impl LogWriter {
    /// A buffer for one worker.
    pub(crate) fn buffer(&self) -> LogBuffer {
        LogBuffer::new(self.format, self.sender.clone())
    }

    pub(crate) fn reopen(&self) -> Reopen {
        Reopen(self.sender.clone())
    }

    /// Waits until all lines are written. The buffers are gone by then.
    pub(crate) fn finish(self) {
        // Whoever waits for signals may still hold the order to reopen: so the end is said aloud.
        let _ = self.sender.send(Message::End);
        drop(self.sender);
        let _ = self.thread.join();
    }
}

#[derive(Debug)]
enum Output {
    File(File),
    Stdout(io::Stdout),
    Stderr(io::Stderr),
}

impl Output {
    fn open(target: &LogTarget) -> io::Result<Output> {
        match target {
            LogTarget::Stdout => Ok(Output::Stdout(io::stdout())),
            LogTarget::Stderr => Ok(Output::Stderr(io::stderr())),
            LogTarget::File(path) => {
                OpenOptions::new().append(true).create(true).open(path).map(Output::File)
            }
        }
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Output::File(file) => file.write_all(lines),
            Output::Stdout(output) => output.write_all(lines).and_then(|()| output.flush()),
            Output::Stderr(output) => output.write_all(lines),
        }
    }
}

/// The life of the thread: ends when it is told to, or when everybody is gone.
fn write(messages: &Receiver<Message>, mut output: Output, target: &LogTarget, listener: &Listener) {
    let mut failing = false;
    for message in messages {
        let outcome = match &message {
            Message::Lines { bytes, .. } => output.write(bytes),
            Message::Reopen => Output::open(target).map(|opened| output = opened),
            Message::End => return,
        };
        message.give_back();
        // Said once, and once more when it works again.
        match &outcome {
            Ok(()) if failing => (listener.0)(&Notice::LogWritten),
            Err(error) if !failing => (listener.0)(&Notice::LogFailed { why: error.to_string() }),
            _ => {}
        }
        failing = outcome.is_err();
    }
}
