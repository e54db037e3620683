//! Errors from opening, writing and verifying archives.
//!
//! Errors contain the expected and the actual value, and the offset if we know it. We only format them if a person is going to read
//! them.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A number or tag contradicts the rest of the file.
///
/// This typically means that the file was damaged after we wrote it, or that another program has written it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Corrupt {
    /// The structure that is corrupt.
    pub what: &'static str,
    /// Position of the structure in the file, in bytes.
    pub offset: u64,
}

/// An error of opening an archive.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The system cannot open, map or read the file.
    Io(io::Error),
    /// The file at a path cannot be opened as an archive.
    #[non_exhaustive]
    At {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: Box<OpenError>,
    },
    /// The path names a FIFO, a device or a socket.
    #[non_exhaustive]
    NotRegular {
        /// The file's type, with an article.
        kind: &'static str,
    },
    /// The file is shorter than the header of a 32-bit archive.
    #[non_exhaustive]
    TooShort {
        /// Length of the smallest archive in bytes.
        expected: u64,
        /// Length of the file in bytes.
        got: u64,
    },
    /// The file is a program without an archive.
    NoArchive,
    /// The file ends before the first record of the archive does.
    #[non_exhaustive]
    Cut {
        /// Length of the rest in bytes.
        got: u64,
    },
    /// The first record is not `cannery`. This typically means that it is another kind of file, or another program's CDB.
    Foreign,
    /// The archive has a different format version.
    #[non_exhaustive]
    Version {
        /// The version that this program reads.
        expected: u32,
        /// The version that the file states.
        got: u32,
    },
    /// The file does not have the length that the archive records.
    #[non_exhaustive]
    Length {
        /// Length in bytes that the archive records.
        expected: u64,
        /// Length of the file in bytes.
        got: u64,
    },
    /// The first record is `cannery`, but it is corrupt.
    Corrupt(Corrupt),
}

impl OpenError {
    /// Adds the path to an error that doesn't have it.
    // Only for the crate `cannery`.
    #[doc(hidden)]
    #[must_use]
    pub fn at(self, path: &Path) -> OpenError {
        OpenError::At { path: path.to_owned(), source: Box::new(self) }
    }
}

/// An error of writing an archive.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The system cannot write the file, or cannot read a body.
    Io(io::Error),
    /// The archive would exceed 4 GiB, the limit of the 32-bit format.
    ///
    /// The writer is still usable: you can continue in the 64-bit format with [`crate::Writer::widen`].
    Full,
    /// More than `max` keys have adjacent hashes. A lookup would give up before it finds some of them. This should not happen
    /// unless the names were chosen to collide.
    Crowded {
        /// Number of slots that a lookup probes.
        max: u64,
    },
    /// A value is too long for its length field.
    TooLong {
        /// The field.
        what: &'static str,
        /// Maximum length in bytes.
        max: usize,
        /// Actual length in bytes.
        got: usize,
    },
}

/// An error of [`crate::Assembler`].
#[derive(Debug)]
#[non_exhaustive]
pub enum AssembleError {
    /// The archive cannot be written.
    Write(WriteError),
    /// A linked record refers to a body or head that does not precede it.
    Link,
    /// The parts make up another archive than their facts describe.
    Digest {
        /// The digest in the facts.
        expected: crate::Digest,
        /// The digest of the archive that was written.
        got: crate::Digest,
    },
}

/// An error of [`crate::Archive::verify`].
#[derive(Debug)]
#[non_exhaustive]
pub enum VerifyError {
    /// The system cannot read the file.
    Io(io::Error),
    /// A structure is corrupt.
    Corrupt(Corrupt),
    /// A body does not match the digest in its key.
    #[non_exhaustive]
    Body {
        /// Position of the body in the file, in bytes.
        offset: u64,
        /// The digest in the key.
        expected: crate::Digest,
    },
    /// The file does not match the digest in its first record.
    #[non_exhaustive]
    Digest {
        /// The digest that the archive records.
        expected: crate::Digest,
        /// The file's digest.
        got: crate::Digest,
    },
}

// Written out, because programs with an embedded site shouldn't have to compile a parser of Rust for these.

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "corrupt archive: {} at byte {}", self.what, self.offset)
    }
}

impl Error for Corrupt {}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io(error) => write!(f, "cannot read the archive: {error}"),
            OpenError::At { path, source } => write!(f, "{}: {source}", path.display()),
            OpenError::NotRegular { kind } => {
                write!(f, "not an archive: it is {kind}, and archives are regular files")
            }
            OpenError::TooShort { expected, got } => {
                write!(f, "not an archive: the file has {got} bytes, and an empty archive has {expected}")
            }
            OpenError::NoArchive => {
                f.write_str("not an archive: it is a program without one, or was cut where the archive began")
            }
            OpenError::Cut { got } => {
                write!(f, "the archive was truncated: only {got} bytes of it are left")
            }
            OpenError::Foreign => f.write_str("not an archive of Cannery: its first record is not `cannery`"),
            OpenError::Version { expected, got } => write!(
                f,
                "the archive has format version {got}, this program reads version {expected}: \
                 build the archive again with this release, or use the release that built it"
            ),
            OpenError::Length { expected, got } => {
                write!(f, "the archive was truncated or extended: it has {got} bytes instead of {expected}")
            }
            OpenError::Corrupt(corrupt) => corrupt.fmt(f),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            OpenError::Io(error) => Some(error),
            OpenError::At { source, .. } => Some(&**source),
            OpenError::Corrupt(corrupt) => corrupt.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Io(error)
    }
}

impl From<Corrupt> for OpenError {
    fn from(corrupt: Corrupt) -> OpenError {
        OpenError::Corrupt(corrupt)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Io(error) => error.fmt(f),
            WriteError::Full => f.write_str(
                "the archive would exceed 4 GiB, the limit of the 32-bit format: use `--format cdb64`",
            ),
            WriteError::Crowded { max } => write!(
                f,
                "more than {max} file names collide in a hash table, which happens only if they were chosen to collide: \
                 exclude the folders that hold them"
            ),
            WriteError::TooLong { what, max, got } => {
                write!(f, "{what} is {got} bytes long, and the format allows at most {max}")
            }
        }
    }
}

impl Error for WriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            WriteError::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        WriteError::Io(error)
    }
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AssembleError::Write(error) => error.fmt(f),
            AssembleError::Link => f.write_str("a record refers to a body or head that does not exist"),
            AssembleError::Digest { expected, got } => {
                write!(f, "the parts make up an archive with the digest {got} instead of {expected}")
            }
        }
    }
}

impl Error for AssembleError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AssembleError::Write(error) => error.source(),
            _ => None,
        }
    }
}

impl From<WriteError> for AssembleError {
    fn from(error: WriteError) -> AssembleError {
        AssembleError::Write(error)
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyError::Io(error) => error.fmt(f),
            VerifyError::Corrupt(corrupt) => corrupt.fmt(f),
            VerifyError::Body { offset, expected } => {
                write!(f, "corrupt archive: the body at byte {offset} does not match its digest {expected}")
            }
            VerifyError::Digest { expected, got } => {
                write!(f, "corrupt archive: its digest is {got} instead of {expected}")
            }
        }
    }
}

impl Error for VerifyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            VerifyError::Io(error) => error.source(),
            VerifyError::Corrupt(corrupt) => corrupt.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for VerifyError {
    fn from(error: io::Error) -> VerifyError {
        VerifyError::Io(error)
    }
}

impl From<Corrupt> for VerifyError {
    fn from(corrupt: Corrupt) -> VerifyError {
        VerifyError::Corrupt(corrupt)
    }
}
