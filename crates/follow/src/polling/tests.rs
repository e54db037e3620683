//! Tests of states and scans, with clocks that were set.

use std::fs::{self, File, FileTimes};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

const METADATA: FileMetadata = FileMetadata { inode: 1, size: 2, modified_ns: 3, changed_ns: 4 };

fn state(files: &[(&str, FileMetadata)]) -> FilesState {
    let mut state = FilesState::default();
    for (path, metadata) in files {
        state.add(Path::new(path), metadata);
    }
    state
}

fn filter() -> Filter {
    Filter::new(|_, _| true)
}

/// Returns a folder with one file, and a poller that has scanned it at the given time.
fn scanned_at(now: SystemTime) -> (tempfile::TempDir, Poller) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "one").unwrap();
    let mut poller = Poller::new(folder.path(), &filter(), None);
    poller.scan_at(now, folder.path(), &filter());
    // Otherwise a slow test would find a change when it expires.
    poller.settles = None;
    (folder, poller)
}

#[test]
fn state_does_not_depend_on_the_order() {
    let other = FileMetadata { inode: 5, ..METADATA };
    assert_eq!(state(&[("a", METADATA), ("b", other)]), state(&[("b", other), ("a", METADATA)]));
}

#[test]
fn state_depends_on_every_path_and_all_metadata() {
    let files = |metadata| state(&[("a", metadata), ("b", METADATA)]);
    let other = FileMetadata { inode: 5, ..METADATA };
    let states = [
        files(METADATA),
        files(other),
        files(FileMetadata { size: 5, ..METADATA }),
        files(FileMetadata { modified_ns: -5, ..METADATA }),
        files(FileMetadata { changed_ns: 5, ..METADATA }),
        // Exchanged, renamed, removed, and added.
        state(&[("a", METADATA), ("b", other)]),
        state(&[("a", METADATA), ("c", METADATA)]),
        state(&[("a", METADATA)]),
        state(&[("a", METADATA), ("b", METADATA), ("c", METADATA)]),
        FilesState::default(),
    ];
    for (number, one) in states.iter().enumerate() {
        assert!(!states[number + 1..].contains(one), "{number}");
    }
}

#[test]
fn state_of_a_scan_is_that_of_its_files() {
    let (folder, poller) = scanned_at(SystemTime::now() + HOUR);
    let metadata = FileMetadata::of(&fs::metadata(folder.path().join("a")).unwrap());
    assert_eq!(poller.state(), Some(state(&[("a", metadata)])));
}

/// On most kernels, two changes within a tick leave the same times.
#[test]
fn file_of_the_current_tick_counts_as_changed() {
    let (folder, mut poller) = scanned_at(SystemTime::now() + HOUR);
    let changed = fs::metadata(folder.path().join("a")).unwrap();
    let changed = SystemTime::UNIX_EPOCH + time(changed.ctime(), changed.ctime_nsec());
    assert_eq!(poller.scan_at(changed + TICK_MAX, folder.path(), &filter()), Finding::Changed);
    assert_eq!(poller.state(), None);
    let next = changed + TICK_MAX + Duration::from_nanos(1);
    assert_eq!(poller.scan_at(next, folder.path(), &filter()), Finding::Unchanged);
}

#[test]
fn changes_are_found_after_the_clock_was_set_back() {
    let earlier = SystemTime::now() - HOUR;
    let (folder, mut poller) = scanned_at(earlier);
    let mut scan = || poller.scan_at(earlier, folder.path(), &filter());
    assert_eq!(scan(), Finding::Unchanged);
    fs::write(folder.path().join("a"), "two").unwrap();
    assert_eq!(scan(), Finding::Changed);
}

#[test]
fn older_file_of_the_same_length_is_found() {
    let later = SystemTime::now() + HOUR;
    let (folder, mut poller) = scanned_at(later);
    let mut scan = || poller.scan_at(later, folder.path(), &filter());
    let backup = folder.path().join("b");
    fs::write(&backup, "two").unwrap();
    let times = FileTimes::new().set_modified(SystemTime::now() - HOUR);
    File::options().write(true).open(&backup).unwrap().set_times(times).unwrap();
    assert_eq!(scan(), Finding::Changed);
    fs::rename(&backup, folder.path().join("a")).unwrap();
    assert_eq!(scan(), Finding::Changed);
}
