//! Opens archives named on the command line, or explains why that fails.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use cannery_archive::{Archive, Corrupt, Loading, OpenError};

use super::release_dir::CURRENT;
use crate::flags::hints::{self, Scope};
use crate::output::Failure;

/// Maps the archive at `path`.
pub(super) fn open(path: &Path) -> Result<Archive, Failure> {
    Archive::open(path, Loading::Mapped).map_err(|error| failure(path, &error))
}

/// Explains why the archive at `path` cannot be opened. If there is a remedy, we add a hint.
pub(super) fn failure(path: &Path, error: &OpenError) -> Failure {
    let failure = Failure::input(format!("{}: {error}", path.display()));
    let is_current = path.file_name().is_some_and(|name| name == CURRENT);
    if path.is_dir() {
        return folder_instead(path);
    }
    if let Some(file) = path.parent().filter(|file| is_current && file.is_file()) {
        return archive_instead(file);
    }

    match error {
        OpenError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            // Users may have another server's command line in mind, where this would not be a file at all.
            if let Some(hint) = hints::address_hint(Scope::Server, path) {
                return failure.hint(hint);
            }
            if let Some(failure) = hints::command_of_another_program(Scope::Server, path, &[]) {
                return failure;
            }
            failure.hint(match (release_directory(path), path.parent()) {
                (Some(folder), _) => {
                    format!("choose a release with `cannery releases {} --use NAME`", folder.display())
                }
                // A release in there would become a part of the site.
                (None, Some(folder)) if is_current && folder.join("index.html").exists() => format!(
                    "{0} is the folder of a site: serve it with `cannery-server --folder {0}`",
                    folder.display()
                ),
                (None, Some(folder)) if is_current && !folder.as_os_str().is_empty() => format!(
                    "the directory {0} {1}: push a first release with `cannery push {0} SITE`, or from another machine \
                     with `cannery push USER@HOST:DIR SITE`",
                    folder.display(),
                    if folder.is_dir() { "has no release yet" } else { "does not exist" },
                ),
                (None, Some(folder)) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
                    format!("the directory {} does not exist", folder.display())
                }
                _ => "create one with `cannery-archiver DIR FILE`".to_owned(),
            })
        }
        OpenError::Length { .. } | OpenError::Corrupt(_) | OpenError::Cut { .. } => damaged(failure, path),
        OpenError::Foreign | OpenError::TooShort { .. } => match OtherFile::recognize(path) {
            Some(other) => {
                let message = format!("{} isn't an archive of Cannery: it is {}", path.display(), other.name);
                Failure::input(message).hint(other.hint)
            }
            None => failure.hint(
                "`cannery-archiver DIR FILE` compiles a folder into an archive; `cannery import` reads those of kawipiko",
            ),
        },
        // Either the message already says what to do, or there is nothing to do.
        _ => failure,
    }
}

/// A kind of file that people name instead of an archive.
struct OtherFile {
    name: &'static str,
    hint: &'static str,
}

impl OtherFile {
    /// Recognizes a file by its first bytes.
    fn recognize(path: &Path) -> Option<OtherFile> {
        const UNPACK: &str =
            "unpack it first: the archive is in it, or the folder that `cannery-archiver DIR FILE` compiles";
        const DOWNLOAD: &str = "if it was downloaded, the server has sent this page instead of the archive: download it again; \
            `cannery-archiver DIR FILE` compiles a folder of pages";
        const COMPILE: &str = "`cannery-archiver DIR FILE` compiles a folder into an archive";
        let mut start = Vec::new();
        File::open(path).ok()?.take(512).read_to_end(&mut start).ok()?;
        let text = start.trim_ascii_start().to_ascii_lowercase();
        let has_tar = start.get(257..262) == Some(b"ustar");
        let (name, hint) = match () {
            () if start.is_empty() => ("empty", "build it again, or copy it again from where it was built"),
            () if text.starts_with(b"<!doctype html") || text.starts_with(b"<html") => {
                ("an HTML page", DOWNLOAD)
            }
            () if text.starts_with(b"<?xml") => ("an XML document", DOWNLOAD),
            () if start.starts_with(b"\x1f\x8b") => ("compressed with gzip", UNPACK),
            () if start.starts_with(b"\x28\xb5\x2f\xfd") => ("compressed with zstd", UNPACK),
            () if start.starts_with(b"\xfd7zXZ\0") => ("compressed with xz", UNPACK),
            () if start.starts_with(b"PK\x03\x04") => ("a ZIP archive", UNPACK),
            () if has_tar => ("a tar archive", UNPACK),
            () if start.starts_with(b"untrusted comment:") => {
                ("a key or signature of minisign", "name the archive itself, which the signature is beside")
            }
            () if is_text(&start) => ("a text file", COMPILE),
            () => return None,
        };
        Some(OtherFile { name, hint })
    }
}

/// Whether these bytes, which may end within a character, are text.
fn is_text(start: &[u8]) -> bool {
    let text = match str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.contains(|letter: char| letter.is_control() && !letter.is_whitespace())
}

/// Explains that `path` is a folder, or a release directory, where an archive should be.
fn folder_instead(path: &Path) -> Failure {
    let shown = path.display();
    // Compiled as a site, a release directory would publish its archives.
    if has_archives(path) && !path.join("index.html").exists() {
        let current = path.join(CURRENT);
        return Failure::input(format!("{shown} is a release directory, not an archive")).hint(format!(
            "`cannery-server --releases {shown}` serves its current release, and {} is that archive",
            current.display()
        ));
    }
    Failure::input(format!("{shown} is a folder, not an archive")).hint(format!(
        "`cannery-server --folder {shown}` serves it, `cannery serve {shown}` while you edit it, and \
         `cannery-archiver {shown} site.cdb` compiles it into an archive"
    ))
}

/// Explains that `path` is a file where a release directory should be.
pub(super) fn archive_instead(path: &Path) -> Failure {
    let shown = path.display();
    if Archive::open(path, Loading::Mapped).is_err() {
        return Failure::input(format!("{shown} is a file, not a release directory"));
    }
    Failure::input(format!("{shown} is an archive, not a release directory")).hint(format!(
        "`cannery-server {shown}` serves it, and `cannery inspect {shown}` lists what is in it"
    ))
}

/// If `path` is `current` in a directory with archives, returns this directory.
fn release_directory(path: &Path) -> Option<&Path> {
    let folder = path.parent().filter(|_| path.file_name().is_some_and(|name| name == CURRENT))?;
    has_archives(folder).then_some(folder)
}

fn has_archives(folder: &Path) -> bool {
    let is_archive = |path: &Path| path.extension().is_some_and(|suffix| suffix == "cdb");
    fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(|entry| is_archive(&entry.path())))
}

/// Returns a function that turns an inconsistency in the archive at `path` into a failure.
pub(super) fn corrupt(path: &Path) -> impl Fn(Corrupt) -> Failure {
    move |corrupt| damaged(Failure::input(format!("{}: {corrupt}", path.display())), path)
}

/// Adds a hint about the damaged archive at `path`.
pub(super) fn damaged(failure: Failure, path: &Path) -> Failure {
    let remedy = "build it again, or copy it again from where it was built; archives cannot be repaired";
    failure.hint(match release_directory(path) {
        Some(folder) => {
            format!("{remedy}. `cannery releases {} --use NAME` chooses another release", folder.display())
        }
        None => remedy.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Exit;

    #[test]
    fn a_file_that_is_no_archive_is_bad_input() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        fs::write(&file, "not an archive").unwrap();
        for path in [folder.path().join("missing"), file, folder.path().to_owned()] {
            let failure = open(&path).unwrap_err();
            let Failure::Message { exit, message, .. } = failure else { panic!("{}", path.display()) };
            assert_eq!(exit, Exit::Input);
            assert!(message.starts_with(&path.display().to_string()), "{message}");
        }
    }

    #[test]
    fn a_release_directory_without_a_current_release_needs_a_choice() {
        let folder = tempfile::tempdir().unwrap();
        let hint = || match open(&folder.path().join("current")).unwrap_err() {
            Failure::Message { hint, .. } => hint.unwrap_or_default(),
            other => panic!("{other:?}"),
        };
        assert!(hint().contains(&format!("cannery push {} SITE", folder.path().display())), "{}", hint());
        fs::write(folder.path().join("1.cdb"), "").unwrap();
        assert!(hint().contains("--use NAME"), "{}", hint());
    }
}
