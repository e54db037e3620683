//! Build errors. Each of them names the path that caused it.
//!
//! Regardless of the error, the old archive is unchanged. The exit code is determined by [`Error::class`].

use std::io;
use std::path::{Path, PathBuf};

use cannery_archive::{Corrupt, OpenError, VerifyError, WriteError};

use crate::ground::report::Report;
use crate::kawipiko::ReadError;
use crate::tree::skip::{IgnoreFileError, PatternError};
use crate::tree::walk::WalkError;

/// Why a build did not write an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The options contradict each other, or the file system.
    #[error("the output {path} {problem}", path = path.display())]
    Usage {
        /// The path in the options.
        path: PathBuf,
        /// The problem and how to solve it.
        problem: &'static str,
    },
    /// No encoder was selected.
    #[error("no encoder is selected: name at least one of identity, gzip, zopfli, brotli, zstd")]
    NoEncoder,
    /// A `Cache-Control` value contains a byte that is not allowed in field values.
    #[error("`--cache-control` contains a byte that a field value can't contain: {value:?}")]
    CacheControl {
        /// The value.
        value: String,
    },
    /// An option contains an invalid pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The source folder cannot be listed.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// The source folder is empty.
    #[error("{} contains no file that could be served", folder.display())]
    Empty {
        /// The source folder.
        folder: PathBuf,
    },
    /// No site has a page for `/`.
    #[error("{} has no page for `/`: no index page, no rule and no fallback page answers it", folder.display())]
    NoStartPage {
        /// The source folder.
        folder: PathBuf,
    },
    /// The kawipiko archive is damaged, or is not one.
    #[error("{}: {source}", path.display())]
    Import {
        /// The archive.
        path: PathBuf,
        /// The reason.
        source: ReadError,
    },
    /// The ignore file cannot be read.
    #[error(transparent)]
    IgnoreFile(#[from] IgnoreFileError),
    /// A source file cannot be read, or was removed during the build.
    #[error("cannot read {}: {source}; check that it exists, and that the user of this process may read it", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A source file changed every time we tried to read it.
    #[error("{} changes while it is being read: build again when no process writes to it", path.display())]
    Changing {
        /// The file.
        path: PathBuf,
    },
    /// Some files cannot be read in a folder that is being edited. The next attempt will leave them
    /// out.
    #[error("{} has files that cannot be read", folder.display())]
    Unreadable {
        /// The source folder.
        folder: PathBuf,
    },
    /// A folder that is being edited no longer has its start page or most of its files, probably because a program
    /// is currently writing it.
    #[error("{} is incomplete: its page for `/`, or most of its files, are gone", folder.display())]
    Unfinished {
        /// The source folder.
        folder: PathBuf,
    },
    /// The build was canceled because its result is no longer needed.
    #[error("the build was canceled")]
    Canceled,
    /// A compressed content does not decompress to the original, either because of a bug in the encoder or a
    /// memory error.
    #[error("{encoder} didn't reproduce the content of {}: leave this coding out and report a bug", path.display())]
    Encoder {
        /// The encoder's name.
        encoder: &'static str,
        /// A file with this content.
        path: PathBuf,
    },
    /// Files of an earlier release cannot be carried forward.
    #[error(
        "cannot carry files forward from {}: {source}; name an intact archive of an earlier release, or its release directory, or \
         build without `--previous`",
        path.display()
    )]
    Previous {
        /// The archive.
        path: PathBuf,
        /// The reason.
        source: PreviousError,
    },
    /// The requested serial is not higher than all earlier ones.
    #[error("`--serial {serial}`: an earlier release has serial {newest}; give a greater number, or none")]
    Serial {
        /// The requested serial.
        serial: u64,
        /// The newest earlier serial.
        newest: u64,
    },
    /// Another archive in the release directory has the same serial.
    #[error("{} is release {serial} already", path.display())]
    SerialExists {
        /// The serial.
        serial: u64,
        /// The other archive.
        path: PathBuf,
        /// The release directory.
        directory: PathBuf,
    },
    /// Something else than a cache has this path.
    #[error("cannot use the cache {}: {source}", path.display())]
    Cache {
        /// The cache.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The archive cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The archive.
        path: PathBuf,
        /// The reason.
        source: WriteError,
    },
    /// The archive was written, but cannot be opened to check its links.
    #[error("cannot open the new archive {}: {source}", path.display())]
    ReadBack {
        /// The archive.
        path: PathBuf,
        /// The reason.
        source: OpenError,
    },
    /// Threads cannot be started.
    #[error("cannot start {threads} threads: {source}")]
    Threads {
        /// The number of threads.
        threads: usize,
        /// The reason.
        source: rayon::ThreadPoolBuildError,
    },
    /// A source file asks for something that is not supported, but without which the site would be
    /// insecure.
    #[error("{} error(s) in the source folder: {} was not written", report.errors(), path.display())]
    Sources {
        /// The archive that would have been replaced.
        path: PathBuf,
        /// The report up to this point, with the errors.
        report: Box<Report>,
    },
    /// There were warnings, which `strict` turns into an error.
    #[error("{} warning(s), and --strict: {} was not written", report.warnings(), path.display())]
    Strict {
        /// The archive that would have been replaced.
        path: PathBuf,
        /// The report, with the warnings.
        report: Box<Report>,
    },
}

/// Class of an [`Error`], which determines the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Wrong command line.
    Usage,
    /// The source folder has a problem.
    Input,
    /// The archive or a cache cannot be written.
    Output,
    /// The build succeeded, but with warnings.
    Strict,
    /// A bug, or a problem of the machine.
    Internal,
}

/// Why files of an earlier archive cannot be carried forward.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreviousError {
    /// The directory cannot be listed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It cannot be opened, or is not an archive.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its bytes do not match its digest.
    #[error(transparent)]
    Damaged(#[from] VerifyError),
    /// A number in it is out of range.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// Its manifest cannot be parsed.
    #[error("its manifest is damaged: {0}")]
    Manifest(#[from] serde_json::Error),
    /// Its manifest does not name the release of a carried path.
    #[error("its manifest doesn't name the release of {path}")]
    Unlisted {
        /// The path as in a URL.
        path: String,
    },
}

impl Error {
    /// Returns the class of the error.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Usage { .. }
            | Error::NoEncoder
            | Error::CacheControl { .. }
            | Error::Serial { .. }
            | Error::SerialExists { .. }
            | Error::Pattern(_) => ErrorClass::Usage,
            Error::Walk(_)
            | Error::IgnoreFile(_)
            | Error::Empty { .. }
            | Error::NoStartPage { .. }
            | Error::Read { .. }
            | Error::Changing { .. }
            | Error::Unreadable { .. }
            | Error::Unfinished { .. }
            | Error::Sources { .. }
            | Error::Import { .. }
            | Error::Previous { .. } => ErrorClass::Input,
            Error::Cache { .. } | Error::Write { .. } | Error::ReadBack { .. } => ErrorClass::Output,
            Error::Strict { .. } => ErrorClass::Strict,
            Error::Encoder { .. } | Error::Threads { .. } | Error::Canceled => ErrorClass::Internal,
        }
    }

    /// Returns `true` if a source file was changed or removed during the build. If so, another build
    /// can succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Changing { .. } => true,
            Error::Read { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
            _ => false,
        }
    }

    /// Returns `true` if a [`Compiler`](crate::Compiler) has found that the folder is probably still being written. Callers
    /// should build again soon.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        matches!(self, Error::Unfinished { .. })
    }

    pub(crate) fn usage(path: &Path, problem: &'static str) -> Error {
        Error::Usage { path: path.to_owned(), problem }
    }

    pub(crate) fn read(path: PathBuf) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Read { path, source }
    }

    pub(crate) fn cache(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Cache { path, source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(WriteError) -> Error {
        let path = path.to_owned();
        move |source| Error::Write { path, source }
    }
}
