//! ACME challenges (RFC 8555 §8.3) for `--acme-webroot`, read from a directory while the server is running.
//!
//! Since the certificate authority requests a file as soon as the ACME client has written it, we need to look
//! for the file at the time of the request. However, workers are not allowed to open files in the sandbox, so
//! a worker sends the token to another thread and waits for the result (this is the only place where it does
//! so). If the wait times out, no more tokens will be sent until the thread has replied.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::error::StartError;
use crate::sandbox::{Sandbox, ThreadRole};
use crate::{short_file, thread};

/// Path prefix of challenges. This is also the path in the webroot.
pub(super) const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// Maximum length of a token. Certificate authorities use 43 characters.
const TOKEN_BYTES_MAX: usize = 128;

/// Files may not be larger than this. Typically, a file has 87 characters for a token and a digest
/// of the key.
const FILE_BYTES_MAX: u64 = 4096;

/// A worker waits for at most this long. A local disk should only take a few microseconds.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// Maximum number of lookups in the queue, for all workers.
const WAITING_MAX: usize = 64;

/// Result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LookupResult {
    Missing,
    File(Vec<u8>),
    /// The file system does not respond, or too many lookups are in progress.
    Unavailable,
}

/// Looks up files by token.
#[derive(Debug)]
pub(crate) struct Challenges {
    lookups: SyncSender<Lookup>,
    progress: Arc<Progress>,
}

/// Progress of lookups. They are numbered in increasing order.
#[derive(Debug, Default)]
struct Progress {
    /// The last lookup that was sent.
    sent: AtomicU64,
    /// The last lookup that timed out.
    timed_out: AtomicU64,
    /// The last lookup that was completed.
    completed: AtomicU64,
}

#[derive(Debug)]
struct Lookup {
    number: u64,
    token: String,
    reply: SyncSender<Option<Vec<u8>>>,
}

/// The webroot, before the thread is started.
#[derive(Debug)]
pub(crate) struct Webroot {
    directory: PathBuf,
    lookups: Receiver<Lookup>,
    progress: Arc<Progress>,
}

/// Opens a webroot.
///
/// # Errors
/// Returns an error if the path is not a directory.
pub(crate) fn open(path: &Path) -> Result<(Challenges, Webroot), StartError> {
    let failed = |source| StartError::Webroot { path: path.to_owned(), source };
    if !path.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    let path = std::path::absolute(path).map_err(failed)?;
    let directory = path.join(".well-known/acme-challenge");
    let (sender, lookups) = sync_channel(WAITING_MAX);
    let progress = Arc::new(Progress::default());
    let challenges = Challenges { lookups: sender, progress: Arc::clone(&progress) };
    Ok((challenges, Webroot { directory, lookups, progress }))
}

/// Extracts the token in a path (if any). Tokens cannot contain any dots or slashes (RFC 8555 §8.3) and
/// are therefore unable to leave the directory.
pub(super) fn token(path: &[u8]) -> Option<&str> {
    let token = path.strip_prefix(PREFIX)?;
    let is_token_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let is_token = (1..=TOKEN_BYTES_MAX).contains(&token.len()) && token.iter().all(is_token_byte);
    std::str::from_utf8(token).ok().filter(|_| is_token)
}

impl Challenges {
    /// Looks up the file for a token. Waits no longer than [`WAIT_MAX`].
    pub(super) fn find(&self, token: &str) -> LookupResult {
        let progress = &self.progress;
        // If an earlier lookup has timed out and still is not complete, do not wait again.
        let is_stuck =
            progress.timed_out.load(Ordering::Relaxed) > progress.completed.load(Ordering::Relaxed);
        if is_stuck {
            return LookupResult::Unavailable;
        }

        let number = progress.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let (reply, answer) = sync_channel(1);
        if self.lookups.try_send(Lookup { number, token: token.to_owned(), reply }).is_err() {
            return LookupResult::Unavailable;
        }

        match answer.recv_timeout(WAIT_MAX) {
            Ok(Some(file)) => LookupResult::File(file),
            Ok(None) => LookupResult::Missing,
            Err(RecvTimeoutError::Timeout) => {
                progress.timed_out.fetch_max(number, Ordering::Relaxed);
                LookupResult::Unavailable
            }
            Err(RecvTimeoutError::Disconnected) => LookupResult::Unavailable,
        }
    }
}

impl Webroot {
    /// Starts the thread that reads files. It exits when all workers have exited.
    pub(crate) fn start(self, sandbox: &Sandbox) -> Result<(), StartError> {
        thread::start("acme-webroot", sandbox, ThreadRole::Loader, move || self.run())?;
        Ok(())
    }

    fn run(self) {
        for Lookup { number, token, reply } in self.lookups {
            let file = short_file::read_unless_link(&self.directory.join(token), FILE_BYTES_MAX).ok();
            self.progress.completed.fetch_max(number, Ordering::Relaxed);
            // This fails if the worker has timed out.
            let _ = reply.try_send(file);
        }
    }
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
    fn stuck_file_system_is_not_queried_again() {
        let folder = tempfile::tempdir().unwrap();
        let (challenges, webroot) = open(folder.path()).unwrap();
        assert_eq!(challenges.find("a"), LookupResult::Unavailable, "no thread answers");
        let began = std::time::Instant::now();
        assert_eq!(challenges.find("b"), LookupResult::Unavailable);
        assert!(began.elapsed() < WAIT_MAX, "the timeout is remembered");

        std::fs::create_dir_all(folder.path().join(".well-known/acme-challenge")).unwrap();
        std::fs::write(folder.path().join(".well-known/acme-challenge/c"), "file").unwrap();
        webroot.start(&Sandbox::default()).unwrap();
        while challenges.find("a") == LookupResult::Unavailable {
            std::thread::yield_now();
        }
        assert_eq!(challenges.find("c"), LookupResult::File(b"file".to_vec()));
    }
}
