//! Releases that another process compiles, sent over a Unix socket as open files.
//!
//! The process that parses site files is not the one that parses network input, and each has its own sandbox. The sender waits
//! until a release is served before it sends the next one, so there is never more than one on its way.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::file_socket;

/// The content of each message, because the kernel sends no descriptor without a byte.
const MESSAGE: [u8; 1] = [1];

/// Returns both ends of a socket. The program that compiles gets the second one as its standard input.
///
/// # Errors
/// The process has no descriptor left.
pub fn pair() -> io::Result<(ReleaseReceiver, OwnedFd)> {
    let (receiver, sender) = UnixStream::pair()?;
    Ok((ReleaseReceiver { socket: receiver }, sender.into()))
}

/// The end of the process that compiles.
#[derive(Debug)]
pub struct ReleaseSender {
    socket: UnixStream,
    served: Receiver<()>,
}

impl ReleaseSender {
    /// Starts a thread that waits for acknowledgements, and calls `on_end` when the server has ended.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(socket: OwnedFd, on_end: impl FnOnce() + Send + 'static) -> io::Result<ReleaseSender> {
        let socket = UnixStream::from(socket);
        let mut acknowledgements = socket.try_clone()?;
        let (sender, served) = channel();
        let wait = move || {
            let mut message = MESSAGE;
            while acknowledgements.read_exact(&mut message).is_ok() {
                // This fails only if nothing is sent any more.
                let _ = sender.send(());
            }
            on_end();
        };
        thread::Builder::new().name("server".into()).spawn(wait)?;
        Ok(ReleaseSender { socket, served })
    }

    /// Sends an archive, and waits until it is served.
    ///
    /// # Errors
    /// The server has ended.
    pub fn send(&self, archive: &File) -> io::Result<()> {
        file_socket::send(&self.socket, &MESSAGE, Some(archive))?;
        self.served.recv().map_err(|_| ErrorKind::BrokenPipe.into())
    }
}

/// The end of the server.
#[derive(Debug)]
pub struct ReleaseReceiver {
    socket: UnixStream,
}

impl ReleaseReceiver {
    /// Waits for the next archive. Returns `None` if the other process has ended.
    ///
    /// # Errors
    /// The archive could not be received, because this process has no descriptor left.
    pub fn receive(&self) -> io::Result<Option<File>> {
        match file_socket::receive::<{ MESSAGE.len() }>(&self.socket)? {
            None => Ok(None),
            Some((_, Some(file))) => Ok(Some(file)),
            Some((_, None)) => Err(io::Error::other("no descriptor is left")),
        }
    }

    /// Reports to the other process that the archive is served, or that it never will be.
    pub fn acknowledge(&self) {
        // This fails only if the other process has ended, which the next call of `receive` finds out.
        let _ = (&self.socket).write_all(&MESSAGE);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::*;

    #[test]
    fn archives_arrive_and_are_acknowledged() {
        let (receiver, socket) = pair().unwrap();
        let (ended, has_ended) = channel();
        let sender = ReleaseSender::start(socket, move || ended.send(()).unwrap()).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                for content in ["one", "two"] {
                    let mut file = receiver.receive().unwrap().unwrap();
                    file.rewind().unwrap();
                    let mut text = String::new();
                    file.read_to_string(&mut text).unwrap();
                    assert_eq!(text, content);
                    receiver.acknowledge();
                }
            });
            for content in ["one", "two"] {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(content.as_bytes()).unwrap();
                sender.send(&file).unwrap();
            }
        });
        drop(receiver);
        has_ended.recv().unwrap();
        assert!(sender.send(&tempfile::tempfile().unwrap()).is_err());
    }

    #[test]
    fn end_of_the_sender_is_no_error() {
        let (receiver, socket) = pair().unwrap();
        drop(socket);
        assert!(receiver.receive().unwrap().is_none());
    }
}
