//! Files that are already compressed according to `Content-Encoding` in `_headers`, e.g. `game.wasm.br` in a Unity build.
//!
//! With other providers, such a line means that the file is sent as it is, even to browsers that do not support the coding. Here,
//! the file is decoded during the build instead, and its content is published under the same name, to be compressed and negotiated
//! like any other file. The media type is derived from the name without the coding's suffix. See
//! [`content_encoding`](crate::routes::content_encoding) for how these files are found.

use cannery_archive::Coding;
use cannery_base::{FileStamp, FileVersion};

/// Maximum length of a decoded file. We need to hold it in memory, and a few bytes can decode to
/// gigabytes.
pub(crate) const DECODED_BYTES_MAX: u64 = 512 << 20;

/// A suffix of compressed files in older versions of Unity.
const UNITY_SUFFIX: &str = ".unityweb";

/// How to decode a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Precompressed {
    pub(crate) coding: Coding,
    /// Length of the decoded content.
    pub(crate) length: u64,
}

/// Returns the coding for a name in `Content-Encoding` (RFC 9110 §8.4.1), if such files can be decoded.
pub(crate) fn coding_of(name: &str) -> Option<Coding> {
    Coding::from_name(name.as_bytes()).filter(|coding| *coding != Coding::Identity)
}

/// Returns the name that determines the media type.
pub(crate) fn inner_name(path: &[u8]) -> &[u8] {
    let suffixes = Coding::ALL.into_iter().flat_map(Coding::suffixes).chain([&UNITY_SUFFIX]);
    suffixes.into_iter().find_map(|suffix| path.strip_suffix(suffix.as_bytes())).unwrap_or(path)
}

/// Returns a stamp for the decoded file that no real file can have.
///
/// Otherwise, a cache might mistake the decoded content for the content of the file once the rule is removed.
pub(crate) fn stamp_of_decoded(stamp: &FileStamp, length: u64) -> FileStamp {
    let version = FileVersion { size: length, inode: !stamp.version.inode, ..stamp.version };
    FileStamp { version, ..*stamp }
}

/// Whether the stamp belongs to a decoded file.
///
/// These can be recognized because no file system has this many inodes.
pub(crate) fn is_of_decoded(stamp: &FileStamp) -> bool {
    stamp.version.inode > u64::MAX / 2
}
