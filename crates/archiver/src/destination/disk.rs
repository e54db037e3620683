//! Temporary files on disk, for archives that are too large to be held in memory.
//!
//! The pages of such a file belong to the page cache, so the kernel can drop them and read them again. It has no name, so
//! other users can't open it, and the kernel removes it when its last descriptor and mapping are gone, also after a crash.
//! Unlike memory, it can't be sealed: a process of the same user that may trace this one can change it, through `/proc/PID/fd`.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as platform;

#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
use portable as platform;

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ground::diagnostic::Diagnostic;

/// A larger archive of a [`Compiler`](crate::Compiler), not counting response heads, is a temporary file on disk. Up to four exist
/// at a time: the served one, the one before it, and those of a quick and of a full build. So archives take about 256 MiB of memory
/// at most, and sites of text, which are edited most, are hardly ever written to disk.
pub const MEMORY_ARCHIVE_BYTES_MAX: u64 = 64 << 20;

/// The environment variables that name the directory, in order of precedence. `CACHE_DIRECTORY` has the directories of
/// systemd's `CacheDirectory=`, separated by colons.
const VARIABLES: [&str; 2] = ["CACHE_DIRECTORY", "TMPDIR"];

/// The directory for large temporary files that every system has (`file-hierarchy(7)`).
const DEFAULT_DIRECTORY: &str = "/var/tmp";

/// Creates an empty file, open for reading and writing.
type CreateFile = Box<dyn Fn() -> io::Result<File> + Send + Sync>;

/// A directory for temporary files without a name.
pub struct TemporaryDirectory {
    path: PathBuf,
    /// The environment variable with which the user can choose another directory.
    variable: &'static str,
    create: Option<CreateFile>,
}

impl TemporaryDirectory {
    /// Returns the directory that the environment names, unless that is a file system in memory, or `/var/tmp`.
    #[must_use]
    pub fn from_environment() -> TemporaryDirectory {
        TemporaryDirectory::from_variables(env::var_os)
    }

    fn from_variables<T: AsRef<OsStr>>(value: impl Fn(&'static str) -> Option<T>) -> TemporaryDirectory {
        let named = VARIABLES.into_iter().find_map(|variable| {
            let value = value(variable)?;
            let first =
                value.as_ref().as_bytes().split(|byte| *byte == b':' && variable != "TMPDIR").next()?;
            let path = PathBuf::from(OsStr::from_bytes(first));
            let is_usable = !path.as_os_str().is_empty() && !platform::is_in_memory(&path);
            is_usable.then_some(TemporaryDirectory { path, variable, create: None })
        });
        named.unwrap_or_else(|| TemporaryDirectory {
            path: DEFAULT_DIRECTORY.into(),
            variable: "TMPDIR",
            create: None,
        })
    }

    /// Lets `create` create the files, which must be in the directory: a process in a sandbox may lack the permission.
    #[must_use]
    pub fn with_files_from(
        self,
        create: impl Fn() -> io::Result<File> + Send + Sync + 'static,
    ) -> TemporaryDirectory {
        TemporaryDirectory { create: Some(Box::new(create)), ..self }
    }

    /// Creates an empty file without a name, open for reading and writing.
    ///
    /// # Errors
    /// Returns the error of the system. The directory may be missing, not writable, or a file system in memory.
    pub fn create(&self) -> io::Result<File> {
        if let Some(create) = &self.create {
            return create();
        }
        if platform::is_in_memory(&self.path) {
            return Err(io::Error::new(ErrorKind::Unsupported, "it is in memory"));
        }
        platform::create(&self.path)
    }

    /// Returns the warning that an archive is held in memory because of an error.
    fn warning(&self, error: &io::Error) -> Diagnostic {
        let remedy = match error.kind() {
            ErrorKind::NotFound => "create the directory",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space there",
            _ => "make it writable for the server",
        };
        let message = format!(
            "the archive is held in memory, because it can't be stored in this directory ({error}): {remedy}, or name a \
             directory on a disk in `{}`",
            self.variable
        );
        Diagnostic::warning(self.path.as_os_str().as_bytes(), "held-in-memory", message)
    }
}

impl fmt::Debug for TemporaryDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemporaryDirectory").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The space for the archive of one build: memory, and the disk for a large one.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    directory: Arc<TemporaryDirectory>,
    /// A larger archive is on disk.
    memory_bytes_max: u64,
    /// Why this build doesn't use the disk.
    warning: Option<Diagnostic>,
}

impl Space {
    pub(crate) fn new(directory: Arc<TemporaryDirectory>, memory_bytes_max: u64) -> Space {
        Space { directory, memory_bytes_max, warning: None }
    }

    /// Returns the directory on disk.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory.path
    }

    /// Returns `true` if an archive of this length must be on disk.
    pub(super) fn needs_disk(&self, archive_bytes: u64) -> bool {
        archive_bytes > self.memory_bytes_max && self.warning.is_none()
    }

    /// Creates a file on disk, with room for an archive of this length.
    pub(super) fn create_on_disk(&self, archive_bytes: u64) -> io::Result<File> {
        let file = self.directory.create()?;
        // A full file system would hinder other programs until the build has failed.
        match rustix::fs::fstatvfs(&file) {
            Ok(found) if found.f_bavail.saturating_mul(found.f_frsize) < archive_bytes => {
                Err(rustix::io::Errno::NOSPC.into())
            }
            Ok(_) | Err(_) => Ok(file),
        }
    }

    /// Keeps the archive of this build in memory, because the disk has failed.
    pub(crate) fn abandon_disk(&mut self, error: &io::Error) {
        self.warning = Some(self.directory.warning(error));
    }

    /// Returns the warning that the disk isn't used, if it has failed.
    pub(super) fn warning(&self) -> Option<&Diagnostic> {
        self.warning.as_ref()
    }
}

#[cfg(test)]
mod tests;
