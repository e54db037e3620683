//! Temporary files on disk, for archives that are too large for memory.
//!
//! The pages of such a file belong to the page cache, so the kernel may drop them and read them again when needed. The file does
//! not have a name, so other users are unable to open it, and the kernel will remove it together with the last descriptor and
//! mapping, even after a crash. Note, however, that a file (unlike memory) can't be sealed: a process of the same user that can
//! trace ours is able to modify it via `/proc/PID/fd`.

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

/// Maximum size of an archive of a [`Compiler`](crate::Compiler) in memory, not counting response heads. If it is larger, it
/// will be stored in a temporary file on disk. Up to four archives exist at a time (the one being served, the one before it,
/// and those of a quick and a full build), so they take up to 256 MiB of memory in total. Text sites are edited the most, and
/// these should hardly ever be written to disk.
pub const MEMORY_ARCHIVE_BYTES_MAX: u64 = 64 << 20;

/// Environment variables for the directory, in order of precedence. `CACHE_DIRECTORY`, as set by systemd's
/// `CacheDirectory=`, may contain several directories separated by colons.
const VARIABLES: [&str; 2] = ["CACHE_DIRECTORY", "TMPDIR"];

/// A directory for large temporary files that exists everywhere (`file-hierarchy(7)`).
const DEFAULT_DIRECTORY: &str = "/var/tmp";

/// Creates an empty file for reading and writing.
type CreateFile = Box<dyn Fn() -> io::Result<File> + Send + Sync>;

/// A directory for unnamed temporary files.
pub struct TemporaryDirectory {
    path: PathBuf,
    /// Environment variable that lets users choose another directory.
    variable: &'static str,
    create: Option<CreateFile>,
}

impl TemporaryDirectory {
    /// Determines the directory from the environment. If there is none, or if it is in memory, this
    /// falls back to `/var/tmp`.
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

    /// Uses `create` to create files, e.g. because this process is in a sandbox. They must be in the same directory.
    #[must_use]
    pub fn with_files_from(
        self,
        create: impl Fn() -> io::Result<File> + Send + Sync + 'static,
    ) -> TemporaryDirectory {
        TemporaryDirectory { create: Some(Box::new(create)), ..self }
    }

    /// Creates an empty, unnamed file for reading and writing.
    ///
    /// # Errors
    ///
    /// This will fail if e.g. the directory is missing, not writable, or in memory. The error
    /// is the one returned by the system.
    pub fn create(&self) -> io::Result<File> {
        if let Some(create) = &self.create {
            return create();
        }
        if platform::is_in_memory(&self.path) {
            return Err(io::Error::new(ErrorKind::Unsupported, "it is in memory"));
        }
        platform::create(&self.path)
    }

    /// Returns a warning that the archive is in memory because of an error.
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

/// Space for a build's archive, either in memory or, if it's large, on disk.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    directory: Arc<TemporaryDirectory>,
    /// Archives up to this size are in memory.
    memory_bytes_max: u64,
    /// Set if this build cannot use the disk.
    warning: Option<Diagnostic>,
}

impl Space {
    pub(crate) fn new(directory: Arc<TemporaryDirectory>, memory_bytes_max: u64) -> Space {
        Space { directory, memory_bytes_max, warning: None }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory.path
    }

    /// Returns `true` if an archive of this length must be on disk.
    pub(super) fn needs_disk(&self, archive_bytes: u64) -> bool {
        archive_bytes > self.memory_bytes_max && self.warning.is_none()
    }

    /// Creates a file on disk if there is enough room for an archive of this length.
    pub(super) fn create_on_disk(&self, archive_bytes: u64) -> io::Result<File> {
        let file = self.directory.create()?;
        // This must be checked first: if we filled up the file system, other programs would be affected until
        // the build fails.
        match rustix::fs::fstatvfs(&file) {
            Ok(found) if found.f_bavail.saturating_mul(found.f_frsize) < archive_bytes => {
                Err(rustix::io::Errno::NOSPC.into())
            }
            Ok(_) | Err(_) => Ok(file),
        }
    }

    /// Keeps this build's archive in memory because of an error.
    pub(crate) fn abandon_disk(&mut self, error: &io::Error) {
        self.warning = Some(self.directory.warning(error));
    }

    /// When the disk has failed, returns the warning about that.
    pub(super) fn warning(&self) -> Option<&Diagnostic> {
        self.warning.as_ref()
    }
}

#[cfg(test)]
mod tests;
