//! A folder, for example on a shared disk, or one that a web server serves.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use cannery_base::hex::Hex;

use super::{DOCUMENT, blob_path, replaced_meanwhile};
use crate::error::{StoreError, StoreErrorKind};
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::release::{Blob, StoredSite};
use crate::store::{Look, Opened, Store};

pub(super) struct FolderStore {
    path: PathBuf,
}

/// The file whose lock publishers hold while they replace the document or remove files. A directory can't be locked on NFS.
const LOCK: &str = ".lock";

impl FolderStore {
    pub(super) fn new(path: &Path) -> FolderStore {
        FolderStore { path: path.to_owned() }
    }

    /// Waits until no other publisher changes the document. The lock is released when the file is dropped, or by a crash.
    fn lock(&self) -> Result<File, StoreError> {
        let path = self.path.join(LOCK);
        let opened = match File::options().write(true).create(true).truncate(false).open(&path) {
            // Another user has created it. Local file systems lock files that are open for reading, too.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(&path),
            opened => opened,
        };
        let file = opened.map_err(|error| StoreError {
            kind: StoreErrorKind::Write,
            ..StoreError::file("write", &path, &error)
        })?;
        // Some network file systems have no locks. The comparison of versions is all that we can do there.
        let _ = file.lock();
        Ok(file)
    }

    /// Reads the document and its version. Returns `None` if there is none.
    fn read_document(&self) -> Result<Option<(Vec<u8>, String)>, StoreError> {
        let path = self.path.join(DOCUMENT);
        let failed = |error: io::Error| StoreError::file("read", &path, &error);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let start = version_start(&file).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        let version = format!("{start}{}", digest_version(&bytes));
        Ok(Some((bytes, version)))
    }

    fn blob(&self, blob: &Blob) -> PathBuf {
        self.path.join(blob_path(&blob.hex()))
    }

    /// Replaces a file with a single rename, after its contents are on disk.
    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), StoreError> {
        let folder = path.parent().unwrap_or(&self.path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = folder.join(format!(".{}-{name}.tmp", std::process::id()));
        let written = fs::create_dir_all(folder)
            .and_then(|()| cannery_publish::replace(path, &temporary, content))
            .and_then(|()| File::open(folder)?.sync_all());
        written.map_err(|error| {
            let failed = StoreError::file("write", path, &error);
            StoreError { kind: StoreErrorKind::Write, ..failed }
        })
    }
}

impl Store for FolderStore {
    fn look(&mut self, known: Option<&str>) -> Result<Look, StoreError> {
        let path = self.path.join(DOCUMENT);
        let failed = |error: io::Error| StoreError::file("read", &path, &error);
        let start = match File::open(&path).and_then(|file| version_start(&file)) {
            // A folder that isn't mounted must not count as one without a release.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.path.is_dir() => {
                return Ok(Look::Empty);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(failed(error).hint("mount or create this folder, or check its path"));
            }
            start => start.map_err(failed)?,
        };
        if known.is_some_and(|known| known.starts_with(&start)) {
            return Ok(Look::Same);
        }
        let Some((bytes, version)) = self.read_document()? else { return Ok(Look::Empty) };
        // A copy of the document, for example from a backup, has another time or inode.
        if known.is_some_and(|known| digest_in(known) == digest_in(&version)) {
            return Ok(Look::Same);
        }
        let site =
            StoredSite::parse(&bytes).map_err(|error| error.in_document(&path.display().to_string()))?;
        Ok(Look::New { site: Box::new(site), version })
    }

    fn open(&mut self, blob: &Blob, range: Range<u64>) -> Result<Opened, StoreError> {
        let path = self.blob(blob);
        let opened = File::open(&path).and_then(|mut file| {
            file.seek(SeekFrom::Start(range.start))?;
            Ok(file)
        });
        let file = opened.map_err(|error| StoreError::file("read", &path, &error))?;
        Ok(Opened { start: range.start, reader: Box::new(file.take(range.end - range.start)) })
    }

    fn has(&mut self, blob: &Blob) -> Result<bool, StoreError> {
        Ok(fs::metadata(self.blob(blob)).is_ok_and(|metadata| metadata.len() == blob.bytes))
    }

    fn put(&mut self, blob: &Blob, content: &[u8]) -> Result<(), StoreError> {
        self.replace(&self.blob(blob), content)
    }

    fn point(&mut self, site: &StoredSite, seen: Option<&str>) -> Result<(), StoreError> {
        let _lock = self.lock()?;
        let path = self.path.join(DOCUMENT);
        // The time of the last change may be the same for two documents, so their contents count.
        let present = self.read_document()?;
        if present.as_ref().and_then(|(_, version)| digest_in(version)) != seen.and_then(digest_in) {
            return Err(replaced_meanwhile(&path.display().to_string()));
        }
        // Another publisher may have dropped a release that we have found, and then removed its files.
        let releases = std::iter::once(&site.current).chain(&site.staged);
        for blob in releases.flat_map(|release| [release.archive, release.recipe]) {
            if !self.has(&blob)? {
                let path = self.blob(&blob);
                let message = format!("{} is missing: it was removed by another publisher", path.display());
                return Err(StoreError::new(StoreErrorKind::Missing, message)
                    .hint("run the same command again, or push that release again"));
            }
        }
        self.replace(&path, &site.to_json())
    }

    fn clean(&mut self) -> Result<(), StoreError> {
        for folder in [self.path.clone(), self.path.join(blob_path(""))] {
            // There is none before the first push.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let Some(owner) = temporary_owner(&entry.file_name()) else { continue };
                let path = entry.path();
                cannery_publish::remove_abandoned(&path, owner)
                    .map_err(|error| StoreError::file("remove", &path, &error))?;
            }
        }
        Ok(())
    }

    fn remove(&mut self, blob: &Blob) -> Result<(), StoreError> {
        let _lock = self.lock()?;
        // Another publisher may have named it meanwhile.
        if let Some((bytes, _)) = self.read_document()?
            && StoredSite::parse(&bytes).map_or(true, |site| site.blobs().any(|named| named == *blob))
        {
            return Ok(());
        }
        match fs::remove_file(self.blob(blob)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::file("remove", &self.blob(blob), &error))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the start of a document's version: the time of its last change, its length, and its inode. The digest of its contents follows.
fn version_start(file: &File) -> io::Result<String> {
    let metadata = file.metadata()?;
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    // Each document is a new file, and two of them may have the same time.
    Ok(format!("{}-{}-{}-", modified.unwrap_or_default().as_nanos(), metadata.len(), metadata.ino()))
}

/// Returns the digest of a document from its version.
fn digest_in(version: &str) -> Option<&str> {
    version.rsplit('-').next()
}

/// Returns the process ID in the name of a temporary file, such as `.123-live.json.tmp`.
fn temporary_owner(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix('.')?.strip_suffix(".tmp")?.split_once('-')?.0.parse().ok()
}

/// Returns a version for a document without one.
pub(super) fn digest_version(bytes: &[u8]) -> String {
    Hex(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref()).to_string()
}

#[cfg(test)]
mod tests {
    use cannery_archive::Digest;

    use super::*;
    use crate::release::StoredRelease;

    fn store(folder: &Path) -> FolderStore {
        FolderStore::new(folder)
    }

    /// Adds the files of a release, whose contents are its serial.
    fn put(store: &mut FolderStore, serial: u64) -> StoredRelease {
        let archive = Blob::of(format!("archive {serial}").as_bytes());
        let recipe = Blob::of(format!("recipe {serial}").as_bytes());
        store.put(&archive, format!("archive {serial}").as_bytes()).unwrap();
        store.put(&recipe, format!("recipe {serial}").as_bytes()).unwrap();
        let digest = Digest::of(&serial.to_le_bytes());
        StoredRelease { serial, digest, date: 1, signed: None, archive, recipe, patches: Vec::new() }
    }

    fn look(store: &mut FolderStore) -> (StoredSite, String) {
        match store.look(None).unwrap() {
            Look::New { site, version } => (*site, version),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn second_publisher_of_two_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (store(folder.path()), store(folder.path()));
        let releases = [1, 2, 3].map(|serial| put(&mut one, serial));
        let with = |before: Option<&StoredSite>, index: usize| {
            StoredSite::with_current(before, releases[index].clone(), 2).0
        };
        // Both have found an empty store.
        one.point(&with(None, 0), None).unwrap();
        let refused = two.point(&with(None, 1), None).unwrap_err();
        assert!(refused.message.contains("another publisher"), "{refused}");

        let (site, version) = look(&mut one);
        assert_eq!(one.look(Some(&version)).unwrap(), Look::Same);
        one.point(&with(Some(&site), 1), Some(&version)).unwrap();
        assert!(two.point(&with(Some(&site), 2), Some(&version)).is_err());
        let (site, version) = look(&mut two);
        two.point(&with(Some(&site), 2), Some(&version)).unwrap();
        assert_eq!(look(&mut one).0.earlier, [releases[1].clone()]);
    }

    #[test]
    fn named_files_are_neither_missing_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (store(folder.path()), store(folder.path()));
        let releases = [1, 2, 3].map(|serial| put(&mut one, serial));
        let mut site: Option<StoredSite> = None;
        let mut version: Option<String> = None;
        for release in &releases {
            let (next, unused) = StoredSite::with_current(site.as_ref(), release.clone(), 2);
            one.point(&next, version.as_deref()).unwrap();
            let (found, found_version) = look(&mut one);
            (site, version) = (Some(found), Some(found_version));
            if unused.is_empty() {
                continue;
            }
            // Before its files are removed, another publisher makes the first release current again.
            let again = StoredSite::with_current(site.as_ref(), releases[0].clone(), 2).0;
            two.point(&again, version.as_deref()).unwrap();
            for blob in &unused {
                one.remove(blob).unwrap();
                assert!(two.has(blob).unwrap(), "it is named again");
            }
        }
        // After its files were removed, a release that was found before can't become current.
        let (site, version) = look(&mut two);
        two.remove(&releases[1].archive).unwrap();
        let stale = StoredSite::with_current(Some(&site), releases[1].clone(), 2).0;
        assert!(two.point(&stale, Some(&version)).is_err());
        assert_eq!(look(&mut two).0.current.serial, 1);
    }
}
