//! Directories and files of a tar archive, sorted by path.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use libdeflater::{CompressionLvl, Compressor};

use crate::tar::{Attributes, Writer};

/// Mode of directories that are added because something is in them.
const DIRECTORY_MODE: u32 = 0o755;

/// The entries of an archive. Each directory above a file is an entry, too, so that its mode doesn't depend on the program that
/// unpacks it.
#[derive(Debug, Default)]
pub struct Tree<'a> {
    entries: BTreeMap<String, Entry<'a>>,
}

/// A file, a link or a directory.
#[derive(Debug)]
pub struct Entry<'a> {
    /// A file, a link or a directory.
    pub content: Content<'a>,
    /// The permissions.
    pub mode: u32,
    /// The numbers of the user and of the group.
    pub owner: u32,
}

/// The kinds of entries, with their contents.
#[derive(Debug)]
pub enum Content<'a> {
    /// A directory.
    Directory,
    /// A symbolic link to this path.
    Link(String),
    /// Another name of the file with this path in the tree, which must sort before.
    HardLink(String),
    /// A file with these bytes, which may be mapped.
    File(Cow<'a, [u8]>),
}

impl<'a> Tree<'a> {
    /// Returns an empty tree.
    #[must_use]
    pub fn new() -> Tree<'a> {
        Tree::default()
    }

    /// Adds an entry, and the directories above it. The path is relative and has no trailing slash.
    pub fn add(&mut self, path: impl Into<String>, entry: Entry<'a>) {
        let path = path.into();
        let parents = path.match_indices('/').map(|(end, _)| &path[..end]);
        for parent in parents {
            let directory = || Entry { content: Content::Directory, mode: DIRECTORY_MODE, owner: 0 };
            self.entries.entry(parent.to_owned()).or_insert_with(directory);
        }
        self.entries.insert(path, entry);
    }

    /// Adds a file of root with these bytes.
    pub fn add_bytes(&mut self, path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) {
        self.add(path, Entry { content: Content::File(Cow::Owned(bytes.into())), mode, owner: 0 });
    }

    /// Writes a tar archive. Its entries have this modification time, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// Returns an error if a path is too long for the format, or if the output fails.
    pub fn write(&self, output: impl Write, time: u64) -> io::Result<()> {
        let mut writer = Writer::new(output, time);
        for (path, entry) in &self.entries {
            let attributes = Attributes { path, mode: entry.mode, owner: entry.owner };
            match &entry.content {
                Content::Directory => writer.directory(attributes)?,
                Content::Link(target) => writer.link(attributes, target)?,
                Content::HardLink(file) => writer.hard_link(attributes, file)?,
                Content::File(bytes) => writer.file(attributes, bytes)?,
            }
        }
        writer.finish()?.flush()
    }

    /// Returns a tar archive in memory.
    ///
    /// # Errors
    ///
    /// As for [`Tree::write`].
    pub fn to_tar(&self, time: u64) -> io::Result<Vec<u8>> {
        let mut tar = Vec::new();
        self.write(&mut tar, time)?;
        Ok(tar)
    }
}

/// Compresses bytes with gzip, without a name and a time.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::best());
    let mut output = vec![0; compressor.gzip_compress_bound(bytes.len())];
    let written = compressor.gzip_compress(bytes, &mut output).expect("the output is as long as the bound");
    output.truncate(written);
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_with_their_directories() {
        let mut tree = Tree::new();
        tree.add_bytes("usr/bin/b", 0o755, "second");
        tree.add_bytes("etc/a", 0o644, "first");
        tree.add("etc/link", Entry { content: Content::Link("a".into()), mode: 0o777, owner: 7 });
        tree.add(
            "usr/bin/c",
            Entry { content: Content::HardLink("usr/bin/b".into()), mode: 0o755, owner: 0 },
        );
        let tar = tree.to_tar(0o1234).expect("memory has no errors");

        let headers = tar.chunks(512).filter(|block| block[257..262] == *b"ustar");
        let name = |block: &[u8]| String::from_utf8_lossy(&block[..100]).trim_end_matches('\0').to_owned();
        let names: Vec<_> = headers.clone().map(name).collect();
        assert_eq!(names, ["etc/", "etc/a", "etc/link", "usr/", "usr/bin/", "usr/bin/b", "usr/bin/c"]);
        assert!(headers.clone().all(|block| block[136..148] == *b"00000001234\0"));
        let link = headers.clone().next_back().expect("there are entries");
        assert_eq!((link[156], &link[157..167]), (b'1', &b"usr/bin/b\0"[..]));
        assert_eq!(tar.len(), (7 + 2 + 2) * 512, "headers, two contents, and the end");
    }

    #[test]
    fn order_of_calls_makes_no_difference() {
        let tar = |paths: [&str; 3]| {
            let mut tree = Tree::new();
            for path in paths {
                tree.add_bytes(path, 0o644, path);
            }
            tree.to_tar(0).expect("memory has no errors")
        };
        assert_eq!(tar(["a/b", "c", "a/a"]), tar(["c", "a/a", "a/b"]));
    }

    #[test]
    fn gzip_has_no_time() {
        let compressed = gzip(b"abc abc abc");
        assert_eq!(compressed[..4], [0x1f, 0x8b, 8, 0]);
        assert_eq!(compressed[4..8], [0; 4]);
    }
}
