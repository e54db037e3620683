//! Sparse files consist mostly of holes. Even a small tarball may contain one with terabytes of zeros, and publishing it would
//! fill up the disk.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

/// Maximum total length of all holes in a folder's sparse files.
pub(crate) const HOLE_BYTES_MAX: u64 = 256 << 20;

/// Files shorter than this are never sparse.
const BYTES_MIN: u64 = 1 << 20;

/// A file is sparse if less than one part in this many has data.
const DATA_DIVISOR: u64 = 16;

/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Maximum number of data ranges to measure. For files with more of them, the number of blocks is
/// trusted.
const PIECES_MAX: u32 = 100_000;

/// Whether a file has far fewer blocks than required by its length.
///
/// However, the file system may just use compression or may not count blocks at all, so the decision has to be left
/// to [`data_bytes`].
pub(super) fn may_be_sparse(metadata: &Metadata) -> bool {
    let length = metadata.len();
    length >= BYTES_MIN && metadata.blocks().saturating_mul(BLOCK_BYTES) < length / DATA_DIVISOR
}

/// Counts the bytes that are not holes. This returns `None` unless they are only a small part of the file.
pub(crate) fn data_bytes(file: &File, length: u64) -> Option<u64> {
    let enough = length / DATA_DIVISOR;
    let mut data = 0;
    let mut position = 0;
    for _ in 0..PIECES_MAX {
        let Some((start, end)) = next_data(file, position)? else { return Some(data) };
        data += end.min(length).saturating_sub(start);
        if data >= enough {
            return None;
        }
        if end >= length {
            return Some(data);
        }
        position = end;
    }
    Some(data)
}

/// Looks for the next range of data. Returns `Some(None)` at the end of the data, or `None` if the system is
/// unable to tell.
#[cfg(target_os = "linux")]
#[allow(clippy::option_option, reason = "three outcomes of two system calls")]
fn next_data(file: &File, position: u64) -> Option<Option<(u64, u64)>> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;

    match seek(file, SeekFrom::Data(position)) {
        Ok(start) => Some(Some((start, seek(file, SeekFrom::Hole(start)).ok()?))),
        Err(Errno::NXIO) => Some(None),
        Err(_) => None,
    }
}

/// On other systems, we are not able to find holes, and a low number of blocks may just mean that the file
/// system uses compression.
#[cfg(not(target_os = "linux"))]
#[allow(clippy::option_option, reason = "the signature for Linux")]
fn next_data(_file: &File, _position: u64) -> Option<Option<(u64, u64)>> {
    None
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    fn sparse_bytes(file: &File) -> Option<u64> {
        let found = file.metadata().unwrap();
        may_be_sparse(&found).then(|| data_bytes(file, found.len())).flatten()
    }

    #[test]
    fn files_with_little_data_are_sparse() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        if file.metadata().unwrap().blocks() > 0 || next_data(&file, 0).is_none() {
            return; // This file system has no holes.
        }
        assert_eq!(sparse_bytes(&file), Some(0));
        file.seek(std::io::SeekFrom::Start(1 << 30)).unwrap();
        file.write_all(b"data").unwrap();
        assert!(sparse_bytes(&file).is_some_and(|bytes| (4..1 << 20).contains(&bytes)));

        file.set_len(0).unwrap();
        file.rewind().unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        assert_eq!(sparse_bytes(&file), None);
        file.set_len(8 << 20).unwrap();
        assert_eq!(sparse_bytes(&file), None, "an eighth of it is data");
    }
}
