//! Tests the number and depth of the scopes that a lookup finds.

use super::*;
use crate::{KeyBuffer, NewScope, Writer};
use std::io::{Read, Seek};

/// Returns an archive with a scope in each of these directories.
fn archive(directories: &[&str]) -> Archive {
    let mut writer = Writer::new(tempfile::tempfile().unwrap(), Format::Cdb).unwrap();
    for directory in directories {
        let mut buffer = KeyBuffer::new();
        let key = Key::from_target(directory.as_bytes(), &mut buffer).unwrap();
        writer.scope(None, key, &NewScope::default()).unwrap();
    }
    let (mut file, _) = writer.finish().unwrap();
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    Archive::from_bytes(bytes).unwrap()
}

#[test]
fn scopes_are_looked_up_once_per_directory_up_to_maximum_depth() {
    let long = format!("/{}", "a/".repeat(4000));
    let deep = "/a/".to_owned() + &"a/".repeat(99);
    for (directories, lookups, found) in
        [(&["/"][..], 1, 1), (&["/", "/a/"], 2, 2), (&["/b/c/"], 3, 0), (&[deep.as_str()], 101, 1)]
    {
        let archive = archive(directories);
        let mut buffer = KeyBuffer::new();
        let key = Key::from_target(long.as_bytes(), &mut buffer).unwrap();
        let mut scopes = archive.scopes(None, key);
        assert_eq!(scopes.by_ref().filter(Result::is_ok).count(), found, "{directories:?}");
        assert_eq!(usize::from(scopes.depth), lookups, "{directories:?}");
        // We hash each byte once: the hash of a directory starts where the parent's hash stops.
        assert_eq!(scopes.at, long.match_indices('/').nth(lookups - 1).unwrap().0 + 1, "{directories:?}");
    }
}
