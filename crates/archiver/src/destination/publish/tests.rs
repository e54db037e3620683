//! Unit tests of publishing an archive.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn only_the_archive_remains() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("site.cdb");
    let mut staging = Staging::beside(&place).unwrap();
    staging.create().unwrap();
    let mut file = staging.create().unwrap();
    file.write_all(b"new").unwrap();
    staging.drop_older();
    assert!(!place.exists());
    staging.publish(file).unwrap();
    assert_eq!(names(folder.path()), ["site.cdb"]);
    assert_eq!(fs::read(&place).unwrap(), b"new");
}

#[test]
fn archive_gets_its_name_without_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("site.cdb");
    let mut staging = Staging::beside(&place).unwrap();
    let mut file = staging.create().unwrap();
    file.write_all(b"new").unwrap();
    let published = staging.publish(file).unwrap();
    assert_ne!(cannery_archive::writers(&published), cannery_archive::Writers::Present);
    assert!((&published).write_all(b"newer").is_err());
    // The next build may have the lock.
    File::open(&place).unwrap().try_lock().unwrap();
}

#[test]
fn failed_build_leaves_the_old_archive_and_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("site.cdb");
    fs::write(&place, b"old").unwrap();
    let mut staging = Staging::beside(&place).unwrap();
    staging.create().unwrap().write_all(b"half").unwrap();
    drop(staging);
    assert_eq!(names(folder.path()), ["site.cdb"]);
    assert_eq!(fs::read(&place).unwrap(), b"old");
}

#[test]
fn permissions_and_links_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("site.cdb");
    let link = folder.path().join("link");
    fs::write(&place, b"old").unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("site.cdb", &link).unwrap();
    let mut staging = Staging::beside(&link).unwrap();
    let mut file = staging.create().unwrap();
    file.write_all(b"new").unwrap();
    staging.publish(file).unwrap();
    assert_eq!(fs::read(&place).unwrap(), b"new");
    assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn stale_files_are_removed_and_locked_ones_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("site.cdb");
    fs::write(folder.path().join(".site.cdb.123.0.cannery.tmp"), b"stale").unwrap();
    fs::write(folder.path().join(".41.cdb.123.0.cannery.tmp"), b"stale, of another archive").unwrap();
    let foreign = [".site.cdb.123.0.tmp", ".site.cdb.notes.cannery.tmp", "site.cdb.123.0.cannery.tmp"];
    for name in foreign {
        fs::write(folder.path().join(name), b"of another program").unwrap();
    }
    let mut running = Staging::beside(&place).unwrap();
    let file = running.create().unwrap();
    Staging::beside(&place).unwrap();
    let own = format!(".site.cdb.{}.0.cannery.tmp", std::process::id());
    let mut expected = vec![own];
    expected.extend(foreign.map(str::to_owned));
    expected.sort();
    assert_eq!(names(folder.path()), expected);
    running.publish(file).unwrap();
}

#[test]
fn folder_cannot_be_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Staging::beside(folder.path()), Err(Error::Usage { .. })));
    assert!(matches!(Staging::beside(Path::new("/dev/null")), Err(Error::Usage { .. })));
}

#[test]
fn missing_directory_is_an_error_that_names_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("none/site.cdb");
    let error = Staging::beside(&place).unwrap().create().unwrap_err();
    assert!(matches!(&error, Error::Write { path, .. } if *path == place), "{error}");
}
