//! Errors from opening, writing and verifying archives.
//!
//! Errors contain the expected and the actual value, and the offset if we know it. We only format them if a person is going to read
//! them.

use std::io;

/// A number or tag contradicts the rest of the file.
///
/// This typically means that the file was damaged after we wrote it, or that another program has written it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("corrupt archive: {what} at byte {offset}")]
pub struct Corrupt {
    /// The structure that is corrupt.
    pub what: &'static str,
    /// Position of the structure in the file, in bytes.
    pub offset: u64,
}

/// An error of opening an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system cannot open, map or read the file.
    #[error("cannot read the archive: {0}")]
    Io(#[from] io::Error),
    /// The path names a FIFO, a device or a socket.
    #[error("not an archive: it is {kind}, and archives are regular files")]
    NotRegular {
        /// The file's type, with an article.
        kind: &'static str,
    },
    /// The file is shorter than the header of a 32-bit archive.
    #[error("not an archive: the file has {got} bytes, and an empty archive has {expected}")]
    TooShort {
        /// Length of the smallest archive in bytes.
        expected: u64,
        /// Length of the file in bytes.
        got: u64,
    },
    /// The file is a program without an archive.
    #[error("not an archive: it is a program without one, or was cut where the archive began")]
    NoArchive,
    /// The file ends before the first record of the archive does.
    #[error("the archive was truncated: only {got} bytes of it are left")]
    Cut {
        /// Length of the rest in bytes.
        got: u64,
    },
    /// The first record is not `cannery`. This typically means that it is another kind of file, or another program's CDB.
    #[error("not an archive of Cannery: its first record is not `cannery`")]
    Foreign,
    /// The archive has a different format version.
    #[error(
        "the archive has format version {got}, this program reads version {expected}: \
         build the archive again with this release, or use the release that built it"
    )]
    Version {
        /// The version that this program reads.
        expected: u32,
        /// The version that the file states.
        got: u32,
    },
    /// The file does not have the length that the archive records.
    #[error("the archive was truncated or extended: it has {got} bytes instead of {expected}")]
    Length {
        /// Length in bytes that the archive records.
        expected: u64,
        /// Length of the file in bytes.
        got: u64,
    },
    /// The first record is `cannery`, but it is corrupt.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// An error of writing an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The system cannot write the file, or cannot read a body.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The archive would exceed 4 GiB, the limit of the 32-bit format.
    ///
    /// The writer is still usable: you can continue in the 64-bit format with [`crate::Writer::widen`].
    #[error("the archive would exceed 4 GiB, the limit of the 32-bit format: use `--format cdb64`")]
    Full,
    /// More than `max` keys have adjacent hashes. A lookup would give up before it finds some of them. This should not happen
    /// unless the names were chosen to collide.
    #[error(
        "more than {max} file names collide in a hash table, which happens only if they were chosen to collide: \
         exclude the folders that hold them"
    )]
    Crowded {
        /// Number of slots that a lookup probes.
        max: u64,
    },
    /// A value is too long for its length field.
    #[error("{what} is {got} bytes long, and the format allows at most {max}")]
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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// The archive cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A linked record refers to a body or head that does not precede it.
    #[error("a record refers to a body or head that does not exist")]
    Link,
    /// The parts make up another archive than their facts describe.
    #[error("the parts make up an archive with the digest {got} instead of {expected}")]
    Digest {
        /// The digest in the facts.
        expected: crate::Digest,
        /// The digest of the archive that was written.
        got: crate::Digest,
    },
}

/// An error of [`crate::Archive::verify`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The system cannot read the file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A structure is corrupt.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// A body does not match the digest in its key.
    #[error("corrupt archive: the body at byte {offset} does not match its digest {expected}")]
    Body {
        /// Position of the body in the file, in bytes.
        offset: u64,
        /// The digest in the key.
        expected: crate::Digest,
    },
    /// The file does not match the digest in its first record.
    #[error("corrupt archive: its digest is {got} instead of {expected}")]
    Digest {
        /// The digest that the archive records.
        expected: crate::Digest,
        /// The file's digest.
        got: crate::Digest,
    },
}
