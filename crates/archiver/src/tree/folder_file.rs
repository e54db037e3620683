//! Paths of files in a folder, and how to open them.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::tree::boundary::LinksOut;

/// Returns the full path of a file in the folder.
pub(crate) fn full_path(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(path))
}

/// Opens a file in the folder.
///
/// This will not block, even if another process has replaced the file with a FIFO since the walk.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(ErrorKind::NotFound.into()) }
}

/// Describes something other than a regular file, with an article.
pub(crate) fn kind_of(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Makes sure that all published files are in the folder if links out of the folder are left out.
///
/// Such links are already left out by the walk. However, users with write access to the folder could later replace a file or
/// folder with a link, so we need to check where each file really is after opening it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Confinement {
    /// Canonical path of the folder.
    inside: Option<PathBuf>,
}

impl Confinement {
    /// Confines files to the folder at `root` in its current place.
    pub(crate) fn of(root: &Path, links_out: LinksOut) -> Confinement {
        // When a folder has no canonical path, we cannot walk it either.
        let inside = || fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        Confinement { inside: (links_out == LinksOut::LeftOut).then(inside) }
    }

    /// Opens a file in the folder.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::NotFound`] if the file is no longer in the folder.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        let file = open(path)?;
        if self.contains(path, &file)? { Ok(file) } else { Err(ErrorKind::NotFound.into()) }
    }

    /// When a path leads out of the folder, returns its target.
    pub(super) fn target_outside(&self, path: &Path) -> Option<PathBuf> {
        let inside = self.inside.as_ref()?;
        fs::canonicalize(path).ok().filter(|target| !target.starts_with(inside))
    }

    /// Returns `true` if `file`, which was opened at `path`, may be published.
    fn contains(&self, path: &Path, file: &File) -> io::Result<bool> {
        let Some(inside) = &self.inside else { return Ok(true) };
        match path_of(file) {
            Some(path) => Ok(path.starts_with(inside)),
            None => is_at(&file.metadata()?, &fs::canonicalize(path)?, inside),
        }
    }
}

/// Returns the path of an open file, if available from the kernel.
///
/// Unlike the original path, it is not affected by changed links.
#[cfg(target_os = "linux")]
fn path_of(file: &File) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;

    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(not(target_os = "linux"))]
fn path_of(_file: &File) -> Option<PathBuf> {
    None
}

/// Returns `true` if an open file is the one at `path`. The path must be inside of the folder and should
/// not contain any links.
fn is_at(opened: &Metadata, path: &Path, inside: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let found = fs::symlink_metadata(path)?;
    Ok(path.starts_with(inside) && (found.dev(), found.ino()) == (opened.dev(), opened.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_outside_of_the_folder_are_opened_only_if_links_are_followed() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("site");
        fs::create_dir_all(root.join("docs")).unwrap();
        fs::create_dir(parent.path().join("private")).unwrap();
        for (path, content) in [("site/docs/a", "inside"), ("private/a", "secret")] {
            fs::write(parent.path().join(path), content).unwrap();
        }
        symlink("docs/a", root.join("relative")).unwrap();
        symlink(root.join("docs/a"), root.join("absolute")).unwrap();
        symlink("../private/a", root.join("out")).unwrap();
        symlink("../private", root.join("folder")).unwrap();
        // The root may be a link itself.
        symlink("site", parent.path().join("current")).unwrap();

        for root in [root, parent.path().join("current")] {
            let confined = Confinement::of(&root, LinksOut::LeftOut);
            for name in ["docs/a", "relative", "absolute"] {
                assert!(confined.open(&root.join(name)).is_ok(), "{name}");
            }
            for name in ["out", "folder/a"] {
                let path = root.join(name);
                assert_eq!(confined.open(&path).unwrap_err().kind(), ErrorKind::NotFound, "{name}");
                assert!(Confinement::of(&root, LinksOut::Reported).open(&path).is_ok(), "{name}");
            }
        }
    }

    /// Without `/proc`.
    #[test]
    fn file_is_compared_with_the_one_at_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let inside = fs::canonicalize(folder.path()).unwrap();
        let (a, b) = (inside.join("a"), inside.join("b"));
        fs::write(&a, "").unwrap();
        fs::write(&b, "").unwrap();
        let opened = File::open(&a).unwrap().metadata().unwrap();
        assert!(is_at(&opened, &a, &inside).unwrap());
        assert!(!is_at(&opened, &b, &inside).unwrap());
        assert!(!is_at(&opened, &a, &inside.join("c")).unwrap());
    }
}
