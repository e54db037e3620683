//! Where the archive may be, even within the source folder.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use cannery_archiver::{Error, ErrorClass};

use crate::site::{Site, names};

#[test]
fn only_the_archive_is_created() {
    let site = Site::new(&[("a.css", "1")]);
    site.build();
    assert_eq!(site.names_beside(), ["site", "site.cdb"]);
}

#[test]
fn archive_in_the_source_folder_does_not_contain_itself() {
    let mut site = Site::new(&[("a.css", "1")]);
    site.options.archive = site.source("site.cdb");
    site.build();
    let first = site.archive_bytes();
    let built = site.build();
    assert!(site.archive_bytes() == first, "the second archive holds the first");
    assert_eq!(built.answer("/site.cdb"), None);
    assert_eq!(built.report.files, 1);
    assert_eq!(built.remarks(), ["site.cdb: archive-skipped"]);
    assert_eq!(built.report.warnings(), 0, "it is a note");
    assert_eq!(names(&site.options.sources), ["a.css", "site.cdb"]);
}

#[test]
fn other_files_with_the_archives_name_are_kept() {
    let mut site = Site::new(&[("d/site.cdb", "mine")]);
    site.options.archive = site.source("site.cdb");
    site.build();
    assert_eq!(site.build().page("/d/site.cdb").text(), "mine");
}

#[test]
fn link_to_the_archive_in_the_source_folder_is_not_archived() {
    let site = Site::new(&[("a.css", "1")]);
    site.build();
    symlink(&site.options.archive, site.source("download.cdb")).unwrap();
    let first = site.build().report.archive_bytes;
    assert_eq!(site.build().report.archive_bytes, first, "each archive holds the one before");
}

#[test]
fn permissions_and_links_are_kept() {
    let mut site = Site::new(&[("a.css", "1")]);
    let place = site.beside("releases.cdb");
    fs::write(&place, "old").unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("releases.cdb", site.beside("current.cdb")).unwrap();
    site.options.archive = site.beside("current.cdb");
    site.build();
    assert!(fs::symlink_metadata(site.beside("current.cdb")).unwrap().is_symlink());
    assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn open_archive_remains_readable() {
    let site = Site::new(&[("a.css", "old")]);
    let old = site.build();
    let mapped =
        cannery_archive::Archive::open(&site.options.archive, cannery_archive::Loading::Mapped).unwrap();
    site.write("a.css", "new");
    assert_eq!(site.build().page("/a.css").text(), "new");
    assert_eq!(mapped.facts().digest, old.archive.facts().digest);
    mapped.verify(|_| ()).unwrap();
}

#[test]
fn folder_or_device_cannot_be_the_archive() {
    let mut site = Site::new(&[("a.css", "1")]);
    for place in [site.options.sources.clone(), "/dev/null".into()] {
        site.options.archive = place.clone();
        let error = site.try_build().unwrap_err();
        assert!(matches!(&error, Error::Usage { .. }), "{error}");
        assert_eq!(error.class(), ErrorClass::Usage);
    }
}

#[test]
fn missing_folder_of_the_archive_is_an_output_error() {
    let mut site = Site::new(&[("a.css", "1")]);
    site.options.archive = site.beside("none/site.cdb");
    let error = site.try_build().unwrap_err();
    assert_eq!(error.class(), ErrorClass::Output);
    assert!(error.to_string().contains("none/site.cdb"), "{error}");
}
