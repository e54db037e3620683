//! `cannery extract`: restores the files in an archive to a directory, byte for byte.
//!
//! We verify the whole archive before we write the first file. Regardless of names in the archive and symbolic links in the
//! directory, nothing is ever written outside of the directory. Note that archives do not contain empty directories,
//! excluded files, times or permissions, so we are not able to restore these.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cannery_archive::{Archive, Coding, Corrupt, Entry, Origin, Record, RecordKind, Resource, split_host};
use cannery_archiver::{DecodeError, ENCODED_BYTES_MAX, decode};

use super::key_display::source_path;
use super::open;
use crate::flags::tools::Extract;
use crate::format;
use crate::output::{self, Failure, Paint, one_line};

/// Runs `cannery extract`.
///
/// # Errors
///
/// Returns an error if the file isn't an archive or is damaged, or if writing a file has failed.
pub fn run(flags: &Extract) -> Result<(), Failure> {
    let archive = open::open(&flags.archive)?;
    archive.verify(|_| {}).map_err(|error| {
        open::damaged(Failure::input(format!("{}: {error}", flags.archive.display())), &flags.archive)
    })?;
    prepare(&flags.directory, flags.force)?;

    let mut target = Target { directory: &flags.directory, force: flags.force, files: 0, bytes: 0 };
    for entry in archive.entries() {
        let entry = entry.map_err(open::corrupt(&flags.archive))?;
        if let Some((name, content)) =
            source_file(&archive, &entry).map_err(|error| error.into_failure(flags))?
        {
            target.write(&name, &content)?;
        }
    }

    if flags.quiet {
        return Ok(());
    }
    output::print(format_args!(
        "{}  {}, {}\n",
        Paint::for_results().strong(&flags.directory.display().to_string()),
        format::counted(target.files, "file"),
        format::bytes(target.bytes),
    ))
}

/// Creates the directory. When it exists, it must be empty unless `force` is set.
fn prepare(directory: &Path, force: bool) -> Result<(), Failure> {
    fs::create_dir_all(directory).map_err(|error| write_failure(directory, &error))?;
    let mut entries = fs::read_dir(directory).map_err(|error| write_failure(directory, &error))?;
    if entries.next().is_some() && !force {
        return Err(Failure::output(format!("{} is not empty", directory.display()))
            .hint("name another folder, or add `--force` to replace files in this one"));
    }
    Ok(())
}

/// Path in the source folder, and content.
type SourceFile = (Vec<u8>, Vec<u8>);

/// Returns the source file of an entry, when it comes from a file.
fn source_file(archive: &Archive, entry: &Entry<'_>) -> Result<Option<SourceFile>, ExtractError> {
    match entry.kind() {
        RecordKind::Source(path) => {
            let body = archive.body(archive.decode_source(entry)?)?;
            Ok(Some((path.to_vec(), body.to_vec())))
        }
        RecordKind::Path(key) => match archive.decode_path(entry)? {
            Record::Resource(resource) if resource.origin == Origin::File => {
                let (host, path) = split_host(key);
                let name = source_path(host, path);
                let content = content(archive, &resource, &name)?;
                Ok(Some((name, content)))
            }
            Record::Resource(_) | Record::Redirect(_) | Record::Rewrite(_) => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Returns the content of a resource. If there are only compressed forms, this needs to decode one of them.
fn content(archive: &Archive, resource: &Resource<'_>, name: &[u8]) -> Result<Vec<u8>, ExtractError> {
    let representations = resource.representations().collect::<Result<Vec<_>, _>>()?;
    let identity = representations.iter().find(|found| found.coding == Coding::Identity);
    let Some(found) = identity.or(representations.first()) else { return Ok(Vec::new()) };
    let body = archive.body(found.body)?;
    decode(found.coding, body, ENCODED_BYTES_MAX).map_err(|error| ExtractError::Decode {
        name: String::from_utf8_lossy(name).into_owned(),
        coding: found.coding.name(),
        error,
    })
}

/// Why we cannot restore an entry's file.
enum ExtractError {
    Corrupt(Corrupt),
    Decode { name: String, coding: &'static str, error: DecodeError },
}

impl From<Corrupt> for ExtractError {
    fn from(corrupt: Corrupt) -> ExtractError {
        ExtractError::Corrupt(corrupt)
    }
}

impl ExtractError {
    fn into_failure(self, flags: &Extract) -> Failure {
        let archive = flags.archive.display();
        match self {
            ExtractError::Corrupt(corrupt) => open::corrupt(&flags.archive)(corrupt),
            ExtractError::Decode { name, coding, error: DecodeError::Damaged } => open::damaged(
                Failure::input(format!("{archive}: the {coding} coding of {name} cannot be decoded")),
                &flags.archive,
            ),
            ExtractError::Decode { name, coding, error: DecodeError::TooLong } => {
                let bound = format::bytes(ENCODED_BYTES_MAX);
                let message = format!(
                    "{archive}: the {coding} coding of {name} decodes to more than {bound}, which no archiver writes"
                );
                open::damaged(Failure::input(message), &flags.archive)
            }
            ExtractError::Decode { name, error: DecodeError::OutOfMemory, .. } => {
                Failure::failed(format!("{archive}: not enough memory to decode {name}"))
            }
        }
    }
}

/// The directory to write to.
struct Target<'a> {
    directory: &'a Path,
    force: bool,
    files: u64,
    bytes: u64,
}

impl Target<'_> {
    fn write(&mut self, name: &[u8], content: &[u8]) -> Result<(), Failure> {
        let path = self.create_parents(name)?;
        write_file(&path, content, self.force).map_err(|error| write_failure(&path, &error))?;
        self.files += 1;
        self.bytes += content.len() as u64;
        Ok(())
    }

    /// Creates the directories for a file and returns its path.
    ///
    /// # Errors
    ///
    /// This will fail when the name leads out of the directory. The archiver never writes such names, so this
    /// must be an attack.
    fn create_parents(&self, name: &[u8]) -> Result<PathBuf, Failure> {
        let is_harmful = |part: &[u8]| matches!(part, b"" | b"." | b"..") || part.contains(&0);
        if name.split(|byte| *byte == b'/').any(is_harmful) {
            let name = one_line(&String::from_utf8_lossy(name));
            return Err(Failure::input(format!("`{name}` in the archive is not the name of a file")));
        }

        let mut path = self.directory.to_owned();
        let mut parts = name.split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            path.push(OsStr::from_bytes(part));
            if parts.peek().is_some() {
                create_directory(&path).map_err(|error| write_failure(&path, &error))?;
            }
        }
        Ok(path)
    }
}

/// Creates a directory. When it already exists, it must not be a symbolic link.
fn create_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_directory = fs::symlink_metadata(path)?.is_dir();
            if is_directory { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
        }
        result => result,
    }
}

/// Writes a new file.
///
/// If `force` is set, we need to remove an existing file first to avoid following a symbolic link.
fn write_file(path: &Path, content: &[u8], force: bool) -> io::Result<()> {
    let create = || OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match create() {
        Err(error) if force && error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()?
        }
        result => result?,
    };
    file.write_all(content)
}

fn write_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::output(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
