//! The folder with certificates, states and the account key.
//!
//! Files are replaced as a whole: a new file is written, synced and renamed, so that a reader gets the old or the new
//! content, whenever we are killed.

mod lock;
mod request;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::limits::FILE_BYTES_MAX;
use lock::Lock;
pub(crate) use request::request_renewal;

/// Readers of the bundles, which contain private keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BundleReaders {
    /// Only the user of the process.
    #[default]
    Owner,
    /// Also the group of the files.
    Group,
}

/// A folder that only this process writes to.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    readers: BundleReaders,
    _lock: Lock,
}

impl Folder {
    /// Opens a folder and locks it. It is created if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the folder can't be written to, or if another process holds it.
    pub(crate) fn open(path: &Path, readers: BundleReaders) -> Result<Folder, Error> {
        let mode = if readers == BundleReaders::Group { 0o750 } else { 0o700 };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(path)
            .map_err(|source| Error::folder("create", path, source))?;
        let lock = Lock::take(path)?;
        if readers == BundleReaders::Group {
            add_mode(path, mode)?;
        }
        Ok(Folder { path: path.to_owned(), readers, _lock: lock })
    }

    /// Returns the path of a file.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a file. Returns `None` if it does not exist.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        read(&self.file(name))
    }

    /// Replaces a file that only the user of the process may read.
    pub(crate) fn write_private(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        self.write(name, 0o600, content)?.publish()
    }

    /// Replaces a file without secrets.
    pub(crate) fn write_public(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        self.write(name, 0o644, content)?.publish()
    }

    /// Lets the readers of bundles read one that was written with other settings. It may be missing.
    pub(crate) fn admit_readers(&self, bundle: &str) -> Result<(), Error> {
        match self.readers {
            BundleReaders::Owner => Ok(()),
            BundleReaders::Group => add_mode(&self.file(bundle), 0o640),
        }
    }

    /// Writes a bundle next to its final place. The caller checks it before it is published.
    pub(crate) fn write_bundle(&self, name: &str, content: &[u8]) -> Result<Unpublished, Error> {
        let mode = if self.readers == BundleReaders::Group { 0o640 } else { 0o600 };
        self.write(name, mode, content)
    }

    /// Takes a request to renew a certificate. Returns `true` if there was one.
    pub(crate) fn take_request(&self, stem: &str) -> bool {
        request::take(&self.path, stem)
    }

    fn write(&self, name: &str, mode: u32, content: &[u8]) -> Result<Unpublished, Error> {
        let path = self.file(name);
        // A file of this name is left over from a process that was killed. No other process writes here.
        let new = self.file(&format!(".{name}.new"));
        let written = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(mode);
            let mut file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&new)?;
            // The mode of a new file is restricted by the umask, and that of an old one stays.
            file.set_permissions(Permissions::from_mode(mode))?;
            file.write_all(content)?;
            file.sync_all()
        };
        written().map_err(|source| Error::folder("write", &path, source))?;
        Ok(Unpublished { new, path })
    }
}

/// A complete file that isn't in its place yet.
#[must_use]
#[derive(Debug)]
pub(crate) struct Unpublished {
    new: PathBuf,
    path: PathBuf,
}

impl Unpublished {
    /// Returns where the file is now.
    pub(crate) fn current_path(&self) -> &Path {
        &self.new
    }

    /// Moves the file to its place. After a power failure, it is there too.
    pub(crate) fn publish(self) -> Result<(), Error> {
        let moved = || {
            fs::rename(&self.new, &self.path)?;
            let folder = self.path.parent().unwrap_or(Path::new("."));
            File::open(folder)?.sync_all()
        };
        moved().map_err(|source: io::Error| Error::folder("write", &self.path, source))
    }
}

/// Adds permissions to a file or folder, if it exists.
fn add_mode(path: &Path, mode: u32) -> Result<(), Error> {
    let permissions = match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_symlink() => metadata.permissions(),
        _ => return Ok(()),
    };
    let wider = permissions.mode() | mode;
    if wider == permissions.mode() {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(wider)) {
        // It belongs to another user, who has chosen its mode.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        changed => changed.map_err(|source| Error::folder("change the mode of", path, source)),
    }
}

/// Reads a regular file. Returns `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    let failed = |source| Error::folder("read", path, source);
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    let mut content = Zeroizing::new(Vec::new());
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    /// Opens a folder again. Children of other tests inherit our descriptors for a moment, and the lock with them.
    fn reopen(path: &Path, readers: BundleReaders) -> Folder {
        loop {
            match Folder::open(path, readers) {
                Err(Error::Held { .. }) => std::thread::yield_now(),
                opened => return opened.unwrap(),
            }
        }
    }

    #[test]
    fn files_have_their_modes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/b");
        let folder = Folder::open(&path, BundleReaders::Group).unwrap();
        folder.write_private("account.pem", b"key").unwrap();
        folder.write_public("a.state.json", b"{}").unwrap();
        folder.write_bundle("a.pem", b"bundle").unwrap().publish().unwrap();
        let modes = ["account.pem", "a.state.json", "a.pem", "lock"].map(|name| mode(&folder.file(name)));
        assert_eq!((modes, mode(&path)), ([0o600, 0o644, 0o640, 0o600], 0o750));
        assert_eq!(folder.read("a.pem").unwrap().unwrap().as_slice(), b"bundle");
        assert!(folder.read("b.pem").unwrap().is_none());
    }

    #[test]
    fn group_may_read_bundles_of_an_earlier_run() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("certificates");
        let folder = Folder::open(&path, BundleReaders::Owner).unwrap();
        folder.write_bundle("a.pem", b"bundle").unwrap().publish().unwrap();
        folder.write_private("account.pem", b"key").unwrap();
        folder.admit_readers("a.pem").unwrap();
        assert_eq!((mode(&path), mode(&folder.file("a.pem"))), (0o700, 0o600));
        drop(folder);

        let folder = reopen(&path, BundleReaders::Group);
        folder.admit_readers("a.pem").unwrap();
        folder.admit_readers("missing.pem").unwrap();
        let modes = ["a.pem", "account.pem"].map(|name| mode(&folder.file(name)));
        assert_eq!((mode(&path), modes), (0o750, [0o640, 0o600]));
    }

    #[test]
    fn file_is_replaced_only_when_published() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), BundleReaders::Owner).unwrap();
        folder.write_bundle("a.pem", b"old, and longer").unwrap().publish().unwrap();
        // The process is killed here, and the next one writes a shorter file.
        let unpublished = folder.write_bundle("a.pem", b"new").unwrap();
        assert_eq!(folder.read("a.pem").unwrap().unwrap().as_slice(), b"old, and longer");
        assert_eq!(fs::read(unpublished.current_path()).unwrap(), b"new");
        folder.write_bundle("a.pem", b"!").unwrap().publish().unwrap();
        assert_eq!(folder.read("a.pem").unwrap().unwrap().as_slice(), b"!");
    }

    #[test]
    fn second_process_learns_who_holds_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let first = Folder::open(place.path(), BundleReaders::Owner).unwrap();
        let error = Folder::open(place.path(), BundleReaders::Owner).unwrap_err();
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        reopen(place.path(), BundleReaders::Owner);
    }

    #[test]
    fn lock_follows_no_link() {
        let place = tempfile::tempdir().unwrap();
        let other = place.path().join("other");
        fs::write(&other, "content").unwrap();
        let path = place.path().join("tls");
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink(&other, path.join("lock")).unwrap();
        assert!(Folder::open(&path, BundleReaders::Owner).is_err());
        assert_eq!(fs::read_to_string(other).unwrap(), "content");
    }

    #[test]
    fn special_and_large_files_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), BundleReaders::Owner).unwrap();
        fs::create_dir(folder.file("folder")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.file("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        File::create(folder.file("large")).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        for name in ["folder", "fifo", "large"] {
            assert!(folder.read(name).is_err(), "{name}");
        }
    }
}
