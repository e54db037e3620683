//! Sends releases, as open files over a Unix socket, from the process that compiles them to the
//! server.
//!
//! Site files and network input are parsed by two different processes with different sandboxes. The sender
//! waits for each release to be served before sending the next one. This way, there is never more than one
//! in flight.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::file_socket;

/// Content of each message, which must not be empty because the kernel does not send a descriptor
/// without a byte.
const MESSAGE: [u8; 1] = [1];

/// Creates a socket and returns both of its ends. The second end should become the standard input of
/// the program that compiles.
///
/// # Errors
/// Returns an error if the process is out of descriptors.
pub fn pair() -> io::Result<(ReleaseReceiver, OwnedFd)> {
    let (receiver, sender) = UnixStream::pair()?;
    Ok((ReleaseReceiver { socket: receiver }, sender.into()))
}

/// The socket of the process that compiles.
#[derive(Debug)]
pub struct ReleaseSender {
    socket: UnixStream,
    served: Receiver<()>,
}

impl ReleaseSender {
    /// Starts a thread that waits for acknowledgements and calls `on_end` once the server has
    /// exited.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(socket: OwnedFd, on_end: impl FnOnce() + Send + 'static) -> io::Result<ReleaseSender> {
        let socket = UnixStream::from(socket);
        let mut acknowledgements = socket.try_clone()?;
        let (sender, served) = channel();
        let wait = move || {
            let mut message = MESSAGE;
            while acknowledgements.read_exact(&mut message).is_ok() {
                // This only fails if we will not send any more.
                let _ = sender.send(());
            }
            on_end();
        };
        thread::Builder::new().name("server".into()).spawn(wait)?;
        Ok(ReleaseSender { socket, served })
    }

    /// Sends an archive and waits until it is being served.
    ///
    /// # Errors
    /// Returns an error if the server has exited.
    pub fn send(&self, archive: &File) -> io::Result<()> {
        file_socket::send(&self.socket, &MESSAGE, Some(archive))?;
        self.served.recv().map_err(|_| ErrorKind::BrokenPipe.into())
    }
}

/// The socket of the server.
#[derive(Debug)]
pub struct ReleaseReceiver {
    socket: UnixStream,
}

impl ReleaseReceiver {
    /// Waits for the next archive. Returns `None` if the other process has exited.
    ///
    /// # Errors
    /// Returns an error if this process is out of descriptors.
    pub fn receive(&self) -> io::Result<Option<File>> {
        match file_socket::receive::<{ MESSAGE.len() }>(&self.socket)? {
            None => Ok(None),
            Some((_, Some(file))) => Ok(Some(file)),
            Some((_, None)) => Err(io::Error::other("no descriptor is left")),
        }
    }

    /// Tells the other process that the archive is being served, or that it never will be.
    pub fn acknowledge(&self) {
        // This only fails if the other process has exited. The next call of `receive` will find out.
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
