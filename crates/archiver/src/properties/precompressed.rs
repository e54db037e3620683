//! Files that are compressed already: `Content-Encoding` in `_headers`, for `game.wasm.br` of a Unity build, for example.
//!
//! On other hosts, such a line sends the file as it is, and browsers without this coding can't read it. We decode the file
//! during the build instead, and publish its content under the same name: then it is compressed and negotiated like any other.
//! Its media type is that of the name without the suffix of the coding. [`content_encoding`](crate::routes::content_encoding) finds the
//! files.

use cannery_archive::Coding;
use cannery_base::{FileStamp, FileVersion};

/// Maximum length of a decoded file, which is held in memory. A few bytes can decode to gigabytes.
pub(crate) const DECODED_BYTES_MAX: u64 = 512 << 20;

/// Suffixes of compressed files. The last is that of older Unity builds.
const SUFFIXES: [&[u8]; 6] = [b".br", b".gz", b".gzip", b".zst", b".zstd", b".unityweb"];

/// How a file is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Precompressed {
    pub(crate) coding: Coding,
    /// The length of the content, decoded.
    pub(crate) length: u64,
}

/// Returns the coding of a lower-case name in `Content-Encoding` (RFC 9110 §8.4.1).
pub(crate) fn coding_of(name: &str) -> Option<Coding> {
    match name {
        "br" => Some(Coding::Brotli),
        "gzip" | "x-gzip" => Some(Coding::Gzip),
        "zstd" => Some(Coding::Zstd),
        _ => None,
    }
}

/// Returns the name that determines a file's media type.
pub(crate) fn inner_name(path: &[u8]) -> &[u8] {
    SUFFIXES.iter().find_map(|suffix| path.strip_suffix(*suffix)).unwrap_or(path)
}

/// Returns the stamp of a decoded file. No file has it, so that no cache takes the content for that of the file, should the rule
/// be removed.
pub(crate) fn stamp_of_decoded(stamp: &FileStamp, length: u64) -> FileStamp {
    let version = FileVersion { size: length, inode: !stamp.version.inode, ..stamp.version };
    FileStamp { version, ..*stamp }
}

/// Returns `true` for the stamp of a decoded file: no file system has this many inodes.
pub(crate) fn is_of_decoded(stamp: &FileStamp) -> bool {
    stamp.version.inode > u64::MAX / 2
}
