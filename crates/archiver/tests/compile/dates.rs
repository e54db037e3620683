//! `Last-Modified`.

use std::fs::File;
use std::time::{Duration, UNIX_EPOCH};

use cannery_archive::{Key, KeyBuffer, Record};
use cannery_archiver::LastModified;

use crate::site::{Built, Site};

fn site() -> Site {
    let site = Site::new(&[("a.css", "a"), ("page.html", "page"), ("d/b.css", "b"), ("404.html", "none")]);
    for (path, seconds) in [("a.css", 1000), ("page.html", 2000), ("d/b.css", 3000)] {
        let file = File::options().write(true).open(site.source(path)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
    site
}

fn modified(built: &Built, path: &str) -> Option<u64> {
    let mut buffer = KeyBuffer::new();
    let key = Key::from_file(&path.as_bytes()[1..], &mut buffer).unwrap();
    match built.archive.path(None, key).unwrap() {
        Some(Record::Resource(resource)) => resource.modified,
        other => panic!("no resource at {path}: {other:?}"),
    }
}

#[test]
fn by_default_there_are_no_dates() {
    let built = site().build();
    for path in ["/a.css", "/page.html", "/page", "/d/b.css"] {
        assert_eq!(modified(&built, path), None, "{path}");
    }
}

#[test]
fn files_may_have_their_dates_under_all_names() {
    let mut site = site();
    site.options.last_modified = LastModified::Files;
    let built = site.build();
    let dates = ["/a.css", "/page.html", "/page", "/d/b.css"].map(|path| modified(&built, path));
    assert_eq!(dates, [Some(1000), Some(2000), Some(2000), Some(3000)]);
}

#[test]
fn listings_have_no_date() {
    let mut site = site();
    site.options.last_modified = LastModified::Files;
    site.options.include_folder_listing = true;
    assert_eq!(modified(&site.build(), "/d/"), None);
}

#[test]
fn all_resources_may_have_one_date() {
    let mut site = site();
    site.options.last_modified = LastModified::At(7);
    site.options.include_folder_listing = true;
    let built = site.build();
    for path in ["/a.css", "/page", "/d/b.css", "/d/"] {
        assert_eq!(modified(&built, path), Some(7), "{path}");
    }
}

#[test]
fn carried_files_keep_their_date() {
    let mut site = site();
    site.options.last_modified = LastModified::Files;
    site.options.immutable = vec!["*.css".into()];
    site.build();
    std::fs::remove_file(site.source("a.css")).unwrap();
    site.options.previous = vec![site.options.archive.clone()];
    site.options.last_modified = LastModified::None;
    let built = site.build();
    assert_eq!((modified(&built, "/a.css"), modified(&built, "/d/b.css")), (Some(1000), None));
}
