//! Embedded sites of debug builds, which follow their folder.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]
#![cfg(debug_assertions)]

#[allow(dead_code)]
mod support;

use std::fs;
use std::time::{Duration, Instant};

use cannery::Embedded;

#[test]
fn embedded_site_follows_its_folder() {
    let fixture = support::site();
    let folder = fixture.directory.path().join("site");
    let archive: &'static [u8] = fs::read(&fixture.archive).unwrap().leak();
    let source: &'static str = format!("{}\n/*.txt\n", folder.display()).leak();
    let site = Embedded::new(archive, archive, Some(source));
    assert_eq!(site.file("/").unwrap().content, "<title>Home</title>");

    fs::write(folder.join("index.html"), "<title>Edited</title>").unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while site.file("/").unwrap().content != "<title>Edited</title>" {
        assert!(Instant::now() < deadline, "the edit was not noticed");
        std::thread::yield_now();
    }
}

#[test]
fn embedded_archive_is_served_without_its_folder() {
    let fixture = support::site();
    let archive: &'static [u8] = fs::read(&fixture.archive).unwrap().leak();
    let site = Embedded::new(archive, archive, Some("/nowhere/at/all\n"));
    assert_eq!(site.file("/").unwrap().content, "<title>Home</title>");
}
