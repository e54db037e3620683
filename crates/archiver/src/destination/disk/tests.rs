//! Unit tests for temporary files on disk: their directory, the available space, and the warning if there is no such file.

use std::os::unix::fs::MetadataExt;

use super::*;

fn directory(variables: &[(&'static str, &'static str)]) -> TemporaryDirectory {
    let value = |name| variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value);
    TemporaryDirectory::from_variables(value)
}

#[test]
fn environment_names_the_directory() {
    let path = |variables: &[(&'static str, &'static str)]| directory(variables).path;
    assert_eq!(path(&[]), Path::new("/var/tmp"));
    assert_eq!(path(&[("TMPDIR", "")]), Path::new("/var/tmp"));
    assert_eq!(path(&[("TMPDIR", "/a:b")]), Path::new("/a:b"));
    assert_eq!(path(&[("TMPDIR", "/a"), ("CACHE_DIRECTORY", "/c:/d")]), Path::new("/c"));
}

#[test]
fn file_has_no_name() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let directory = TemporaryDirectory { path: folder.path().into(), variable: "TMPDIR", create: None };
    for file in
        [directory.create().unwrap(), crate::ground::temporary::create_unlinked(folder.path()).unwrap()]
    {
        assert_eq!(file.metadata().unwrap().nlink(), 0);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn lack_of_space_is_found_before_anything_is_written() {
    let space = Space::new(Arc::new(TemporaryDirectory::from_environment()), 0);
    let error = space.create_on_disk(u64::MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
}

#[test]
fn warning_names_directory_error_and_remedy() {
    let directory = directory(&[("TMPDIR", "/missing/directory")]);
    let error = directory.create().unwrap_err();
    let warning = directory.warning(&error).to_string();
    assert!(warning.starts_with("/missing/directory: warning: the archive is held in memory"), "{warning}");
    assert!(warning.contains("create the directory") && warning.contains("`TMPDIR`"), "{warning}");
}
