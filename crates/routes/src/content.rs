//! Request content that a handler reads while it arrives.
//!
//! The number of bytes in between is limited. If the handler is slower than the client, the client will have
//! to wait.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll};

use crate::body::Waker;
use crate::content_failure::ContentFailure;
use crate::limits::CONTENT_WAITING_BYTES;
use crate::save::save;

/// Creates content that arrives in pieces. Returns its two ends.
// Only for the server.
#[doc(hidden)]
#[must_use]
pub fn channel() -> (ContentSender, ContentReader) {
    let shared = Arc::new(Shared::default());
    (ContentSender { shared: Arc::clone(&shared) }, ContentReader::new(shared))
}

/// Reads the content of a request while it arrives. This can be done in any thread.
///
/// Reading blocks until more has arrived, and ends with `Ok(0)` only if the content is complete. Otherwise, it ends with an error:
///
/// - [`io::ErrorKind::ConnectionAborted`]: the client has left or was too slow, or the response was complete before the content.
/// - [`io::ErrorKind::FileTooLarge`]: the content is longer than `content_bytes_max`.
/// - [`io::ErrorKind::InvalidData`]: the client has sent an invalid chunk, or chunk heads that are longer than the content (HTTP/1.1).
/// - [`io::ErrorKind::TimedOut`]: other uploads were waiting for this thread.
///
/// With `?` in a handler, these become a [`HandlerError`](crate::HandlerError) with a fitting status, such as 413.
///
/// A handler that has seen enough may respond without reading the rest.
pub struct ContentReader {
    shared: Arc<Shared>,
    /// Bytes that were taken from `shared`.
    taken: Vec<u8>,
    /// Number of these bytes that were read.
    read: usize,
}

/// The server passes on content at this end.
// Only for the server.
#[doc(hidden)]
pub struct ContentSender {
    shared: Arc<Shared>,
}

/// Ends an upload. This does not have to happen in a thread that knows its connection.
// Only for the server.
#[doc(hidden)]
pub struct ContentStopper {
    shared: Arc<Shared>,
}

/// Demand of a handler for content.
// Only for the server.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Exhaustive: the server has to handle every kind.
pub enum ContentDemand {
    /// More content.
    More,
    /// It has not begun to read, but there is room.
    Unread,
    /// Nothing until it has taken what is waiting.
    Nothing,
    /// No content any more.
    Ended,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when bytes arrive and when the content ends.
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    progress: Progress,
    is_reader_dropped: bool,
    /// Whether the handler has begun to read.
    is_begun: bool,
    /// Wakes up the task that waits for content.
    reader: Option<task::Waker>,
    /// Wakes up the server.
    waker: Option<Waker>,
    /// Whether the server wants to be woken up once the demand changes.
    awaits_demand: bool,
    /// Capacity of the buffer that the reader has taken.
    taken_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Progress {
    #[default]
    Open,
    Complete,
    Failed(ContentFailure),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state of the content, and wakes up the reader.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let reader = state.reader.take();
        drop(state);
        self.arrived.notify_one();
        // The executor may drop the task, and thus its reader, right away. So we must not hold the lock.
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl State {
    /// Exchanges `taken`, which was read, for bytes that have arrived since. There are none at the end.
    fn poll_take(&mut self, taken: &mut Vec<u8>) -> Poll<io::Result<()>> {
        taken.clear();
        self.is_begun = true;
        if !self.bytes.is_empty() {
            std::mem::swap(taken, &mut self.bytes);
            self.taken_bytes = taken.capacity();
            self.meet_demand();
            return Poll::Ready(Ok(()));
        }
        match self.progress {
            Progress::Complete => Poll::Ready(Ok(())),
            Progress::Failed(failure) => Poll::Ready(Err(failure.into())),
            Progress::Open => {
                self.meet_demand();
                Poll::Pending
            }
        }
    }

    /// Wakes up the server if it awaits that the demand changes.
    fn meet_demand(&mut self) {
        if self.awaits_demand {
            self.wake_server();
        }
    }

    fn wake_server(&mut self) {
        self.awaits_demand = false;
        if let Some(waker) = &self.waker {
            waker();
        }
    }

    /// Returns `true` if the reader can still get bytes. After a failure, they would follow a gap.
    fn takes_bytes(&self) -> bool {
        self.progress == Progress::Open && !self.is_reader_dropped
    }

    fn end(&mut self, progress: Progress) {
        if self.progress == Progress::Open {
            self.progress = progress;
        }
    }
}

impl ContentReader {
    fn new(shared: Arc<Shared>) -> ContentReader {
        ContentReader { shared, taken: Vec::new(), read: 0 }
    }

    /// Returns content that has arrived completely.
    pub(crate) fn complete(bytes: Vec<u8>) -> ContentReader {
        let state = State { bytes, progress: Progress::Complete, ..State::default() };
        ContentReader::new(Arc::new(Shared { state: Mutex::new(state), ..Shared::default() }))
    }

    /// Returns content that cannot be read.
    pub(crate) fn failed(failure: ContentFailure) -> ContentReader {
        let state = State { progress: Progress::Failed(failure), ..State::default() };
        ContentReader::new(Arc::new(Shared { state: Mutex::new(state), ..Shared::default() }))
    }

    /// Returns a handle that can end the upload from another thread.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn stopper(&self) -> ContentStopper {
        ContentStopper { shared: Arc::clone(&self.shared) }
    }

    /// Stores the content in a file while it arrives, and returns its length. An earlier file is replaced.
    ///
    /// The file only gets its name once it is complete. If this fails, an earlier file is left as it was. An incomplete file is in the
    /// same folder, and called `.NUMBER-NUMBER.part`. It remains only if the program is killed.
    ///
    /// Never use a path that the client has chosen.
    ///
    /// # Errors
    /// Returns the errors of [`ContentReader`], or an error if the file cannot be written.
    pub fn save_to(&mut self, path: impl AsRef<Path>) -> io::Result<u64> {
        save(self, path.as_ref())
    }

    /// Reads what has arrived, as far as it fits into `bytes`. Returns the number of bytes read, which is 0 at the end of the
    /// content.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::WouldBlock`] if nothing has arrived, or the errors of [`ContentReader`].
    pub fn try_read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.unread().is_empty() && !bytes.is_empty() {
            self.read = 0;
            match self.shared.lock().poll_take(&mut self.taken) {
                Poll::Ready(taken) => taken?,
                Poll::Pending => return Err(io::ErrorKind::WouldBlock.into()),
            }
        }
        Ok(self.read_taken(bytes))
    }

    /// Waits until something can be read, or until the end, without blocking the thread. This works with any async runtime.
    ///
    /// ```
    /// # extern crate cannery_routes as cannery;
    /// use std::io;
    ///
    /// async fn count(mut content: cannery::ContentReader) -> io::Result<usize> {
    ///     let mut buffer = [0; 8192];
    ///     let mut count = 0;
    ///     loop {
    ///         content.ready().await?;
    ///         match content.try_read(&mut buffer)? {
    ///             0 => return Ok(count),
    ///             bytes => count += bytes,
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`ContentReader`].
    pub async fn ready(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_ready(context)).await
    }

    /// Like [`ContentReader::ready`], for implementations of futures.
    ///
    /// # Errors
    /// Returns the errors of [`ContentReader`].
    pub fn poll_ready(&mut self, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        if !self.unread().is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.read = 0;
        let polled = self.shared.lock().poll_take(&mut self.taken);
        if polled.is_ready() {
            return polled;
        }

        // The executor's code must not run while we hold the lock, so we clone its waker before, and drop an earlier one after it.
        let mut waker = Some(context.waker().clone());
        let mut state = self.shared.lock();
        // More may have arrived in the meantime.
        let polled = state.poll_take(&mut self.taken);
        if polled.is_pending() {
            std::mem::swap(&mut state.reader, &mut waker);
        }
        drop(state);
        drop(waker);
        polled
    }

    fn unread(&self) -> &[u8] {
        &self.taken[self.read..]
    }

    fn read_taken(&mut self, bytes: &mut [u8]) -> usize {
        let count = self.unread().len().min(bytes.len());
        bytes[..count].copy_from_slice(&self.taken[self.read..][..count]);
        self.read += count;
        count
    }
}

impl Read for ContentReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            self.fill_buf()?;
        }
        Ok(self.read_taken(bytes))
    }
}

/// Without any further buffer, this gives access to pieces as they have arrived, and to lines.
impl BufRead for ContentReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.unread().is_empty() {
            self.read = 0;
            let mut state = self.shared.lock();
            loop {
                match state.poll_take(&mut self.taken) {
                    Poll::Ready(taken) => {
                        taken?;
                        break;
                    }
                    Poll::Pending => {
                        state = self.shared.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            }
        }
        Ok(self.unread())
    }

    fn consume(&mut self, bytes: usize) {
        self.read = self.taken.len().min(self.read + bytes);
    }
}

impl fmt::Debug for ContentReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentReader").field("unread", &self.unread().len()).finish_non_exhaustive()
    }
}

impl Drop for ContentReader {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_reader_dropped = true;
        state.bytes = Vec::new();
        state.taken_bytes = 0;
        // The server always has to know this: even if the handler wanted more before, the client is no longer late with it.
        state.wake_server();
        let waker = (state.waker.take(), state.reader.take());
        drop(state);
        drop(waker);
    }
}

impl ContentSender {
    /// Sets the function that wakes up the server when the demand changes.
    pub fn set_waker(&self, waker: Waker) {
        self.shared.lock().waker = Some(waker);
    }

    /// Returns what the handler wants.
    ///
    /// After [`ContentDemand::Nothing`], the server is woken up once there is room. After [`ContentDemand::Unread`], it is woken up
    /// once the handler begins to read if it `awaits_start`, because it receives nothing before. It is always woken up when the reader
    /// is dropped.
    #[must_use]
    pub fn demand(&self, awaits_start: bool) -> ContentDemand {
        let mut state = self.shared.lock();
        if state.is_reader_dropped || matches!(state.progress, Progress::Failed(_)) {
            ContentDemand::Ended
        } else if state.bytes.len() >= CONTENT_WAITING_BYTES {
            state.awaits_demand = true;
            ContentDemand::Nothing
        } else if state.is_begun {
            ContentDemand::More
        } else {
            state.awaits_demand = awaits_start;
            ContentDemand::Unread
        }
    }

    /// Passes on bytes. Callers should then look at the [`demand`](ContentSender::demand).
    pub fn send(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.shared.change(|state| {
                if state.takes_bytes() {
                    state.bytes.extend_from_slice(bytes);
                }
            });
        }
    }

    /// Passes on bytes like [`ContentSender::send`], taking them without a copy if possible.
    pub fn send_from(&self, bytes: &mut Vec<u8>) {
        if !bytes.is_empty() {
            self.shared.change(|state| {
                if !state.takes_bytes() {
                    return;
                }
                if state.bytes.is_empty() {
                    std::mem::swap(&mut state.bytes, bytes);
                } else {
                    state.bytes.extend_from_slice(bytes);
                }
            });
            bytes.clear();
        }
    }

    /// Returns the memory that bytes take which are waiting, or which the reader has taken.
    #[must_use]
    pub fn memory(&self) -> usize {
        let state = self.shared.lock();
        state.bytes.capacity() + state.taken_bytes
    }

    /// Completes the content.
    pub fn finish(self) {
        self.shared.change(|state| state.end(Progress::Complete));
    }

    /// Ends the content with an error. If it is dropped, it is cut.
    pub fn fail(self, failure: ContentFailure) {
        self.shared.change(|state| state.end(Progress::Failed(failure)));
    }
}

impl fmt::Debug for ContentSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentSender").finish_non_exhaustive()
    }
}

impl Drop for ContentSender {
    fn drop(&mut self) {
        let mut waker = None;
        self.shared.change(|state| {
            state.end(Progress::Failed(ContentFailure::Cut));
            waker = state.waker.take();
        });
    }
}

impl ContentStopper {
    /// Ends the upload. The reader gets an error, even if it is currently waiting for content.
    pub fn stop(&self) {
        self.shared.change(|state| {
            if state.progress == Progress::Open {
                state.progress = Progress::Failed(ContentFailure::Stopped);
                state.bytes = Vec::new();
            }
        });
    }
}

impl fmt::Debug for ContentStopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentStopper").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
