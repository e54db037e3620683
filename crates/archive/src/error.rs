//! Errors of opening, writing and verifying archives.
//!
//! Errors carry the expected and the actual value, and an offset where one is known. Text is made only where a person reads
//! it.

use std::io;

/// A number or a tag in the file contradicts the file.
///
/// The file was damaged after it was written, or another program wrote it.
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
pub enum OpenError {
    /// The system cannot open, map or read the file.
    #[error("cannot read the archive: {0}")]
    Io(#[from] io::Error),
    /// The path names a FIFO, a device or a socket.
    #[error("not an archive: it is {kind}, and archives are regular files")]
    NotRegular {
        /// The type of the file, with its article.
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
    /// The file is a program, and nothing follows it.
    #[error("not an archive: it is a program without one, or was cut where the archive began")]
    NoArchive,
    /// The file is a program, and what follows it is shorter than any archive.
    #[error("the archive in this program was truncated: only {got} bytes of it are left")]
    ProgramCut {
        /// Length of the rest in bytes.
        got: u64,
    },
    /// The first record is not `cannery`: this is another file, or the CDB of another program.
    #[error("not an archive of Cannery: its first record is not `cannery`")]
    Foreign,
    /// The archive has another version of the format.
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
    /// The length of the file differs from the recorded one.
    #[error("the archive was truncated or extended: it has {got} bytes instead of {expected}")]
    Length {
        /// Length in bytes that the archive records.
        expected: u64,
        /// Length of the file in bytes.
        got: u64,
    },
    /// The first record is `cannery`, and is corrupt.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// An error of writing an archive.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The system cannot write the file, or cannot read a body.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The archive would exceed 4 GiB, the limit of the 32-bit format.
    ///
    /// The writer can still be used: [`crate::Writer::widen`] continues in the 64-bit format.
    #[error("the archive would exceed 4 GiB, the limit of the 32-bit format: use `--format cdb64`")]
    Full,
    /// More than `max` keys have adjacent hashes, so that a lookup would give up before it reaches some of them. Only names
    /// that were chosen to collide do that.
    #[error(
        "more than {max} file names collide in a hash table, which happens only if they were chosen to collide: \
         exclude the folders that hold them"
    )]
    Crowded {
        /// Number of slots that a lookup probes.
        max: u64,
    },
    /// A field is longer than its length field can express.
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

/// An error of [`crate::Archive::verify`].
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The system cannot read the file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A structure is corrupt.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The digest of a body differs from the one in its key.
    #[error("corrupt archive: the body at byte {offset} does not match its digest {expected}")]
    Body {
        /// Position of the body in the file, in bytes.
        offset: u64,
        /// The digest in the key.
        expected: crate::Digest,
    },
    /// The digest of the file differs from the one in its first record.
    #[error("corrupt archive: its digest is {got} instead of {expected}")]
    Digest {
        /// The digest that the archive records.
        expected: crate::Digest,
        /// The digest of the file.
        got: crate::Digest,
    },
}
