//! The file of a writer: a thread hashes and writes, while the caller prepares what comes next.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use super::{BUFFER_BYTES, bounded};
use crate::checksum::Digest;
use crate::layout::record::Extent;
use crate::reader::Archive;

/// A shorter archive is written without a thread, because starting one costs as much.
const THREAD_BYTES_MIN: u64 = 1 << 20;

/// Maximum number of pieces that wait for the thread. They bound the memory, and what an abandoned archive still writes.
const WAITING_MAX: usize = 4;

/// Consecutive bytes of the archive.
pub(super) enum Piece {
    /// In memory.
    Bytes(Vec<u8>),
    /// In another archive, which has this extent.
    Copy(Arc<Archive>, Extent),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Copy(archive, extent) => archive.body(*extent).expect("the archive has the extent"),
        }
    }
}

/// Writes pieces in order.
pub(super) enum Output {
    /// The caller's thread writes.
    Direct(Sink),
    /// Another thread writes. It ends when the sender is dropped, or after an error.
    Threaded { pieces: SyncSender<Piece>, thread: JoinHandle<io::Result<Sink>> },
    /// Writing has failed. The caller got the error.
    Failed,
}

/// A file, and the digest of what was written to it.
pub(super) struct Sink {
    file: File,
    hasher: blake3::Hasher,
    /// The position of the first byte.
    start: u64,
    written_bytes: u64,
}

impl Output {
    /// Starts to write at a position of the file.
    pub(super) fn new(mut file: File, start: u64) -> io::Result<Output> {
        file.seek(SeekFrom::Start(start))?;
        Ok(Output::Direct(Sink { file, hasher: blake3::Hasher::new(), start, written_bytes: 0 }))
    }

    /// Writes a piece, or lets the thread write it.
    ///
    /// # Errors
    /// Returns the error of this piece or of an earlier one. Writing has ended then.
    pub(super) fn put(&mut self, piece: Piece) -> io::Result<()> {
        if let Output::Direct(sink) = self {
            if sink.written_bytes < THREAD_BYTES_MIN {
                return sink.write(&piece);
            }
            *self = self.finish()?.into_threaded();
        }
        match self {
            Output::Direct(sink) => sink.write(&piece),
            Output::Threaded { pieces, .. } => match pieces.send(piece) {
                Ok(()) => Ok(()),
                // The thread has ended.
                Err(_) => self.finish().map(|_| ()),
            },
            Output::Failed => Err(io::Error::other("writing has failed before")),
        }
    }

    /// Ends writing.
    ///
    /// # Errors
    /// Returns the error of the thread.
    pub(super) fn finish(&mut self) -> io::Result<Sink> {
        match std::mem::replace(self, Output::Failed) {
            Output::Direct(sink) => Ok(sink),
            Output::Threaded { pieces, thread } => {
                drop(pieces);
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            }
            Output::Failed => Err(io::Error::other("writing has failed before")),
        }
    }

    /// Continues in another file, with a copy of the bytes written so far.
    ///
    /// # Errors
    /// Returns the error of a piece before, or that one of the files cannot be read or written.
    pub(super) fn move_to(&mut self, mut file: File) -> io::Result<()> {
        let mut sink = self.finish()?;
        sink.file.seek(SeekFrom::Start(sink.start))?;
        file.seek(SeekFrom::Start(sink.start))?;
        let mut chunk = vec![0; BUFFER_BYTES];
        let mut remaining = sink.written_bytes;
        while remaining > 0 {
            let chunk = &mut chunk[..bounded(remaining, BUFFER_BYTES)];
            sink.file.read_exact(chunk)?;
            file.write_all(chunk)?;
            remaining -= chunk.len() as u64;
        }
        *self = Output::Direct(Sink { file, ..sink });
        Ok(())
    }
}

impl Sink {
    /// Hashes and writes a piece.
    fn write(&mut self, piece: &Piece) -> io::Result<()> {
        // A hashed chunk is still in the cache when it is written.
        for chunk in piece.bytes().chunks(BUFFER_BYTES) {
            self.hasher.update(chunk);
            self.file.write_all(chunk)?;
            self.written_bytes += chunk.len() as u64;
        }
        Ok(())
    }

    fn write_all(mut self, pieces: &Receiver<Piece>) -> io::Result<Sink> {
        for piece in pieces {
            self.write(&piece)?;
        }
        Ok(self)
    }

    /// Lets another thread write, if one can be started.
    fn into_threaded(self) -> Output {
        let (pieces, received) = sync_channel(WAITING_MAX);
        // If the thread doesn't start, its closure is lost.
        let (handover, sink) = channel::<Sink>();
        let run = move || match sink.recv() {
            Ok(sink) => sink.write_all(&received),
            Err(_) => Err(io::Error::other("no file was passed to the thread")),
        };
        match thread::Builder::new().name("write".into()).spawn(run) {
            Ok(thread) => {
                handover.send(self).expect("the thread receives it");
                Output::Threaded { pieces, thread }
            }
            Err(_) => Output::Direct(self),
        }
    }

    /// Returns the digest of everything written and of `last`, and the file.
    pub(super) fn into_digest(mut self, last: &[u8]) -> (Digest, File) {
        self.hasher.update(last);
        (Digest(*self.hasher.finalize().as_bytes()), self.file)
    }

    /// Returns the file.
    pub(super) fn into_file(self) -> File {
        self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread stops reading pieces after an error. The caller must get it, and must not wait.
    #[test]
    fn error_of_the_thread_is_returned() {
        let full = File::options().read(true).write(true).open("/dev/full").unwrap();
        let written_bytes = THREAD_BYTES_MIN;
        let sink = Sink { file: full, hasher: blake3::Hasher::new(), start: 0, written_bytes };
        let mut output = Output::Direct(sink);
        let mut errors = (0..2 * WAITING_MAX).filter_map(|_| output.put(Piece::Bytes(vec![1; 10])).err());
        assert_eq!(errors.next().map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
        assert!(errors.next().is_some() && output.finish().is_err());
    }

    #[test]
    fn pieces_are_written_in_order_by_any_thread() {
        let pieces: Vec<Vec<u8>> = (0..10).map(|number| vec![number; 300_000]).collect();
        let mut output = Output::new(tempfile::tempfile().unwrap(), 100).unwrap();
        for piece in &pieces {
            output.put(Piece::Bytes(piece.clone())).unwrap();
        }
        assert!(matches!(output, Output::Threaded { .. }));
        output.move_to(tempfile::tempfile().unwrap()).unwrap();
        output.put(Piece::Bytes(b"last".to_vec())).unwrap();

        let (digest, mut file) = output.finish().unwrap().into_digest(b"");
        let expected = [pieces.concat().as_slice(), b"last"].concat();
        let mut written = Vec::new();
        file.seek(SeekFrom::Start(100)).unwrap();
        file.read_to_end(&mut written).unwrap();
        assert!(written == expected && digest == Digest::of(&expected));
    }
}
