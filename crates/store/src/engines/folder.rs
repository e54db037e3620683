//! A folder, for example on a shared disk, or one that a web server serves.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use cannery_base::hex::Hex;

use super::{DOCUMENT, blob_path};
use crate::error::{StoreError, StoreErrorKind};
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::release::{Blob, StoredSite};
use crate::store::{Look, Opened, Store};

pub(super) struct FolderStore {
    path: PathBuf,
}

impl FolderStore {
    pub(super) fn new(path: &Path) -> FolderStore {
        FolderStore { path: path.to_owned() }
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
            StoreError { kind: StoreErrorKind::Local, ..failed }
        })
    }
}

impl Store for FolderStore {
    fn look(&mut self, known: Option<&str>) -> Result<Look, StoreError> {
        let path = self.path.join(DOCUMENT);
        let failed = |error: io::Error| StoreError::file("read", &path, &error);
        let file = match File::open(&path) {
            // A folder that isn't mounted must not count as one without a release.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.path.is_dir() => {
                return Ok(Look::Empty);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(failed(error).hint("mount or create this folder, or check its path"));
            }
            file => file.map_err(failed)?,
        };
        let metadata = file.metadata().map_err(failed)?;
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let version = format!("{}-{}", modified.unwrap_or_default().as_nanos(), metadata.len());
        if known == Some(&version) {
            return Ok(Look::Same);
        }
        let mut bytes = Vec::new();
        file.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        let site = StoredSite::parse(&bytes)
            .map_err(|error| StoreError::wrong(format!("{}: {error}", path.display())))?;
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

    fn point(&mut self, site: &StoredSite, _: Option<&str>) -> Result<(), StoreError> {
        self.replace(&self.path.join(DOCUMENT), &site.to_json())
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
        match fs::remove_file(self.blob(blob)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::file("remove", &self.blob(blob), &error))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the process ID in the name of a temporary file, such as `.123-live.json.tmp`.
fn temporary_owner(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix('.')?.strip_suffix(".tmp")?.split_once('-')?.0.parse().ok()
}

/// Returns a version for a document without one.
pub(super) fn digest_version(bytes: &[u8]) -> String {
    Hex(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref()).to_string()
}
