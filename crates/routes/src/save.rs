//! Stores content in a file, which has its name only once it is complete.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// Stores all of `content` in the file at `path`, and returns its length. If this fails, nothing has changed.
pub(crate) fn save(content: &mut impl Read, path: &Path) -> io::Result<u64> {
    let (mut file, part) = create_beside(path)?;
    let saved = io::copy(content, &mut file).and_then(|bytes| {
        // Otherwise the file could have its name, but not its content after a power failure.
        file.sync_all()?;
        fs::rename(&part, path)?;
        Ok(bytes)
    });
    if saved.is_err() {
        let _ = fs::remove_file(&part);
    }
    saved
}

/// Creates a file for content that is incomplete, in the same folder, because files can't be renamed into another file system.
fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let part = path.with_file_name(format!(".{}-{number}.part", process::id()));
        match File::create_new(&part) {
            // An earlier process with the same ID was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (file, part)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{self, ContentReader};
    use crate::content_failure::ContentFailure;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn complete_content_gets_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("upload");
        for content in [b"first".repeat(10_000), b"2".to_vec()] {
            let bytes = ContentReader::complete(content.clone()).save_to(&path).unwrap();
            assert!(bytes == content.len() as u64 && fs::read(&path).unwrap() == content);
        }
        assert_eq!(names(folder.path()), ["upload"]);
    }

    #[test]
    fn incomplete_content_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("upload");
        fs::write(&path, "old").unwrap();
        let (sender, mut content) = content::channel();
        sender.send(b"part");
        sender.fail(ContentFailure::TooLong);
        assert_eq!(content.save_to(&path).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(
            (fs::read(&path).unwrap(), names(folder.path())),
            (b"old".to_vec(), vec!["upload".to_owned()])
        );

        // It can't replace a folder.
        let place = folder.path().join("folder");
        fs::create_dir(&place).unwrap();
        assert!(ContentReader::complete(b"a".to_vec()).save_to(&place).is_err());
        assert_eq!(names(folder.path()).len(), 2);
        assert!(ContentReader::complete(b"a".to_vec()).save_to(folder.path().join("missing/a")).is_err());
    }
}
