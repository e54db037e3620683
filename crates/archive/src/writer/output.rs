//! The writer's file. One thread hashes and writes, while the caller prepares more.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use super::{BUFFER_BYTES, bounded};
use crate::checksum::Digest;
use crate::layout::record::Extent;
use crate::reader::Archive;

/// Number of bytes after which we start a thread. Starting it takes about as long as writing a part of them.
const THREAD_BYTES_MIN: u64 = 1 << 20;

/// Maximum number of chunks waiting for the thread.
const WAITING_CHUNKS_MAX: usize = 4;

/// Consecutive bytes of the archive, up to about a mebibyte.
pub(super) enum Chunk {
    /// In memory.
    Bytes(Vec<u8>),
    /// An extent of another archive.
    Copy(Arc<Archive>, Extent),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Bytes(bytes) => bytes,
            Chunk::Copy(archive, extent) => archive.body(*extent).expect("the archive has the extent"),
        }
    }
}

/// Writes chunks in order.
pub(super) enum Output {
    /// The caller's thread writes.
    Direct(Sink),
    /// Another thread writes.
    Threaded(SinkThread),
    /// We are done: either writing has failed, or the caller has taken the file.
    Ended,
}

/// A file, and the digest of all bytes that were written to it.
pub(super) struct Sink {
    file: File,
    hasher: blake3::Hasher,
    /// Position of the first byte.
    start: u64,
    written_bytes: u64,
    /// After this number of bytes, a thread takes over.
    thread_bytes_min: u64,
}

/// A thread that writes to a sink and stops after an error. Dropping this early means that not everything will be written.
pub(super) struct SinkThread {
    /// `None` once there will not be any more chunks.
    chunks: Option<SyncSender<Chunk>>,
    /// `None` once the thread has ended.
    thread: Option<JoinHandle<io::Result<Sink>>>,
    should_stop: Arc<AtomicBool>,
}

impl Output {
    /// Starts writing at position `start`.
    pub(super) fn new(mut file: File, start: u64) -> io::Result<Output> {
        file.seek(SeekFrom::Start(start))?;
        let hasher = blake3::Hasher::new();
        Ok(Output::Direct(Sink { file, hasher, start, written_bytes: 0, thread_bytes_min: THREAD_BYTES_MIN }))
    }

    /// Writes a chunk, or passes it to the thread.
    ///
    /// # Errors
    /// Returns an error of this chunk or of an earlier one. Nothing more will be written after that.
    pub(super) fn put(&mut self, chunk: Chunk) -> io::Result<()> {
        if let Output::Direct(sink) = self {
            if sink.written_bytes < sink.thread_bytes_min {
                return sink.write(&chunk);
            }
            *self = self.finish()?.into_threaded();
        }
        match self {
            Output::Direct(sink) => sink.write(&chunk),
            Output::Threaded(thread) => match thread.put(chunk) {
                Ok(()) => Ok(()),
                // Wait for the thread, which knows the reason.
                Err(error) => Err(self.finish().err().unwrap_or(error)),
            },
            Output::Ended => Err(ended()),
        }
    }

    /// Ends writing.
    ///
    /// # Errors
    /// Returns the thread's error.
    pub(super) fn finish(&mut self) -> io::Result<Sink> {
        match std::mem::replace(self, Output::Ended) {
            Output::Direct(sink) => Ok(sink),
            Output::Threaded(thread) => thread.finish(),
            Output::Ended => Err(ended()),
        }
    }

    /// Copies everything written so far to another file and continues there.
    ///
    /// # Errors
    /// Returns the error of an earlier chunk, or an error from reading or writing the files.
    pub(super) fn move_to(&mut self, mut file: File) -> io::Result<()> {
        let mut sink = self.finish()?;
        sink.file.seek(SeekFrom::Start(sink.start))?;
        file.seek(SeekFrom::Start(sink.start))?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut remaining = sink.written_bytes;
        while remaining > 0 {
            let part = &mut buffer[..bounded(remaining, BUFFER_BYTES)];
            sink.file.read_exact(part)?;
            file.write_all(part)?;
            remaining -= part.len() as u64;
        }
        *self = Output::Direct(Sink { file, ..sink });
        Ok(())
    }
}

fn ended() -> io::Error {
    io::Error::other("writing has ended before")
}

impl Sink {
    /// Hashes and writes a chunk.
    fn write(&mut self, chunk: &Chunk) -> io::Result<()> {
        // Write each part while it is still in the cache from hashing.
        for part in chunk.bytes().chunks(BUFFER_BYTES) {
            self.hasher.update(part);
            self.file.write_all(part)?;
            self.written_bytes += part.len() as u64;
        }
        Ok(())
    }

    /// Writes all chunks until the sender is dropped.
    fn write_received(mut self, chunks: &Receiver<Chunk>, should_stop: &AtomicBool) -> io::Result<Sink> {
        for chunk in chunks {
            if should_stop.load(Ordering::Relaxed) {
                return Err(ended());
            }
            self.write(&chunk)?;
        }
        Ok(self)
    }

    /// Moves the sink to another thread, if we can start one.
    fn into_threaded(self) -> Output {
        let (chunks, receiver) = sync_channel(WAITING_CHUNKS_MAX);
        let should_stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&should_stop);
        // We send the sink once the thread has started. If it does not start, its closure will be dropped.
        let (sinks, sink) = channel::<Sink>();
        let run = move || sink.recv().map_err(|_| ended())?.write_received(&receiver, &stops);
        match thread::Builder::new().name("write".into()).spawn(run) {
            Ok(thread) => {
                sinks.send(self).expect("the thread receives it");
                Output::Threaded(SinkThread { chunks: Some(chunks), thread: Some(thread), should_stop })
            }
            Err(_) => Output::Direct(Sink { thread_bytes_min: u64::MAX, ..self }),
        }
    }

    /// Returns the file, and the digest of everything written followed by `last`.
    pub(super) fn into_digest(mut self, last: &[u8]) -> (Digest, File) {
        self.hasher.update(last);
        (Digest(*self.hasher.finalize().as_bytes()), self.file)
    }

    pub(super) fn into_file(self) -> File {
        self.file
    }
}

impl SinkThread {
    /// Sends a chunk to the thread. Fails if the thread has ended.
    fn put(&self, chunk: Chunk) -> io::Result<()> {
        let sent = self.chunks.as_ref().and_then(|chunks| chunks.send(chunk).ok());
        sent.ok_or_else(ended)
    }

    /// Waits until the thread has written all chunks.
    fn finish(mut self) -> io::Result<Sink> {
        self.chunks = None;
        let thread = self.thread.take().ok_or_else(ended)?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Drop for SinkThread {
    /// Stops the thread if the archive is abandoned. The current chunk will still be completed.
    fn drop(&mut self) {
        self.should_stop.store(true, Ordering::Relaxed);
        self.chunks = None;
        if let Some(thread) = self.thread.take() {
            // If the thread has panicked, the panic hook has already reported this.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: u8) -> Chunk {
        Chunk::Bytes(vec![number; 300_000])
    }

    /// Returns an output that starts its thread with the first chunk.
    fn threaded(file: File) -> Output {
        let Ok(Output::Direct(sink)) = Output::new(file, 0) else { panic!("it is direct at first") };
        let output = sink.into_threaded();
        assert!(matches!(output, Output::Threaded(_)));
        output
    }

    /// After an error, the thread no longer receives chunks. In this case the caller should get the error instead of waiting
    /// forever.
    #[test]
    fn error_of_the_thread_is_returned() {
        let mut output = threaded(File::options().read(true).write(true).open("/dev/full").unwrap());
        let mut errors = (0..2 * WAITING_CHUNKS_MAX).filter_map(|_| output.put(bytes(1)).err());
        assert_eq!(errors.next().map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
        assert!(errors.next().is_some() && output.finish().is_err());
    }

    #[test]
    fn error_of_the_thread_is_returned_at_the_end() {
        let mut output = threaded(File::options().read(true).write(true).open("/dev/full").unwrap());
        output.put(bytes(1)).unwrap();
        assert_eq!(output.finish().err().map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
    }

    #[test]
    fn chunks_are_written_in_order_by_any_thread() {
        let mut output = Output::new(tempfile::tempfile().unwrap(), 100).unwrap();
        (0..10).for_each(|number| output.put(bytes(number)).unwrap());
        assert!(matches!(output, Output::Threaded(_)));
        output.move_to(tempfile::tempfile().unwrap()).unwrap();
        output.put(Chunk::Bytes(b"last".to_vec())).unwrap();

        let (digest, mut file) = output.finish().unwrap().into_digest(b"");
        let mut expected: Vec<u8> = (0..10).flat_map(|number| vec![number; 300_000]).collect();
        expected.extend(b"last");
        let mut written = Vec::new();
        file.seek(SeekFrom::Start(100)).unwrap();
        file.read_to_end(&mut written).unwrap();
        assert!(written == expected && digest == Digest::of(&expected));
    }

    /// Regression test: after a canceled build, the thread used to go on writing for as long as a large body took.
    #[test]
    fn abandoned_output_writes_nothing_more() {
        let file = tempfile::tempfile().unwrap();
        let mut output = threaded(file.try_clone().unwrap());
        (0..20).for_each(|number| output.put(bytes(number)).unwrap());
        drop(output);
        let length = file.metadata().unwrap().len();
        // If the thread was still running, it would have the file open.
        thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(file.metadata().unwrap().len(), length);
    }
}
