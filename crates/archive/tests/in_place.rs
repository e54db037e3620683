//! Tests that readers keep their bytes even if the mapped file is changed in place.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cannery_archive::{Archive, Digest, Format, Lease, Loading, Writers, writers};

/// A change of a file. Comes with a name.
type Change = (&'static str, fn(&Path));

fn changes() -> [Change; 4] {
    [
        ("truncated", |path| OpenOptions::new().write(true).open(path).unwrap().set_len(100).unwrap()),
        ("emptied", |path| drop(File::create(path).unwrap())),
        ("overwritten", |path| {
            let length = usize::try_from(fs::metadata(path).unwrap().len()).unwrap();
            OpenOptions::new().write(true).open(path).unwrap().write_all(&vec![b'x'; length]).unwrap();
        }),
        ("replaced by a copy", |path| fs::write(path, b"another file").unwrap()),
    ]
}

/// Opens an archive with a lease. If the file system does not support leases, prints a note and returns
/// `None`.
fn open(path: &Path) -> Option<(Archive, Lease)> {
    let (archive, lease) = Archive::open_leased(path, Loading::Mapped).unwrap();
    if lease.is_none() {
        println!("skipped: the file system of {} has no leases", path.display());
    }
    Some((archive, lease?))
}

#[test]
fn change_of_leased_file_waits_for_the_copy() {
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
            assert!(!changed.load(Ordering::SeqCst), "{name}: the change did not wait");
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
fn reading_and_renaming_do_not_wait() {
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
fn archive_in_memory_needs_no_lease() {
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

#[test]
fn open_for_writing_is_known_where_leases_exist() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let writer = File::create(&path).unwrap();
    let reader = File::open(&path).unwrap();
    let while_open = writers(&reader);
    if while_open == Writers::Unknown {
        println!("skipped: the file system of {} has no leases", path.display());
        return;
    }
    assert_eq!(while_open, Writers::Present);
    drop(writer);
    assert_eq!(writers(&reader), Writers::Absent);
    // This should not block, since there is no lease any more after the check.
    drop(File::create(&path).unwrap());
}

#[test]
fn only_mapped_files_with_a_name_may_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.cdb");
    fs::write(&path, support::archive(Format::Cdb)).unwrap();
    let file = File::open(&path).unwrap();
    let may_change = |loading| Archive::from_file(&file, loading).unwrap().may_change();
    let mapped = Arc::new(Archive::from_file(&file, Loading::Mapped).unwrap());
    assert!(mapped.may_change() && Archive::sharing(Arc::new(Owner(mapped))).may_change());
    assert!(may_change(Loading::Preloaded) && !may_change(Loading::InMemory));
    fs::remove_file(&path).unwrap();
    assert!(!may_change(Loading::Mapped));
}

/// Contains an archive that others share.
struct Owner(Arc<Archive>);

impl AsRef<Archive> for Owner {
    fn as_ref(&self) -> &Archive {
        &self.0
    }
}

#[test]
fn unnamed_file_is_opened_from_its_start() {
    let bytes = support::archive(Format::Cdb);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    for loading in [Loading::InMemory, Loading::Mapped, Loading::Automatic] {
        let archive = Archive::from_file(&file, loading).unwrap();
        assert!(archive.bytes() == bytes, "{loading:?}");
        assert_eq!(archive.find_body(&Digest::of(b"no body has this content")).unwrap(), None);
    }
}
