//! What can be wrong with an archive, each with what was expected and what was found.
//!
//! Never a bare string: words are made only where a person reads them.

use std::io;

/// A number or a tag inside the file that does not fit the file. The fault is the file's: it was
/// damaged after it was written, or something else wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("corrupt archive: {what} at byte {offset}")]
pub struct Corrupt {
    /// Which structure did not hold together.
    pub what: &'static str,
    /// Where it stands in the file, in bytes from its start.
    pub offset: u64,
}

/// Why a file could not be opened as an archive. Nothing was changed by trying.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system would not open, map or read the file.
    #[error("cannot read the archive: {0}")]
    Io(#[from] io::Error),
    /// A FIFO, a device or a socket has the archive's name.
    #[error("not an archive: it is {kind}, and archives are regular files")]
    NotRegular {
        /// What it is.
        kind: &'static str,
    },
    /// Too short to hold even the header of the smaller form.
    #[error("not an archive: {got} bytes are fewer than the {expected} of an empty one")]
    TooShort {
        /// Bytes that the smallest archive has.
        expected: u64,
        /// Bytes that the file has.
        got: u64,
    },
    /// The first record is not ours: some other file, or some other program's CDB.
    #[error("not an archive of Cannery: its first record is not `cannery`")]
    Foreign,
    /// WriteReport by a program with another schema.
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
    /// The file's length is not the one that its writer recorded.
    #[error("the archive was cut or grown: {got} bytes, its writer recorded {expected}")]
    Length {
        /// Length in bytes that the writer recorded.
        expected: u64,
        /// Length in bytes of the file now.
        got: u64,
    },
    /// The first record is ours, but does not hold together.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// Why an archive could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The operating system would not take the bytes.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The 32-bit form ends at 4 GiB. The writer is unharmed: [`crate::Writer::widen`] goes on in the
    /// 64-bit form.
    #[error("the archive would pass 4 GiB, where the 32-bit form ends: use `--format cdb64`")]
    Full,
    /// So many keys have hashes close to each other that some would stand where no search comes. The
    /// fault is the names': only such as were made to collide do that.
    #[error(
        "more than {max} names crowd one place of a hash table, as names made to collide do: \
         leave the folders out that hold them"
    )]
    Crowded {
        /// How many slots a search looks at.
        max: u64,
    },
    /// A field is longer than its length field can say.
    #[error("{what} is {got} bytes long, the format holds at most {max}")]
    TooLong {
        /// Which field.
        what: &'static str,
        /// The longest that fits, in bytes.
        max: usize,
        /// Its length in bytes.
        got: usize,
    },
}

/// Why an archive did not pass a full check.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The operating system would not give the bytes.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A structure does not hold together.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// A body's bytes do not have the digest that its key states.
    #[error("corrupt archive: the body at byte {offset} does not match its digest {expected}")]
    Body {
        /// Where the body starts, in bytes.
        offset: u64,
        /// The digest under which it is stored.
        expected: crate::Digest,
    },
    /// The file as a whole does not have the digest that its first record states.
    #[error("corrupt archive: digest {got}, its writer recorded {expected}")]
    Digest {
        /// The digest that the writer recorded.
        expected: crate::Digest,
        /// The digest of the file now.
        got: crate::Digest,
    },
}
