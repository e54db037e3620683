//! A file that is changed in place while it is mapped: readers go on with what they opened.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use cannery_archive::{Archive, Format, Lease, Loading};

type Change = (&'static str, fn(&Path));

fn changes() -> [Change; 4] {
    [
        ("cut", |path| OpenOptions::new().write(true).open(path).unwrap().set_len(100).unwrap()),
        ("emptied", |path| drop(File::create(path).unwrap())),
        ("overwritten", |path| {
            let length = usize::try_from(fs::metadata(path).unwrap().len()).unwrap();
            OpenOptions::new().write(true).open(path).unwrap().write_all(&vec![b'x'; length]).unwrap();
        }),
        ("replaced by a copy", |path| fs::write(path, b"another file").unwrap()),
    ]
}

/// Opens with a lease; nothing, which is said, where the file system knows none.
fn open(path: &Path) -> Option<(Archive, Lease)> {
    let (archive, lease) = Archive::open_leased(path, Loading::Mapped).unwrap();
    if lease.is_none() {
        println!("skipped: the file system of {} knows no leases", path.display());
    }
    Some((archive, lease?))
}

#[test]
fn whoever_changes_a_guarded_file_waits_until_its_bytes_are_kept() {
    for (name, change) in changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.cdb");
        let original = support::archive(Format::Cdb);
        fs::write(&path, &original).unwrap();
        let Some((archive, lease)) = open(&path) else { return };
        let borrowed = archive.bytes();
        let changed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                change(&path);
                changed.store(true, Ordering::SeqCst);
            });
            while !lease.is_being_broken() {
                std::thread::yield_now();
            }
            assert!(!changed.load(Ordering::SeqCst), "{name}: it did not wait");
            assert!(borrowed == original, "{name}: before");
            archive.detach().unwrap();
            drop(lease);
        });
        assert!(changed.load(Ordering::SeqCst));
        assert!(fs::read(&path).unwrap() != original, "{name}: the file has changed");
        assert!(borrowed == original && archive.bytes() == original, "{name}: after");
        archive.verify(|_| {}).unwrap();
    }
}

#[test]
fn who_only_reads_the_file_or_renames_another_over_it_does_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let (path, next) = (folder.path().join("site.cdb"), folder.path().join("next.cdb"));
    let original = support::archive(Format::Cdb);
    fs::write(&path, &original).unwrap();
    fs::write(&next, b"next").unwrap();
    let Some((archive, lease)) = open(&path) else { return };
    assert!(fs::read(&path).unwrap() == original);
    fs::rename(&next, &path).unwrap();
    assert!(!lease.is_being_broken());
    assert!(archive.bytes() == original);
}

#[test]
fn what_is_read_into_memory_needs_no_lease() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.cdb");
    let original = support::archive(Format::Cdb);
    fs::write(&path, &original).unwrap();
    let (archive, lease) = Archive::open_leased(&path, Loading::InMemory).unwrap();
    assert!(lease.is_none());
    fs::write(&path, b"").unwrap();
    archive.detach().unwrap();
    assert!(archive.bytes() == original);
}
