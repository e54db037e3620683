//! Unit tests for files that another process may be writing.

use std::fs;

use super::*;

#[test]
fn file_is_half_written_until_its_writer_closes_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, b"before").unwrap();
    let writer = File::create(&path).unwrap();
    let reader = File::open(&path).unwrap();
    let stamp = || FileStamp::of(&reader.metadata().unwrap());
    assert!(is_recent(&stamp(), SystemTime::now()));
    assert!(is_half_written(&reader, &stamp()));
    drop(writer);
    while is_half_written(&reader, &stamp()) {
        assert!(age(&stamp()) < SETTLED_AFTER);
    }
}

/// A file that was read after its creation but before the first write used to seem empty and closed.
#[test]
fn empty_file_may_be_about_to_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    drop(File::create(&path).unwrap());
    let reader = File::open(&path).unwrap();
    let stamp = FileStamp::of(&reader.metadata().unwrap());
    let after = |ns| FileStamp { changed_ns: stamp.changed_ns + ns, ..stamp };
    assert!(is_half_written(&reader, &after(1_000_000_000)));
    assert!(!is_half_written(&reader, &after(-1_000_000_000)));
}

#[test]
fn file_that_no_longer_changes_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let _writer = File::create(&path).unwrap();
    let reader = File::open(&path).unwrap();
    let now = FileStamp::of(&reader.metadata().unwrap());
    let before = FileStamp { changed_ns: now.changed_ns - 3_000_000_000, ..now };
    assert!(!is_half_written(&reader, &before));
    assert!(!is_recent(&before, SystemTime::now()));
    let later = FileStamp { changed_ns: now.changed_ns + 3_000_000_000, ..now };
    assert!(is_recent(&later, SystemTime::now()), "the clock was set back");
}
