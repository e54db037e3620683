//! Socket between the compiling process and its keeper. The compiling process has it as its standard
//! output.
//!
//! The process uses it to tell the keeper that the folder has been compiled, and to ask for temporary files. The keeper needs
//! to create these, because the sandbox does not allow the process to do so. This way, the process won't be able to touch
//! other files in that directory either.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use cannery_archiver::TemporaryDirectory;
use cannery_server::process::file_socket;

/// The folder has been compiled.
const COMPILED: u8 = b'c';

/// Comes with an archive that will be served.
const SERVED: u8 = b'a';

/// Asks for the last archive of the previous process. The response is either a file or an error number.
const LAST: u8 = b'l';

/// Asks for a temporary file. The response is a file or an error number.
const CREATE: u8 = b'f';

/// Response length: an error number, or 0 if there is a file.
const RESPONSE_BYTES: usize = size_of::<i32>();

/// The compiling process's end.
#[derive(Debug, Clone)]
pub(super) struct KeeperSocket(Arc<Mutex<UnixStream>>);

impl KeeperSocket {
    pub(super) fn on_standard_output() -> io::Result<KeeperSocket> {
        let socket = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(KeeperSocket(Arc::new(Mutex::new(socket.into()))))
    }

    /// Reports that the folder has been compiled, so that the keeper will restart this process from now on
    /// when it exits.
    pub(super) fn report_compiled(&self) -> io::Result<()> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (&*socket).write_all(&[COMPILED])
    }

    /// Passes on an archive that will be served.
    ///
    /// When this process exits, its successor will start with this archive.
    pub(super) fn keep_archive(&self, archive: &File) -> io::Result<()> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file_socket::send(&socket, &[SERVED], Some(archive))
    }

    /// Asks for the last archive of the previous process.
    ///
    /// # Errors
    ///
    /// This will fail if there is no such archive or if the keeper has exited.
    pub(super) fn last_archive(&self) -> io::Result<File> {
        self.request(LAST)
    }

    /// Asks for an unnamed temporary file.
    ///
    /// # Errors
    ///
    /// This will fail if the keeper was unable to create the file or has exited.
    pub(super) fn create_file(&self) -> io::Result<File> {
        self.request(CREATE)
    }

    fn request(&self, request: u8) -> io::Result<File> {
        // Builds run on several threads, but responses have no IDs, so we must not have more than one
        // pending request.
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (&*socket).write_all(&[request])?;
        match file_socket::receive::<RESPONSE_BYTES>(&socket)? {
            Some((_, Some(file))) => Ok(file),
            Some((number, None)) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number))),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Whether a process has made its first build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstBuild {
    /// The process exited before that.
    Missing,
    Compiled,
}

/// Handles messages from the process at the other end until it exits.
///
/// `last` is the archive that was last passed on, possibly by an earlier process.
pub(super) fn serve(socket: &UnixStream, last: &mut Option<File>) -> FirstBuild {
    let directory = TemporaryDirectory::from_environment();
    let mut first_build = FirstBuild::Missing;

    while let Ok(Some(([message], file))) = file_socket::receive::<1>(socket) {
        let response = match message {
            COMPILED => {
                first_build = FirstBuild::Compiled;
                continue;
            }
            SERVED => {
                *last = file;
                continue;
            }
            LAST => last.as_ref().ok_or_else(|| rustix::io::Errno::NOENT.into()).and_then(File::try_clone),
            _ => directory.create(),
        };
        if respond(socket, response).is_err() {
            break;
        }
    }

    first_build
}

fn respond(socket: &UnixStream, created: io::Result<File>) -> io::Result<()> {
    match created {
        Ok(file) => file_socket::send(socket, &0_i32.to_ne_bytes(), Some(&file)),
        Err(error) => {
            // In-memory file systems are the only case without an error number.
            let number = error.raw_os_error().unwrap_or(rustix::io::Errno::OPNOTSUPP.raw_os_error());
            file_socket::send(socket, &number.to_ne_bytes(), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeper_creates_files_and_learns_of_the_first_build() {
        for first_build in [FirstBuild::Compiled, FirstBuild::Missing] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let keeper = KeeperSocket(Arc::new(Mutex::new(ours)));
            std::thread::scope(|scope| {
                let served = scope.spawn(|| serve(&theirs, &mut None));
                keeper.create_file().unwrap().write_all(b"content").unwrap();
                if first_build == FirstBuild::Compiled {
                    keeper.report_compiled().unwrap();
                }
                drop(keeper);
                assert_eq!(served.join().unwrap(), first_build);
            });
        }
    }

    #[test]
    fn archive_outlives_its_process() {
        let mut last = None;
        let mut run = |work: &dyn Fn(&KeeperSocket)| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let keeper = KeeperSocket(Arc::new(Mutex::new(ours)));
            std::thread::scope(|scope| {
                let served = scope.spawn(|| serve(&theirs, &mut last));
                work(&keeper);
                drop(keeper);
                served.join().unwrap();
            });
        };

        run(&|keeper| {
            assert_eq!(keeper.last_archive().unwrap_err().kind(), io::ErrorKind::NotFound);
            for content in ["first", "second"] {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(content.as_bytes()).unwrap();
                keeper.keep_archive(&file).unwrap();
            }
        });

        run(&|keeper| {
            let mut file = keeper.last_archive().unwrap();
            io::Seek::rewind(&mut file).unwrap();
            assert_eq!(io::read_to_string(file).unwrap(), "second");
        });
    }

    #[test]
    fn error_of_the_keeper_arrives() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let keeper = KeeperSocket(Arc::new(Mutex::new(ours)));
        respond(&theirs, Err(rustix::io::Errno::ROFS.into())).unwrap();
        let error = keeper.create_file().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
        drop(theirs);
        assert_eq!(keeper.create_file().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
