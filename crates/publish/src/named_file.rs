//! Reads whole files that users name: keys, passwords, tokens, certificates, configurations.
//!
//! A FIFO without a writer would block us, and a device could fill the memory, so both are refused. The pipes of a shell are fine:
//! `<(pass show key)` is a way to keep a secret off the disk, and the shell has started its writer already.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Folders of the descriptors that we inherit, which is where shells put their pipes.
const DESCRIPTORS: [&str; 3] = ["/dev/fd", "/proc/self/fd", "/dev/stdin"];

/// Reads a regular file, or a pipe of the shell, of up to this length in bytes.
///
/// # Errors
/// Returns an error if the file can't be read, is longer, or is another kind of file.
pub fn read_named_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let is_inherited = DESCRIPTORS.iter().any(|folder| path.starts_with(folder));
    if !is_inherited && !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it isn't a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads a file as [`read_named_file`] does, as text.
///
/// # Errors
/// The same, and an error if it isn't UTF-8.
pub fn read_named_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read_named_file(path, bytes_max)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it isn't text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::process::Command;

    use super::*;

    #[test]
    fn fifos_and_devices_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "12345").unwrap();
        assert_eq!(read_named_file(&path("file"), 5).unwrap(), b"12345");
        assert_eq!(read_named_file(&path("file"), 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        fs::write(path("binary"), [0xff]).unwrap();
        assert_eq!(read_named_text(&path("binary"), 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        for other in [path("fifo"), folder.path().to_owned(), "/dev/zero".into()] {
            assert_eq!(read_named_file(&other, 5).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn pipes_of_a_shell_are_read_up_to_the_limit() {
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"12345").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(read_named_text(Path::new(&path), 5).unwrap(), "12345");

        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"12345").unwrap();
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        // The writer is still there.
        assert_eq!(read_named_file(Path::new(&path), 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
