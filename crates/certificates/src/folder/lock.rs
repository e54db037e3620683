//! The lock of a folder: one process issues certificates per folder.
//!
//! We use `flock`, so the kernel unlocks the folder when the process ends, even if it is killed. The file stays, and only says who
//! holds the lock.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::error::Error;

/// Name of the file.
const FILE: &str = "lock";

/// A locked folder. It is unlocked when this is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks a folder.
    pub(super) fn take(folder: &Path) -> Result<Lock, Error> {
        let path = folder.join(FILE);
        let failed = |source| Error::folder("write", &path, source);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // The file is emptied: it must not be another one that a link leads to.
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = options.open(&path).map_err(failed)?;

        let mut locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        for _ in 0..10 {
            if locked != Err(Errno::WOULDBLOCK) {
                break;
            }
            // A process that only wants to know the holder has the lock for a moment.
            thread::sleep(Duration::from_millis(20));
            locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        }
        match locked {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::Held { folder: folder.to_owned(), holder: holder(&mut file) });
            }
            Err(error) => return Err(failed(error.into())),
        }
        write_holder(&mut file).map_err(failed)?;
        Ok(Lock { _file: file })
    }
}

/// Describes the process that holds the lock of a folder. Returns `None` if there is none.
pub(super) fn holder_of(folder: &Path) -> Result<Option<String>, Error> {
    let path = folder.join(FILE);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    let mut file = match options.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::folder("read", &path, source)),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        // It is unlocked along with the file.
        Ok(()) => Ok(None),
        Err(Errno::WOULDBLOCK) => Ok(Some(holder(&mut file))),
        Err(error) => Err(Error::folder("read", &path, error.into())),
    }
}

fn write_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Describes the process that holds the lock.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(32).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => format!("process {}", text.trim()),
        _ => "another process".to_owned(),
    }
}
