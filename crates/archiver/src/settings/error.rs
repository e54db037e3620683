//! Errors of a build, each with the path concerned.
//!
//! After any error, the old archive is unchanged. [`Error::class`] decides the exit code.

use std::io;
use std::path::{Path, PathBuf};

use cannery_archive::{Corrupt, OpenError, VerifyError, WriteError};

use crate::ground::report::Report;
use crate::kawipiko::ReadError;
use crate::tree::skip::{IgnoreFileError, PatternError};
use crate::tree::walk::WalkError;

/// Why a build wrote no archive.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options contradict each other or the file system.
    #[error("{path}: {problem}", path = path.display())]
    Usage {
        /// The path in the options.
        path: PathBuf,
        /// The problem and its remedy.
        problem: &'static str,
    },
    /// No encoder was selected.
    #[error("no encoder is selected: name at least one of identity, gzip, zopfli, brotli, zstd")]
    NoEncoder,
    /// A `Cache-Control` value with a byte that a field value can't contain.
    #[error("`--cache-control` contains a byte that a field value can't contain: {value:?}")]
    CacheControl {
        /// The value.
        value: String,
    },
    /// An option contains an invalid pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The source folder can't be listed.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// The source folder has no files.
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
    /// The archive of kawipiko is damaged, or is none.
    #[error("{}: {source}", path.display())]
    Import {
        /// The archive.
        path: PathBuf,
        /// The reason.
        source: ReadError,
    },
    /// The ignore file can't be read.
    #[error(transparent)]
    IgnoreFile(#[from] IgnoreFileError),
    /// A source file can't be read, or was removed during the build.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A source file changed each time it was read.
    #[error("{} changes while it is being read: build again when no process writes to it", path.display())]
    Changing {
        /// The file.
        path: PathBuf,
    },
    /// Files of a folder that is being edited can't be read. The next attempt is made without them.
    #[error("{} has files that cannot be read", folder.display())]
    Unreadable {
        /// The source folder.
        folder: PathBuf,
    },
    /// A folder that is being edited has lost its page for `/`, or most of its files: a program is probably writing it.
    #[error("{} is incomplete: its page for `/`, or most of its files, are gone", folder.display())]
    Unfinished {
        /// The source folder.
        folder: PathBuf,
    },
    /// The build was canceled, because its result is no longer wanted.
    #[error("the build was canceled")]
    Canceled,
    /// A compressed content didn't decompress to the original: a bug in the encoder, or a memory error.
    #[error("{encoder} didn't reproduce the content of {}: leave this coding out and report a bug", path.display())]
    Encoder {
        /// The encoder's name.
        encoder: &'static str,
        /// A file with this content.
        path: PathBuf,
    },
    /// Files of an earlier release can't be carried forward.
    #[error("cannot carry files forward from {}: {source}", path.display())]
    Previous {
        /// The archive.
        path: PathBuf,
        /// The reason.
        source: PreviousError,
    },
    /// The requested serial isn't greater than that of an earlier release.
    #[error("`--serial {serial}`: an earlier release has serial {newest}; give a greater number, or none")]
    Serial {
        /// The requested serial.
        serial: u64,
        /// The newest earlier serial.
        newest: u64,
    },
    /// Another archive of the release directory has the same serial.
    #[error("{} is release {serial} already", path.display())]
    SerialExists {
        /// The serial.
        serial: u64,
        /// The other archive.
        path: PathBuf,
        /// The release directory.
        directory: PathBuf,
    },
    /// The path of a cache is in use for something else.
    #[error("cannot use the cache {}: {source}", path.display())]
    Cache {
        /// The cache.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The archive can't be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The archive.
        path: PathBuf,
        /// The reason.
        source: WriteError,
    },
    /// The archive was written but can't be opened, so its links can't be checked.
    #[error("cannot open the new archive {}: {source}", path.display())]
    ReadBack {
        /// The archive.
        path: PathBuf,
        /// The reason.
        source: OpenError,
    },
    /// Threads can't be started.
    #[error("cannot start {threads} threads: {source}")]
    Threads {
        /// The number of threads.
        threads: usize,
        /// The reason.
        source: rayon::ThreadPoolBuildError,
    },
    /// The site would be insecure without something that a source file requests.
    #[error("{} error(s) in the source folder: {} was not replaced", report.errors(), path.display())]
    Sources {
        /// The archive that would have been replaced.
        path: PathBuf,
        /// The report up to this point, with the errors.
        report: Box<Report>,
    },
    /// There were warnings, and `strict` is on.
    #[error("{} warning(s), and --strict: {} was not replaced", report.warnings(), path.display())]
    Strict {
        /// The archive that would have been replaced.
        path: PathBuf,
        /// The report, with the warnings.
        report: Box<Report>,
    },
}

/// The class of an [`Error`], which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Wrong command line.
    Usage,
    /// A fault in the source folder.
    Input,
    /// The archive or a cache can't be written.
    Output,
    /// The build succeeded, with warnings.
    Strict,
    /// A bug, or a fault of the machine.
    Internal,
}

/// Why files of an earlier archive can't be carried forward.
#[derive(Debug, thiserror::Error)]
pub enum PreviousError {
    /// The directory can't be listed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It can't be opened, or isn't an archive.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its bytes don't match its digest.
    #[error(transparent)]
    Damaged(#[from] VerifyError),
    /// A number in it is out of range.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// Its manifest can't be parsed.
    #[error("its manifest is damaged: {0}")]
    Manifest(#[from] serde_json::Error),
    /// Its manifest doesn't name the release of a carried path.
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

    /// Returns `true` if a source file was changed or removed during the build, so that the next one may succeed.
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

    /// Returns `true` if the folder of a [`Compiler`](crate::Compiler) is probably still being written. Build again soon.
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
