//! Why a build did not end with a new archive, each with the path where it went wrong.
//!
//! Whatever it was, the old archive stands as it stood. Words are made where a person reads them;
//! [`Error::class`] says whose fault it was.

use std::io;
use std::path::{Path, PathBuf};

use cannery_archive::{Corrupt, OpenError, VerifyError, WriteError};

use crate::report::Report;
use crate::skip::{IgnoreFileError, PatternError};
use crate::walk::WalkError;

/// Why a build did not end with a new archive.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options contradict themselves or the file system.
    #[error("{path}: {what}", path = path.display())]
    Usage {
        /// The path that an option names.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: &'static str,
    },
    /// No coding was asked for.
    #[error("no form to store contents in: name at least one of identity, gzip, zopfli, brotli, zstd")]
    NoEncoder,
    /// A `Cache-Control` value that a header line cannot hold.
    #[error("`--cache-control` holds a byte that a header line cannot: {value:?}")]
    CacheControl {
        /// The value as it was given.
        value: String,
    },
    /// A pattern of the options is none.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The source folder cannot be walked.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// There is nothing to publish.
    #[error("{} holds no file that could be served", folder.display())]
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
    /// The ignore file cannot be read.
    #[error(transparent)]
    IgnoreFile(#[from] IgnoreFileError),
    /// A source file cannot be read, or has vanished since the folder was listed.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A source file was different each time it was looked at.
    #[error("{} changes while it is being read: build again when nothing writes to it", path.display())]
    Changing {
        /// The file.
        path: PathBuf,
    },
    /// A compressed content did not decompress to what it was made from: the encoder is at fault, or the
    /// memory.
    #[error("{encoder} did not give back the content of {}: leave this coding out and report it", path.display())]
    Encoder {
        /// The word for the encoder.
        encoder: &'static str,
        /// A file with this content.
        path: PathBuf,
    },
    /// An archive of an earlier release cannot be carried forward from.
    #[error("cannot carry assets forward from {}: {source}", path.display())]
    Previous {
        /// The archive.
        path: PathBuf,
        /// Why not.
        source: PreviousError,
    },
    /// The serial that was ordered is not the newest one.
    #[error("`--serial {serial}`: a release before this one is {newest}; give a greater number, or none")]
    Serial {
        /// The serial that was ordered.
        serial: u64,
        /// The newest one before it.
        newest: u64,
    },
    /// Another archive of the release directory has the serial of this build.
    #[error("{} is release {serial} already", path.display())]
    SerialExists {
        /// The serial.
        serial: u64,
        /// The archive that has it.
        path: PathBuf,
        /// The release directory.
        directory: PathBuf,
    },
    /// There is something else in the place of a cache.
    #[error("cannot use the cache {}: {source}", path.display())]
    Cache {
        /// The cache.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The archive cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The archive.
        path: PathBuf,
        /// Why not.
        source: WriteError,
    },
    /// The archive was written but cannot be opened, so its links cannot be checked.
    #[error("cannot read the new {} back: {source}", path.display())]
    ReadBack {
        /// The archive.
        path: PathBuf,
        /// Why not.
        source: OpenError,
    },
    /// The threads to work with could not be had.
    #[error("cannot start {threads} threads: {source}")]
    Threads {
        /// How many.
        threads: usize,
        /// Why not.
        source: rayon::ThreadPoolBuildError,
    },
    /// A source file asks for something that the site would be unsafe without.
    #[error("{} error(s) in the sources: {} was not replaced", report.errors(), path.display())]
    Sources {
        /// The archive that would have been replaced.
        path: PathBuf,
        /// What is known of the sources, with the errors.
        report: Box<Report>,
    },
    /// There were warnings, and they were to end the build.
    #[error("{} warning(s), and --strict: {} was not replaced", report.warnings(), path.display())]
    Strict {
        /// The archive that would have been replaced.
        path: PathBuf,
        /// What would have been built, with the warnings.
        report: Box<Report>,
    },
}

/// Whose fault an [`Error`] is: what exit codes are made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The command line's.
    Usage,
    /// The source folder's.
    Input,
    /// The archive's, the caches', or the disk's below them.
    Output,
    /// Nothing failed, but warnings were not to be.
    Strict,
    /// The program's or the machine's.
    Internal,
}

/// Why an earlier archive cannot be carried forward from.
#[derive(Debug, thiserror::Error)]
pub enum PreviousError {
    /// The directory cannot be listed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It cannot be opened, or is no archive.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its bytes are not those that were written.
    #[error(transparent)]
    Damaged(#[from] VerifyError),
    /// A number in it does not fit it.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// Its manifest is not what a build writes.
    #[error("its manifest is damaged: {0}")]
    Manifest(#[from] serde_json::Error),
    /// Its manifest does not say what a path of it is.
    #[error("its manifest does not say of which release {path} is")]
    Unlisted {
        /// The path, as a URL spells it.
        path: String,
    },
}

impl Error {
    /// Whose fault it is.
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
            | Error::Sources { .. }
            | Error::Previous { .. } => ErrorClass::Input,
            Error::Cache { .. } | Error::Write { .. } | Error::ReadBack { .. } => ErrorClass::Output,
            Error::Strict { .. } => ErrorClass::Strict,
            Error::Encoder { .. } | Error::Threads { .. } => ErrorClass::Internal,
        }
    }

    pub(crate) fn usage(path: &Path, what: &'static str) -> Error {
        Error::Usage { path: path.to_owned(), what }
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
