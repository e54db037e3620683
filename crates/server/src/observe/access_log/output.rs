//! Destinations of log lines: a file, a FIFO, a device, standard output or standard error.
//!
//! A regular file should only contain whole lines. Therefore, if the disk is full and a line gets cut, its
//! beginning is removed again and the next line can start on its own. Opening never blocks, regardless of the
//! type of the file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::message::Control;
use crate::config::LogTarget;

/// We write to a pipe or device in pieces of at most this size, which is small enough to see the progress of
/// a slow reader.
const PIECE_BYTES: usize = 16 * 1024;

/// Pause before writing to a full FIFO again. Since the reader is slower than the requests anyway, noticing
/// free space a little late does no harm.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// An open log.
#[derive(Debug)]
pub(super) struct Output {
    file: File,
    is_regular: bool,
    /// If a line was cut and its beginning could not be removed, this contains the rest, which must be
    /// written before any other lines.
    rest: Vec<u8>,
}

/// Some lines could not be written.
#[derive(Debug)]
pub(super) struct WriteError {
    pub(super) cause: io::Error,
    /// Lines that were lost.
    pub(super) lines: u64,
}

impl Output {
    /// Opens the log for appending.
    pub(super) fn open(target: &LogTarget) -> io::Result<Output> {
        let file = match target {
            // `io::stdout` has a buffer and does not tell us the number of bytes written, so duplicate the
            // descriptor.
            LogTarget::Stdout => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            LogTarget::Stderr => File::from(io::stderr().as_fd().try_clone_to_owned()?),
            LogTarget::File(path) => {
                let mut options = OpenOptions::new();
                options.append(true).create(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
                options.open(path).map_err(|error| explain(error, path))?
            }
        };
        let is_regular = file.metadata()?.is_file();
        Ok(Output { file, is_regular, rest: Vec::new() })
    }

    /// Writes whole lines. A line counts as lost if the write fails in the middle of it.
    pub(super) fn write(&mut self, lines: &[u8], control: &Control) -> Result<(), WriteError> {
        let rest = std::mem::take(&mut self.rest);
        if let (written, Err(cause)) = self.write_bytes(&rest, control) {
            self.rest = rest[written..].to_vec();
            return Err(WriteError { cause, lines: count(lines) });
        }

        let (written, outcome) = self.write_bytes(lines, control);
        let Err(cause) = outcome else { return Ok(()) };
        let whole = lines[..written].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let cut = (written - whole) as u64;
        if cut == 0 || self.remove_end(cut).is_ok() {
            return Err(WriteError { cause, lines: count(&lines[whole..]) });
        }

        let line_end = lines[written..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(lines.len(), |end| written + end + 1);
        self.rest = lines[written..line_end].to_vec();
        Err(WriteError { cause, lines: count(&lines[line_end..]) })
    }

    /// Writes as much as possible. Returns the number of bytes written, along with the error if some
    /// could not be written.
    fn write_bytes(&mut self, bytes: &[u8], control: &Control) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < bytes.len() {
            let rest = &bytes[written..];
            let piece = if self.is_regular { rest } else { &rest[..rest.len().min(PIECE_BYTES)] };
            match self.file.write(piece) {
                Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
                Ok(count) => {
                    written += count;
                    control.add_progress();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // If a FIFO is full, try again until the file should be reopened or the server exits.
                Err(error) if error.kind() == ErrorKind::WouldBlock && !control.is_reopen_requested() => {
                    thread::sleep(RETRY_PAUSE);
                }
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// Removes the last `bytes` of a regular file, unless another process has appended to it in the
    /// meantime.
    fn remove_end(&mut self, bytes: u64) -> io::Result<()> {
        use std::io::Seek;

        if !self.is_regular {
            return Err(ErrorKind::Unsupported.into());
        }
        // After a write in append mode, the position is where the written bytes end.
        let end = self.file.stream_position()?;
        if self.file.metadata()?.len() != end {
            return Err(ErrorKind::Unsupported.into());
        }
        self.file.set_len(end.saturating_sub(bytes))
    }
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Replaces `ENXIO` with an error that names the cause and the remedy.
fn explain(error: io::Error, path: &Path) -> io::Error {
    if error.raw_os_error() != Some(libc::ENXIO) {
        return error;
    }
    let is_fifo = fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    let explanation = if is_fifo {
        "it is a FIFO that no program reads; start the reader first"
    } else {
        // This can also be standard output, if the service manager has connected it to a socket.
        "it is a socket, which can't be opened by its name; `--access-log -` writes to standard output, whatever that is"
    };
    io::Error::new(error.kind(), explanation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_line_is_removed_or_completed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let control = Control::default();
        let mut output = Output::open(&LogTarget::File(path.clone())).unwrap();
        output.write(b"first\nseco", &control).unwrap();
        output.remove_end(4).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first\n");

        // We must never remove bytes that were appended by another process.
        output.write(b"thi", &control).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"other\n").unwrap();
        assert!(output.remove_end(3).is_err());
        output.rest = b"rd\n".to_vec();
        output.write(b"fourth\n", &control).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first\nthiother\nrd\nfourth\n");
    }

    #[test]
    fn lines_on_a_full_device_are_counted() {
        let mut output = Output::open(&LogTarget::File("/dev/full".into())).unwrap();
        let failed = output.write(b"a\nb\nc\n", &Control::default()).unwrap_err();
        assert_eq!((failed.lines, failed.cause.kind()), (3, ErrorKind::StorageFull));
    }

    #[test]
    fn fifo_without_reader_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(status.success());
        let error = Output::open(&LogTarget::File(path)).unwrap_err();
        assert!(error.to_string().contains("reader"), "{error}");
    }
}
