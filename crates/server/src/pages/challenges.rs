//! Tokens of certificate authorities (RFC 8555 §8.3), read from a directory while the server runs: `--acme-webroot`.
//!
//! An ACME client writes a file, and the authority asks for it at once: so a file is looked for when it is requested. A
//! worker may open no file. It asks a thread that may, and waits for the result: the only place where a worker waits for
//! another thread. The wait is bounded, and a file system that does not answer is not asked again until it has.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::error::StartError;
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// Where authorities look for tokens. A webroot holds them below the same path.
pub(crate) const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// The longest token. Authorities use 43 characters.
const TOKEN_BYTES_MAX: usize = 128;

/// The longest file that is sent. A token and the digest of a key have 87 characters.
const FILE_BYTES_MAX: u64 = 4096;

/// How long a worker waits. A local disk answers within some microseconds.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// Questions that may wait for the thread, of all workers together.
const WAITING_MAX: usize = 64;

/// What was found under a token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Missing,
    File(Vec<u8>),
    /// The file system does not answer, or there are too many questions.
    Unavailable,
}

/// Finds files by their tokens.
#[derive(Debug)]
pub(crate) struct Challenges {
    questions: SyncSender<Question>,
    progress: Arc<Progress>,
}

/// Which questions the thread has dealt with. Their numbers grow.
#[derive(Debug, Default)]
struct Progress {
    asked: AtomicU64,
    /// The last question that a worker gave up.
    given_up: AtomicU64,
    answered: AtomicU64,
}

#[derive(Debug)]
struct Question {
    number: u64,
    token: String,
    reply: SyncSender<Option<Vec<u8>>>,
}

/// The directory, which no thread reads yet.
#[derive(Debug)]
pub(crate) struct Webroot {
    directory: PathBuf,
    questions: Receiver<Question>,
    progress: Arc<Progress>,
}

/// Opens a webroot, which must be a directory.
pub(crate) fn open(path: &Path) -> Result<(Challenges, Webroot), StartError> {
    let failed = |source| StartError::Webroot { path: path.to_owned(), source };
    if !path.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    let path = std::path::absolute(path).map_err(failed)?;
    let directory = path.join(".well-known/acme-challenge");
    let (sender, questions) = sync_channel(WAITING_MAX);
    let progress = Arc::new(Progress::default());
    let challenges = Challenges { questions: sender, progress: Arc::clone(&progress) };
    Ok((challenges, Webroot { directory, questions, progress }))
}

/// The token of a path; `None` if it has none. Neither a dot nor a slash is part of a token (RFC 8555 §8.3), so no token
/// leads out of the directory.
pub(crate) fn token(path: &[u8]) -> Option<&str> {
    let token = path.strip_prefix(PREFIX)?;
    let is_token_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let is_token = (1..=TOKEN_BYTES_MAX).contains(&token.len()) && token.iter().all(is_token_byte);
    std::str::from_utf8(token).ok().filter(|_| is_token)
}

impl Challenges {
    /// Looks for the file of a token. Waits for it, for [`WAIT_MAX`] at most.
    pub(crate) fn find(&self, token: &str) -> Found {
        let progress = &self.progress;
        let is_stuck = progress.given_up.load(Ordering::Relaxed) > progress.answered.load(Ordering::Relaxed);
        if is_stuck {
            return Found::Unavailable;
        }
        let number = progress.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let (reply, answer) = sync_channel(1);
        if self.questions.try_send(Question { number, token: token.to_owned(), reply }).is_err() {
            return Found::Unavailable;
        }
        match answer.recv_timeout(WAIT_MAX) {
            Ok(Some(file)) => Found::File(file),
            Ok(None) => Found::Missing,
            Err(RecvTimeoutError::Timeout) => {
                progress.given_up.fetch_max(number, Ordering::Relaxed);
                Found::Unavailable
            }
            Err(RecvTimeoutError::Disconnected) => Found::Unavailable,
        }
    }
}

impl Webroot {
    /// Starts the thread that reads. It ends when nobody can ask any more.
    pub(crate) fn start(self, sandbox: &Sandbox) -> Result<(), StartError> {
        thread::start("acme-webroot", sandbox, ThreadRole::Releases, move || self.run())?;
        Ok(())
    }

    fn run(self) {
        for Question { number, token, reply } in self.questions {
            let file = read(&self.directory.join(token)).ok();
            self.progress.answered.fetch_max(number, Ordering::Relaxed);
            // The worker may have given up: then nobody takes it.
            let _ = reply.try_send(file);
        }
    }
}

/// Reads a small regular file. Neither a link nor a FIFO is followed or waited for.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_one_segment_of_base64url() {
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        assert_eq!(token(b"/.well-known/acme-challenge/aB3-_"), Some("aB3-_"));
        for wrong in ["", "..", ".", "a/b", "a.txt", "a%2e", "a\0", "\u{e9}", &long] {
            assert_eq!(token(&[PREFIX, wrong.as_bytes()].concat()), None, "{wrong}");
        }
        assert_eq!(token(b"/.well-known/acme-challengeX"), None);
    }

    #[test]
    fn stuck_file_system_is_not_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let (challenges, webroot) = open(folder.path()).unwrap();
        assert_eq!(challenges.find("a"), Found::Unavailable, "no thread answers");
        let began = std::time::Instant::now();
        assert_eq!(challenges.find("b"), Found::Unavailable);
        assert!(began.elapsed() < WAIT_MAX, "it is known by now");

        std::fs::create_dir_all(folder.path().join(".well-known/acme-challenge")).unwrap();
        std::fs::write(folder.path().join(".well-known/acme-challenge/c"), "file").unwrap();
        webroot.start(&Sandbox::default()).unwrap();
        while challenges.find("a") == Found::Unavailable {
            std::thread::yield_now();
        }
        assert_eq!(challenges.find("c"), Found::File(b"file".to_vec()));
    }
}
