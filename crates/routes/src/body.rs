//! Response bodies that one thread writes while the server is sending them.
//!
//! The number of bytes in between is limited. If the client is slower than the writer, the writer will have
//! to wait.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll};

use crate::error::HandlerError;
use crate::kept_bytes::{HeldBytes, KeptBytes};
use crate::limits::{BODY_BYTES_MAX, BODY_COLLECTED_BYTES};

/// Replaces [`BODY_BYTES_MAX`] while many bytes of other bodies are waiting, too.
const SCARCE_BODY_BYTES_MAX: usize = 1024;

/// The same for writers that can't wait, e.g. of events. Many programs forget a client that is too slow for an event, so a healthy
/// client must be able to fall behind by a few.
const SCARCE_WHOLE_BYTES_MAX: usize = 16 * 1024;

/// Creates a body. Returns its two ends.
// Only for the server.
#[doc(hidden)]
#[must_use]
pub fn channel() -> (BodyWriter, BodyReader) {
    let shared = Arc::new(Shared::default());
    (BodyWriter { shared: Arc::clone(&shared) }, BodyReader { shared })
}

/// Writes a body. This can be done in any thread.
///
/// In the function of [`Response::stream`](crate::Response::stream), short writes are collected for some milliseconds, and sent
/// together. [`flush`](io::Write::flush) sends them at once. Other writers send each write immediately.
///
/// Note that the response is incomplete if the writer is dropped without [`BodyWriter::finish`], and that the
/// client will be able to tell.
#[derive(Debug)]
pub struct BodyWriter {
    shared: Arc<Shared>,
}

/// Ends a body, or passes on what was written. This does not have to happen in the thread that writes.
// Only for the server.
#[doc(hidden)]
#[derive(Debug)]
pub struct BodyStopper {
    shared: Arc<Shared>,
}

/// The server takes the bytes from this end of a body.
// Only for the server.
#[doc(hidden)]
#[derive(Debug)]
pub struct BodyReader {
    shared: Arc<Shared>,
}

/// Whether there will be more bytes.
// Only for the server.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
// Exhaustive: the server has to handle every kind.
pub enum BodyProgress {
    /// There may be more.
    #[default]
    Open,
    /// The body is complete.
    Complete,
    /// The writer has given up before the body was complete.
    Broken,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when bytes are taken and when the reader is dropped.
    taken: Condvar,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// If short writes wait for others, so that they are sent together: gets each body that has begun to wait.
    collecting: Option<Sender<BodyStopper>>,
    /// Whether the body was sent there, and not flushed since.
    is_due: bool,
    /// Whether the reader may take `bytes`.
    is_passed_on: bool,
    progress: BodyProgress,
    is_reader_dropped: bool,
    /// Whether the server has ended the body.
    is_stopped: bool,
    /// Wakes up the task that waits for room.
    writer: Option<task::Waker>,
    /// Whether the writer was told that there is room, and hasn't written since. Other bodies can make memory scarce in between, but
    /// the next write must succeed nevertheless.
    is_permitted: bool,
    /// Wakes up the reader.
    waker: Option<Waker>,
    /// Whether we have woken up the reader since it has last taken bytes.
    is_woken: bool,
    /// Counts the capacity of `bytes`.
    held: Option<HeldBytes>,
}

/// Wakes up the server when more bytes have been written.
// Only for the server.
#[doc(hidden)]
pub type Waker = Box<dyn Fn() + Send>;

/// Wakes up the task that waits for room, if any. The lock must be released before: the executor may drop the task, and thus its
/// [`BodyWriter`], right away.
fn wake_writer(writer: Option<task::Waker>) {
    if let Some(writer) = writer {
        writer.wake();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns an error if nothing can be written any more.
    fn check(&self) -> io::Result<()> {
        if self.is_stopped {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "other responses wait for this thread"));
        }
        if self.is_reader_dropped { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    /// Returns how many bytes may be written now. If there are none, there will be as soon as the reader takes what was written.
    fn room(&self) -> usize {
        let room = self.room_below(SCARCE_BODY_BYTES_MAX);
        if self.is_permitted {
            let all = BODY_BYTES_MAX.saturating_sub(self.bytes.len());
            return room.max(all.min(SCARCE_BODY_BYTES_MAX));
        }
        room
    }

    /// Returns how many bytes may be written if the body may have up to `scarce_bytes_max` bytes while memory is scarce.
    fn room_below(&self, scarce_bytes_max: usize) -> usize {
        let is_scarce = self.held.as_ref().is_some_and(HeldBytes::is_scarce);
        let bytes_max = if is_scarce { scarce_bytes_max } else { BODY_BYTES_MAX };
        bytes_max.saturating_sub(self.bytes.len())
    }

    fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Returns `true` if writing does not make sense any more.
    fn is_over(&self) -> bool {
        self.is_reader_dropped || self.is_stopped
    }

    /// Must be called whenever `bytes` has changed.
    fn count(&mut self) {
        if let Some(held) = &mut self.held {
            held.set(self.bytes.capacity());
        }
    }

    /// Lets the reader take the bytes.
    fn pass_on(&mut self) {
        if !self.bytes.is_empty() {
            self.is_passed_on = true;
            self.wake();
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = &self.waker
            && !std::mem::replace(&mut self.is_woken, true)
        {
            waker();
        }
    }
}

impl BodyWriter {
    /// Returns `true` if the client has cancelled the request or the server has ended the body.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.shared.lock().is_over()
    }

    /// From now on, short writes are collected until there are [`BODY_COLLECTED_BYTES`]. The receiver of `due` should flush each body
    /// that it gets after some milliseconds.
    // Only for the server.
    #[doc(hidden)]
    pub fn collect_writes(&mut self, due: Sender<BodyStopper>) {
        self.shared.lock().collecting = Some(due);
    }

    /// Returns a handle that can end the body from another thread.
    // Only for the server.
    #[doc(hidden)]
    #[must_use]
    pub fn stopper(&self) -> BodyStopper {
        BodyStopper { shared: Arc::clone(&self.shared) }
    }

    /// Writes as many bytes as there is currently room for, and sends them. Returns the number of bytes written.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::WouldBlock`] if there is no room, [`io::ErrorKind::BrokenPipe`] if the client has cancelled the
    /// request, or [`io::ErrorKind::TimedOut`] if the server has ended the body because it has occupied a thread for a
    /// long time while others were waiting for one.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.try_append(bytes);
        self.shared.lock().pass_on();
        written
    }

    /// Like [`BodyWriter::try_write`], but may wait for more before the bytes are sent.
    fn try_append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.shared.lock();
        state.check()?;
        // Other writers can change this at any time.
        let room = state.room();
        if room == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = bytes.len().min(room);
        state.bytes.extend_from_slice(&bytes[..count]);
        state.count();
        if count > 0 {
            state.is_permitted = false;
            match &state.collecting {
                Some(due) if state.bytes.len() < BODY_COLLECTED_BYTES => {
                    if state.is_due || due.send(self.stopper()).is_ok() {
                        state.is_due = true;
                    } else {
                        state.pass_on();
                    }
                }
                _ => state.pass_on(),
            }
        }
        Ok(count)
    }

    /// Writes all bytes if there is some room now. The last bytes may exceed the limit, so that this doesn't end in the middle.
    ///
    /// # Errors
    /// Like [`BodyWriter::try_write`]. In case of an error, nothing was written.
    pub(crate) fn try_write_whole(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.check()?;
        if state.is_full() && state.room_below(SCARCE_WHOLE_BYTES_MAX) == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.is_permitted = false;
        state.bytes.extend_from_slice(bytes);
        state.count();
        state.pass_on();
        Ok(())
    }

    /// Waits until there is room to write, without blocking the thread. This works with any async runtime. The next write won't
    /// return [`io::ErrorKind::WouldBlock`].
    ///
    /// ```
    /// # extern crate cannery_routes as cannery;
    /// use std::io;
    ///
    /// async fn copy(mut body: cannery::BodyWriter, mut bytes: &[u8]) -> io::Result<()> {
    ///     while !bytes.is_empty() {
    ///         body.ready().await?;
    ///         let written = body.try_write(bytes)?;
    ///         bytes = &bytes[written..];
    ///     }
    ///     body.finish();
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the client has cancelled the request or the server has ended the body.
    pub async fn ready(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_ready(context)).await
    }

    /// Like [`BodyWriter::ready`], for implementations of futures.
    ///
    /// # Errors
    /// Returns an error if the client has cancelled the request or the server has ended the body.
    pub fn poll_ready(&mut self, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let poll = |state: &mut State| match state.check() {
            Ok(()) if state.is_full() => {
                state.pass_on();
                Poll::Pending
            }
            ready => {
                state.is_permitted = true;
                Poll::Ready(ready)
            }
        };
        {
            let mut state = self.shared.lock();
            let is_registered = state.writer.as_ref().is_some_and(|writer| writer.will_wake(context.waker()));
            let polled = poll(&mut state);
            if polled.is_ready() || is_registered {
                return polled;
            }
        }

        // The executor's code must not run while we hold the lock, so we clone its waker before, and drop an earlier one after it.
        let mut waker = Some(context.waker().clone());
        let mut state = self.shared.lock();
        // The reader may have taken the bytes in the meantime.
        let polled = poll(&mut state);
        if polled.is_pending() {
            std::mem::swap(&mut state.writer, &mut waker);
        }
        drop(state);
        drop(waker);
        polled
    }

    /// Completes the body.
    pub fn finish(self) {
        let mut state = self.shared.lock();
        if !state.is_stopped {
            state.progress = BodyProgress::Complete;
            state.wake();
        }
    }
}

impl io::Write for BodyWriter {
    /// Blocks if the buffer is full.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let mut state = self.shared.lock();
            while state.is_full() && !state.is_over() {
                // There may be less room than for a collection.
                state.pass_on();
                state = self.shared.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            match self.try_append(bytes) {
                // Others have written so much in the meantime that this body may have less.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
        }
    }

    /// Sends what was written so far. This does not wait until the client has it.
    ///
    /// Fails like `write` if the client has cancelled the request, or the server has ended the body.
    fn flush(&mut self) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.check()?;
        state.pass_on();
        Ok(())
    }

    /// Formats everything first, so that it becomes one chunk of the response. Otherwise, each part could be sent on its own.
    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        match text.as_str() {
            Some(text) => self.write_all(text.as_bytes()),
            None => self.write_all(text.to_string().as_bytes()),
        }
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.progress == BodyProgress::Open {
            state.progress = BodyProgress::Broken;
            state.wake();
        }
        let waker = state.writer.take();
        drop(state);
        drop(waker);
    }
}

impl BodyStopper {
    /// Sends what was written so far.
    pub fn flush(&self) {
        let mut state = self.shared.lock();
        state.is_due = false;
        state.pass_on();
    }

    /// Ends the body, leaving it incomplete. The writer gets an error, even if it is currently
    /// waiting for room.
    pub fn stop(&self) {
        let mut state = self.shared.lock();
        if state.progress == BodyProgress::Open {
            state.is_stopped = true;
            state.progress = BodyProgress::Broken;
            state.bytes = Vec::new();
            state.count();
            state.wake();
            self.shared.taken.notify_all();
            let writer = state.writer.take();
            drop(state);
            wake_writer(writer);
        }
    }
}

impl BodyReader {
    /// Sets the function that wakes up the server. If it already can take some bytes, it is called at
    /// once.
    pub fn set_waker(&self, waker: Waker) {
        let mut state = self.shared.lock();
        state.waker = Some(waker);
        state.is_woken = false;
        if state.is_passed_on || state.progress != BodyProgress::Open {
            state.wake();
        }
    }

    /// Counts the bytes that were written but not taken, from now on. Does nothing if they are already being counted.
    pub fn count_in(&self, kept: &Arc<KeptBytes>) {
        let mut state = self.shared.lock();
        if state.held.is_none() {
            state.held = Some(kept.hold(state.bytes.capacity()));
        }
    }

    /// Returns the memory that these bytes take, if they are being counted, in bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.shared.lock().held.as_ref().map_or(0, HeldBytes::bytes)
    }

    /// Waits until the body is complete, and returns all of it.
    ///
    /// # Errors
    /// Returns an error if the writer gives up.
    pub(crate) fn read_to_end(self) -> Result<Vec<u8>, HandlerError> {
        let (sender, woken) = std::sync::mpsc::channel();
        self.set_waker(Box::new(move || {
            // The reader may have given up.
            let _ = sender.send(());
        }));
        let mut bytes = Vec::new();
        loop {
            match self.take(&mut bytes) {
                BodyProgress::Complete => return Ok(bytes),
                BodyProgress::Broken => return Err("the body of the response is incomplete".into()),
                BodyProgress::Open => {
                    let _ = woken.recv();
                }
            }
        }
    }

    /// Moves everything that was written to the end of `bytes`, unless the writer still collects short writes.
    pub fn take(&self, bytes: &mut Vec<u8>) -> BodyProgress {
        let mut state = self.shared.lock();
        state.is_woken = false;
        let is_collecting = !std::mem::take(&mut state.is_passed_on);
        if is_collecting && state.progress == BodyProgress::Open {
            return BodyProgress::Open;
        }
        if bytes.is_empty() {
            std::mem::swap(bytes, &mut state.bytes);
        } else {
            bytes.append(&mut state.bytes);
        }
        state.count();
        self.shared.taken.notify_one();
        let progress = state.progress;
        let writer = state.writer.take();
        drop(state);
        wake_writer(writer);
        progress
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_reader_dropped = true;
        state.bytes = Vec::new();
        state.count();
        self.shared.taken.notify_all();
        let (waker, writer) = (state.waker.take(), state.writer.take());
        drop(state);
        drop(waker);
        wake_writer(writer);
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn reader_is_woken_once_for_bytes_that_it_has_not_taken() {
        let (mut writer, reader) = channel();
        let (wakes, woken) = mpsc::channel();
        reader.set_waker(Box::new(move || wakes.send(()).unwrap()));
        assert_eq!(woken.try_iter().count(), 0);
        writer.write_all(b"a").unwrap();
        writer.write_all(b"b").unwrap();
        assert_eq!(woken.try_iter().count(), 1);
        let mut bytes = Vec::new();
        assert_eq!(reader.take(&mut bytes), BodyProgress::Open);
        assert_eq!(bytes, b"ab");
        writer.finish();
        assert_eq!(woken.try_iter().count(), 1);
        assert_eq!(reader.take(&mut bytes), BodyProgress::Complete);
    }

    #[test]
    fn short_writes_are_collected() {
        let (mut writer, reader) = channel();
        let (due, dues) = mpsc::channel();
        writer.collect_writes(due);
        let (wakes, woken) = mpsc::channel();
        reader.set_waker(Box::new(move || wakes.send(()).unwrap()));
        let woken = || woken.try_iter().count();
        let mut bytes = Vec::new();
        let mut taken = || {
            bytes.clear();
            assert_eq!(reader.take(&mut bytes), BodyProgress::Open);
            bytes.len()
        };

        for _ in 1..BODY_COLLECTED_BYTES {
            writer.write_all(b"x").unwrap();
        }
        assert_eq!((woken(), taken()), (0, 0));
        writer.write_all(b"xy").unwrap();
        assert_eq!((woken(), taken(), taken()), (1, BODY_COLLECTED_BYTES + 1, 0));
        let late: Vec<_> = dues.try_iter().collect();
        assert_eq!(late.len(), 1, "each body waits once");

        writer.flush().unwrap();
        assert_eq!(woken(), 0, "there is nothing to send");
        writer.write_all(b"x").unwrap();
        writer.flush().unwrap();
        assert_eq!((woken(), taken()), (1, 1));
        writer.write_all(b"x").unwrap();
        assert_eq!((woken(), dues.try_iter().count()), (0, 0));
        late[0].flush();
        assert_eq!((woken(), taken()), (1, 1));
        writer.write_all(b"x").unwrap();
        assert_eq!((woken(), dues.try_iter().count()), (0, 1));
        assert_eq!(writer.try_write(b"y").unwrap(), 1, "tasks write what they want to send");
        assert_eq!((woken(), taken()), (1, 2));

        writer.write_all(b"last").unwrap();
        writer.finish();
        assert_eq!((woken(), reader.take(&mut bytes)), (1, BodyProgress::Complete));
        assert!(bytes.ends_with(b"last"));
    }

    #[test]
    fn collected_bytes_are_sent_when_there_is_no_room_for_more() {
        let kept = KeptBytes::new(usize::MAX, || {});
        kept.set_limits(BODY_BYTES_MAX, usize::MAX);
        let _others = kept.hold(BODY_BYTES_MAX);
        let scarce = || {
            let (mut writer, reader) = channel();
            let (due, dues) = mpsc::channel();
            writer.collect_writes(due);
            reader.count_in(&kept);
            writer.write_all(&[0; SCARCE_BODY_BYTES_MAX]).unwrap();
            (writer, reader, dues)
        };

        let (mut writer, reader, _dues) = scarce();
        let writing = std::thread::spawn(move || writer.write_all(b"more"));
        let mut bytes = Vec::new();
        while bytes.len() < SCARCE_BODY_BYTES_MAX {
            assert_eq!(reader.take(&mut bytes), BodyProgress::Open);
            std::thread::yield_now();
        }
        writing.join().unwrap().unwrap();

        let (mut writer, reader, dues) = scarce();
        assert!(writer.poll_ready(&mut task::Context::from_waker(task::Waker::noop())).is_pending());
        let mut bytes = Vec::new();
        reader.take(&mut bytes);
        assert_eq!(bytes.len(), SCARCE_BODY_BYTES_MAX);

        drop(dues);
        writer.stopper().flush();
        writer.write_all(b"more").unwrap();
        reader.take(&mut bytes);
        assert_eq!(bytes.len(), SCARCE_BODY_BYTES_MAX + 4, "nobody would flush them");
    }

    #[test]
    fn dropped_writer_breaks_the_body() {
        let (writer, reader) = channel();
        drop(writer);
        assert_eq!(reader.take(&mut Vec::new()), BodyProgress::Broken);
    }

    #[test]
    fn stopped_body_is_incomplete_and_its_writer_ends() {
        let (mut writer, reader) = channel();
        writer.write_all(&[0; BODY_BYTES_MAX]).unwrap();
        let stopper = writer.stopper();
        let waiting = std::thread::spawn(move || {
            let error = writer.write_all(b"more").unwrap_err();
            assert!(writer.is_cancelled());
            writer.finish();
            error
        });
        stopper.stop();
        assert_eq!(waiting.join().unwrap().kind(), io::ErrorKind::TimedOut);
        assert_eq!(reader.take(&mut Vec::new()), BodyProgress::Broken);

        let (writer, reader) = channel();
        let stopper = writer.stopper();
        writer.finish();
        stopper.stop();
        assert_eq!(reader.take(&mut Vec::new()), BodyProgress::Complete);
    }

    #[test]
    fn dropped_reader_ends_a_writer_that_waits() {
        let (mut writer, reader) = channel();
        writer.write_all(&[0; BODY_BYTES_MAX]).unwrap();
        assert_eq!(writer.try_write(b"more").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let waiting = std::thread::spawn(move || writer.write_all(b"more"));
        drop(reader);
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn bytes_count_until_they_are_taken_or_dropped() {
        let counted = |before: &[u8]| {
            let kept = KeptBytes::new(usize::MAX, || {});
            let (mut writer, reader) = channel();
            writer.write_all(before).unwrap();
            reader.count_in(&kept);
            assert_eq!((kept.get(), reader.kept_bytes()), (before.len(), before.len()));
            writer.write_all(&[0; BODY_BYTES_MAX / 2]).unwrap();
            assert!((BODY_BYTES_MAX / 2..=2 * BODY_BYTES_MAX).contains(&kept.get()), "{kept:?}");
            assert_eq!(reader.kept_bytes(), kept.get());
            (kept, writer, reader)
        };

        let (kept, mut writer, reader) = counted(b"");
        reader.take(&mut Vec::new());
        assert_eq!(kept.get(), 0, "taken");
        writer.try_write_whole(&[0; 2 * BODY_BYTES_MAX]).unwrap();
        assert_eq!(kept.get(), 2 * BODY_BYTES_MAX, "a long event");
        drop(writer);
        assert_eq!(kept.get(), 2 * BODY_BYTES_MAX, "the bytes before the end may still be sent");
        assert_eq!(reader.take(&mut Vec::new()), BodyProgress::Broken);
        assert_eq!(kept.get(), 0);

        let (kept, mut writer, reader) = counted(b"8 bytes.");
        drop(reader);
        assert_eq!(kept.get(), 0, "dropped");
        writer.write_all(b"more").unwrap_err();
        assert_eq!(kept.get(), 0);

        let (kept, writer, _reader) = counted(b"8 bytes.");
        writer.stopper().stop();
        assert_eq!(kept.get(), 0, "stopped");

        let (kept, writer, reader) = counted(b"");
        writer.finish();
        assert_ne!(kept.get(), 0, "complete");
        drop(reader);
        assert_eq!(kept.get(), 0);
    }

    #[test]
    fn bodies_are_shorter_while_memory_is_scarce() {
        let kept = KeptBytes::new(usize::MAX, || {});
        kept.set_limits(BODY_BYTES_MAX, usize::MAX);
        let [(mut first, first_reader), (mut second, second_reader)] = [channel(), channel()];
        first_reader.count_in(&kept);
        second_reader.count_in(&kept);
        first.write_all(&[0; BODY_BYTES_MAX]).unwrap();
        second.write_all(b"a").unwrap();
        assert!(kept.is_scarce());

        assert_eq!(second.try_write(&[0; BODY_BYTES_MAX]).unwrap(), SCARCE_BODY_BYTES_MAX - 1);
        for writer in [&mut first, &mut second] {
            assert_eq!(writer.try_write(b"more").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        assert_eq!(first.try_write_whole(b"more").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // Feeds can't wait, so their clients may fall behind further.
        while second.shared.lock().bytes.len() < SCARCE_WHOLE_BYTES_MAX {
            second.try_write_whole(&[0; 500]).unwrap();
        }
        assert_eq!(second.try_write_whole(b"more").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // Each can continue as soon as its own bytes were taken.
        second_reader.take(&mut Vec::new());
        assert_eq!(second.try_write(b"more").unwrap(), 4);
        first_reader.take(&mut Vec::new());
        assert!(!kept.is_scarce());
        assert_eq!(second.try_write(&[0; BODY_BYTES_MAX]).unwrap(), BODY_BYTES_MAX - 4);
    }

    #[test]
    fn ready_writer_can_write_even_if_memory_becomes_scarce() {
        let kept = KeptBytes::new(usize::MAX, || {});
        kept.set_limits(BODY_BYTES_MAX, usize::MAX);
        let (mut writer, reader) = channel();
        reader.count_in(&kept);
        writer.write_all(&[0; BODY_BYTES_MAX / 2]).unwrap();
        let mut context = task::Context::from_waker(task::Waker::noop());
        let mut is_ready = |writer: &mut BodyWriter| writer.poll_ready(&mut context).is_ready();

        assert!(is_ready(&mut writer));
        let others = kept.hold(BODY_BYTES_MAX);
        assert!(is_ready(&mut writer), "nothing was written since");
        assert_eq!(writer.try_write(&[0; BODY_BYTES_MAX]).unwrap(), SCARCE_BODY_BYTES_MAX);
        assert_eq!(writer.try_write(b"more").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(!is_ready(&mut writer), "only one write");
        drop(others);
        assert!(is_ready(&mut writer));
        let others = kept.hold(BODY_BYTES_MAX);
        writer.try_write_whole(b"an event").unwrap();
        assert_eq!(writer.try_write_whole(b"another").unwrap_err().kind(), io::ErrorKind::WouldBlock);

        // There may be room for less than that.
        reader.take(&mut Vec::new());
        drop(others);
        writer.write_all(&[0; BODY_BYTES_MAX - 1]).unwrap();
        assert!(is_ready(&mut writer));
        assert_eq!(writer.try_write(b"more").unwrap(), 1);
    }

    struct Flag(std::sync::atomic::AtomicBool);

    impl task::Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }

    #[test]
    fn task_is_woken_when_there_is_room() {
        let (mut writer, reader) = channel();
        let flag = Arc::new(Flag(false.into()));
        let waker = task::Waker::from(Arc::clone(&flag));
        let mut context = task::Context::from_waker(&waker);
        let is_woken = || flag.0.swap(false, std::sync::atomic::Ordering::SeqCst);

        assert!(writer.poll_ready(&mut context).is_ready());
        writer.write_all(&[0; BODY_BYTES_MAX]).unwrap();
        assert!(writer.poll_ready(&mut context).is_pending() && !is_woken());
        reader.take(&mut Vec::new());
        assert!(is_woken() && writer.poll_ready(&mut context).is_ready());

        writer.write_all(&[0; BODY_BYTES_MAX]).unwrap();
        assert!(writer.poll_ready(&mut context).is_pending());
        drop(reader);
        assert!(is_woken());
        let Poll::Ready(Err(error)) = writer.poll_ready(&mut context) else { panic!("an error") };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    /// Runs in a thread of its own, so that a deadlock fails the test.
    fn returns(action: impl FnOnce() + Send + 'static) {
        let (sender, returned) = mpsc::channel();
        std::thread::spawn(move || {
            action();
            let _ = sender.send(());
        });
        assert_eq!(returned.recv_timeout(std::time::Duration::from_secs(30)), Ok(()));
    }

    /// A task that its executor drops when it is woken.
    struct Dropped(Mutex<Option<BodyWriter>>);

    impl task::Wake for Dropped {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }

    fn waiting_task() -> BodyReader {
        let (mut writer, reader) = channel();
        writer.write_all(&[0; BODY_BYTES_MAX]).unwrap();
        let task = Arc::new(Dropped(Mutex::new(None)));
        let waker = task::Waker::from(Arc::clone(&task));
        assert!(writer.poll_ready(&mut task::Context::from_waker(&waker)).is_pending());
        *task.0.lock().unwrap() = Some(writer);
        reader
    }

    #[test]
    fn woken_task_may_drop_the_writer() {
        returns(|| {
            let reader = waiting_task();
            assert_eq!(reader.take(&mut Vec::new()), BodyProgress::Open);
            assert_eq!(reader.take(&mut Vec::new()), BodyProgress::Broken);
        });
        returns(|| drop(waiting_task()));
        returns(|| {
            let reader = waiting_task();
            BodyStopper { shared: Arc::clone(&reader.shared) }.stop();
        });
    }

    /// A waker that ends the body when it is dropped.
    struct Stops(BodyStopper);

    impl task::Wake for Stops {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Stops {
        fn drop(&mut self) {
            self.0.stop();
        }
    }

    #[test]
    fn replaced_waker_may_use_the_body() {
        returns(|| {
            let (mut writer, _reader) = channel();
            writer.write_all(&[0; BODY_BYTES_MAX]).unwrap();
            let waker = task::Waker::from(Arc::new(Stops(writer.stopper())));
            assert!(writer.poll_ready(&mut task::Context::from_waker(&waker)).is_pending());
            drop(waker);
            assert!(writer.poll_ready(&mut task::Context::from_waker(task::Waker::noop())).is_pending());
            assert!(writer.is_cancelled());
        });
    }

    #[test]
    fn formatted_text_is_written_at_once() {
        let (mut writer, reader) = channel();
        let (wakes, woken) = mpsc::channel();
        let reader = Arc::new(reader);
        reader.set_waker(Box::new(move || wakes.send(()).unwrap()));
        let number = 5;
        write!(writer, "data: {number}\n\n").unwrap();
        assert_eq!(woken.try_iter().count(), 1);
        let mut bytes = Vec::new();
        reader.take(&mut bytes);
        assert_eq!(bytes, b"data: 5\n\n");
    }
}
