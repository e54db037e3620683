//! The source files as the build reads them: each whole and unchanged, or an error that names it.
//!
//! A file is as the walk saw it, or it is read again. Never keeps a path but the walk's own bytes, and
//! asks the system for no more than open, read, fstat and close.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cannery_archive::Digest;

use crate::error::Error;
use crate::walk::{SourceFile, Stamp};

/// How often a file that changes is read before it is given up.
const ATTEMPTS_MAX: u32 = 3;

/// Bytes that are read at a time from a file that is not held in memory.
const CHUNK_BYTES: usize = 1 << 20;

/// A place among the sources: first the files as walked, then the pages that the build made.
pub(crate) type SourceId = u32;

/// A page that the build made.
#[derive(Debug)]
pub(crate) struct Generated {
    /// Its path, as if it stood in the source folder.
    pub(crate) path: Box<[u8]>,
    /// Its content.
    pub(crate) content: Vec<u8>,
}

/// All that contents are made from.
#[derive(Debug)]
pub(crate) struct Sources {
    /// The source folder.
    pub(crate) root: PathBuf,
    /// Its files, sorted by path.
    pub(crate) files: Vec<SourceFile>,
    /// Its folders, sorted by path, the root first.
    pub(crate) folders: Vec<Box<[u8]>>,
    /// The pages made by the build.
    pub(crate) generated: Vec<Generated>,
}

/// A source: a file, or a page made by the build.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    File(&'a SourceFile),
    Generated(&'a Generated),
}

impl Sources {
    pub(crate) fn len(&self) -> usize {
        self.files.len() + self.generated.len()
    }

    pub(crate) fn of(&self, id: SourceId) -> Source<'_> {
        let place = id as usize;
        match self.files.get(place) {
            Some(file) => Source::File(file),
            None => Source::Generated(&self.generated[place - self.files.len()]),
        }
    }

    /// The path of a source, relative to the root.
    pub(crate) fn path(&self, id: SourceId) -> &[u8] {
        match self.of(id) {
            Source::File(file) => &file.path,
            Source::Generated(page) => &page.path,
        }
    }

    /// The length of a source in bytes, as last seen.
    pub(crate) fn length(&self, id: SourceId) -> u64 {
        match self.of(id) {
            Source::File(file) => file.stamp.size,
            Source::Generated(page) => page.content.len() as u64,
        }
    }

    /// When a file was last modified, in seconds since 1970, if the file system has a sensible word on it.
    pub(crate) fn modified(&self, id: SourceId) -> Option<u64> {
        match self.of(id) {
            Source::File(file) => u64::try_from(file.stamp.modified_ns / 1_000_000_000).ok(),
            Source::Generated(_) => None,
        }
    }

    /// Where a source lies, or would lie.
    pub(crate) fn full_path(&self, id: SourceId) -> PathBuf {
        self.root.join(OsStr::from_bytes(self.path(id)))
    }

    /// Appends a file's bytes to `bytes`, and returns the stamp that they belong to.
    pub(crate) fn read(&self, id: SourceId, bytes: &mut Vec<u8>) -> Result<Stamp, Error> {
        let start = bytes.len();
        match self.of(id) {
            Source::Generated(page) => {
                bytes.extend_from_slice(&page.content);
                Ok(Stamp {
                    size: page.content.len() as u64,
                    modified_ns: 0,
                    changed_ns: 0,
                    device: 0,
                    inode: 0,
                })
            }
            Source::File(file) => unchanged(&self.full_path(id), file.stamp, |opened, stamp| {
                bytes.truncate(start);
                bytes.resize(start + usize::try_from(stamp.size).map_err(|_| ErrorKind::FileTooLarge)?, 0);
                opened.read_exact(&mut bytes[start..])
            }),
        }
    }

    /// Hands a file's bytes to `take` piece by piece, and returns the stamp that they belong to. When the
    /// file changes on the way, `restart` is called and all begins again.
    pub(crate) fn stream<T>(
        &self,
        id: SourceId,
        begin: impl Fn() -> T,
        take: impl Fn(&mut T, &[u8]),
    ) -> Result<(T, Stamp), Error> {
        let mut state = begin();
        let Source::File(file) = self.of(id) else {
            let mut bytes = Vec::new();
            let stamp = self.read(id, &mut bytes)?;
            take(&mut state, &bytes);
            return Ok((state, stamp));
        };
        let mut chunk = vec![0; CHUNK_BYTES];
        let stamp = unchanged(&self.full_path(id), file.stamp, |opened, stamp| {
            state = begin();
            let mut left = stamp.size;
            while left > 0 {
                let room = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                opened.read_exact(&mut chunk[..room])?;
                take(&mut state, &chunk[..room]);
                left -= room as u64;
            }
            Ok(())
        })?;
        Ok((state, stamp))
    }

    /// The bytes of a source whose digest is known: the same bytes, or an error.
    pub(crate) fn read_again(&self, id: SourceId, digest: &Digest) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.read(id, &mut bytes)?;
        if Digest::of(&bytes) == *digest { Ok(bytes) } else { Err(self.changing(id)) }
    }

    /// The error that says that a source does not hold still.
    pub(crate) fn changing(&self, id: SourceId) -> Error {
        Error::Changing { path: self.full_path(id) }
    }
}

/// Reads a file until it was the same before and after. `expected` is what it was last seen as; looking
/// once behind the reading is enough to know that nothing has changed since.
fn unchanged(
    path: &Path,
    mut expected: Stamp,
    mut read: impl FnMut(&mut File, &Stamp) -> std::io::Result<()>,
) -> Result<Stamp, Error> {
    for _ in 0..ATTEMPTS_MAX {
        let mut file = File::open(path).map_err(Error::read(path.to_owned()))?;
        let outcome = read(&mut file, &expected);
        let stamp = Stamp::of(&file.metadata().map_err(Error::read(path.to_owned()))?);
        match outcome {
            Ok(()) if stamp == expected => return Ok(stamp),
            // It has become shorter: its stamp says so too.
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => {
                return Err(Error::Read { path: path.to_owned(), source: error });
            }
            Ok(()) | Err(_) => expected = stamp,
        }
    }
    Err(Error::Changing { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn sources(root: &tempfile::TempDir, name: &str) -> Sources {
        let stamp = Stamp::of(&fs::metadata(root.path().join(name)).unwrap());
        Sources {
            root: root.path().to_owned(),
            files: vec![SourceFile { path: name.as_bytes().into(), stamp }],
            folders: vec![Box::default()],
            generated: vec![Generated { path: b"made".as_slice().into(), content: b"by us".to_vec() }],
        }
    }

    #[test]
    fn a_file_is_appended_whole() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), b"content").unwrap();
        let sources = sources(&root, "a");
        let mut bytes = b"before ".to_vec();
        assert_eq!(sources.read(0, &mut bytes).unwrap(), sources.files[0].stamp);
        sources.read(1, &mut bytes).unwrap();
        assert_eq!(bytes, b"before contentby us");
        let (streamed, _) =
            sources.stream(0, Vec::new, |all: &mut Vec<u8>, piece| all.extend_from_slice(piece)).unwrap();
        assert_eq!(streamed, b"content");
    }

    #[test]
    fn a_file_that_was_changed_since_the_walk_is_read_as_it_is_now() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        fs::write(&path, b"a long content").unwrap();
        let sources = sources(&root, "a");
        for content in [b"short".as_slice(), b"a much longer content than before"] {
            fs::write(&path, content).unwrap();
            let mut bytes = Vec::new();
            let stamp = sources.read(0, &mut bytes).unwrap();
            assert_eq!((bytes.as_slice(), stamp.size), (content, content.len() as u64));
        }
    }

    #[test]
    fn a_file_that_never_holds_still_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        fs::write(&path, b"").unwrap();
        let stamp = Stamp::of(&fs::metadata(&path).unwrap());
        let mut length = 0;
        let outcome = unchanged(&path, stamp, |_, _| {
            length += 1;
            fs::write(&path, vec![0; length])
        });
        assert!(matches!(outcome, Err(Error::Changing { path: named }) if named == path));
        assert_eq!(length, ATTEMPTS_MAX as usize);
    }

    #[test]
    fn a_file_that_has_vanished_is_an_error_that_names_it() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), b"content").unwrap();
        let sources = sources(&root, "a");
        fs::remove_file(root.path().join("a")).unwrap();
        let error = sources.read(0, &mut Vec::new()).unwrap_err();
        assert!(matches!(&error, Error::Read { path, .. } if path.ends_with("a")), "{error}");
    }

    #[test]
    fn other_bytes_under_a_known_digest_are_an_error() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), b"content").unwrap();
        let sources = sources(&root, "a");
        assert_eq!(sources.read_again(0, &Digest::of(b"content")).unwrap(), b"content");
        assert!(matches!(sources.read_again(0, &Digest::of(b"other")), Err(Error::Changing { .. })));
    }
}
