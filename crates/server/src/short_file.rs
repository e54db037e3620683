//! Reads short files that other processes write: states, settings, signed statements, challenges.
//!
//! A process that may write the directory could put something else there. So a FIFO doesn't block us, and a long file doesn't fill the
//! memory.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Length up to which states and settings are read, in bytes.
pub const SETTINGS_BYTES_MAX: u64 = 64 << 10;

/// Reads a regular file of up to this length in bytes.
///
/// # Errors
///
/// Returns an error if the file can't be read, is longer, or isn't a regular file.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_with(path, bytes_max, 0)
}

/// Does the same, and doesn't follow a symbolic link.
pub(crate) fn read_unless_link(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_with(path, bytes_max, libc::O_NOFOLLOW)
}

fn read_with(path: &Path, bytes_max: u64, flags: i32) -> io::Result<Vec<u8>> {
    // A terminal must not become ours, either.
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it isn't a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too long"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    #[test]
    fn only_short_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "12345").unwrap();
        symlink("file", path("link")).unwrap();
        assert_eq!(read(&path("file"), 5).unwrap(), b"12345");
        assert_eq!(read(&path("link"), 5).unwrap(), b"12345");
        assert_eq!(read_unless_link(&path("file"), 5).unwrap(), b"12345");
        assert!(read_unless_link(&path("link"), 5).is_err());
        assert_eq!(read(&path("file"), 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&path("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);

        // Opening it for reading would block until there is a writer.
        assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        assert_eq!(read(&path("fifo"), 5).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let _socket = UnixListener::bind(path("socket")).unwrap();
        assert!(read(&path("socket"), 5).is_err());
        assert!(read(folder.path(), 5).is_err());
    }
}
