//! Opening an archive that a command line names, and saying why it cannot be opened.
//!
//! Never looks into it.

use std::io;
use std::path::Path;

use cannery_archive::{Archive, Corrupt, Loading, OpenError};

use crate::output::Failure;

/// Opens the archive at `path` by mapping it.
pub(super) fn open(path: &Path) -> Result<Archive, Failure> {
    Archive::open(path, Loading::Mapped).map_err(|error| failure(path, &error))
}

/// Why the archive at `path` cannot be opened, and what to do.
pub(super) fn failure(path: &Path, error: &OpenError) -> Failure {
    let failure = Failure::input(format!("{}: {error}", path.display()));
    if path.is_dir() {
        let failure = Failure::input(format!("{} is a folder, not an archive", path.display()));
        return failure.hint(format!(
            "`cannery serve {0}` compiles and serves it, `cannery archiver {0} site.cdb` makes an archive of it",
            path.display()
        ));
    }
    match error {
        OpenError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            failure.hint("make one with `cannery archiver DIR FILE`")
        }
        OpenError::Length { .. } | OpenError::Corrupt(_) => damaged(failure),
        // These say by themselves what to do, or nothing can be done here.
        OpenError::Io(_)
        | OpenError::NotRegular { .. }
        | OpenError::TooShort { .. }
        | OpenError::Foreign
        | OpenError::Version { .. } => failure,
    }
}

/// What to say of a number within the archive at `path` that does not fit it.
pub(super) fn corrupt(path: &Path) -> impl Fn(Corrupt) -> Failure {
    move |corrupt| damaged(Failure::input(format!("{}: {corrupt}", path.display())))
}

/// The advice that every damaged archive deserves.
pub(super) fn damaged(failure: Failure) -> Failure {
    failure.hint("build it again, or take the copy that was deployed; archives are never mended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Exit;

    #[test]
    fn what_is_no_archive_is_bad_input() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        std::fs::write(&file, "not an archive").unwrap();
        for path in [folder.path().join("missing"), file, folder.path().to_owned()] {
            let failure = open(&path).unwrap_err();
            let Failure::Message { exit, message, .. } = failure else { panic!("nothing was told") };
            assert_eq!(exit, Exit::Input);
            assert!(message.starts_with(&path.display().to_string()), "{message}");
        }
    }
}
