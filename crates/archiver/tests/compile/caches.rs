//! Caches make builds faster and never change the archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cannery_archiver::{Encoder, Error, ErrorClass, LinkCheck};

use crate::site::Site;

/// A site with both caches.
///
/// Only the image is stored uncompressed with these encoders.
fn site() -> Site {
    let mut site = Site::new(&[]);
    for n in 0..20 {
        site.write(format!("{n}.html"), format!("<p>page {n} says something</p>").repeat(20));
    }
    site.write("image.png", "image");
    site.write("unknown.unknown", "again and again and ".repeat(50));
    site.options.encoders = [Encoder::Gzip, Encoder::Brotli].into();
    site.options.levels.set(Encoder::Brotli, 5).unwrap();
    site.options.compress_cache = Some(site.beside("compressed"));
    site.options.sources_cache = Some(site.beside("sources"));
    site
}

fn bytes(site: &Site) -> Vec<u8> {
    site.build();
    site.archive_bytes()
}

fn without_caches(site: &Site) -> Vec<u8> {
    let mut options = site.options.clone();
    options.compress_cache = None;
    options.sources_cache = None;
    cannery_archiver::compile(&options, &()).unwrap();
    site.archive_bytes()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries.flat_map(below).collect()
}

#[test]
fn caches_do_not_change_the_bytes() {
    let site = site();
    let expected = without_caches(&site);
    assert!(bytes(&site) == expected, "cold");
    assert!(bytes(&site) == expected, "warm");
}

#[test]
fn compressed_results_are_reused() {
    let site = site();
    let cold = site.build().report.caches;
    assert_eq!((cold.encodings_found, cold.encodings_made), (0, 42));
    let warm = site.build().report.caches;
    assert_eq!((warm.encodings_found, warm.encodings_made), (42, 0));
}

#[test]
fn new_level_or_content_is_compressed() {
    let mut site = site();
    site.build();
    site.write("3.html", "something else entirely, ".repeat(30));
    assert_eq!(site.build().report.caches.encodings_made, 2);
    site.options.levels.set(Encoder::Gzip, 1).unwrap();
    assert_eq!(site.build().report.caches.encodings_made, 21);
}

#[test]
fn damaged_results_are_replaced() {
    let site = site();
    let expected = bytes(&site);
    let results = files_below(&site.beside("compressed"));
    assert_eq!(results.len(), 42);
    for (place, path) in results.iter().enumerate() {
        let mut bytes = fs::read(path).unwrap();
        match place % 3 {
            0 => bytes.truncate(bytes.len() / 2),
            1 => *bytes.last_mut().unwrap() ^= 1,
            _ => bytes.clear(),
        }
        fs::write(path, bytes).unwrap();
    }
    let built = site.build();
    assert_eq!(built.report.caches.encodings_found, 0);
    assert!(site.archive_bytes() == expected);
    assert_eq!(site.build().report.caches.encodings_found, 42);
}

#[test]
fn damaged_sources_cache_counts_as_empty() {
    let site = site();
    let expected = bytes(&site);
    let whole = fs::read(site.beside("sources")).unwrap();
    for damaged in [&whole[..whole.len() / 2], b"", b"something else"] {
        fs::write(site.beside("sources"), damaged).unwrap();
        assert!(bytes(&site) == expected);
    }
}

#[test]
fn unchanged_files_are_not_read() {
    // Files are only cached if they haven't changed for two seconds, so we use a folder that existed before the
    // test was compiled.
    let mut site = site();
    site.options.sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src").into();
    let cold = site.build();
    let expected = site.archive_bytes();
    assert_eq!((cold.report.caches.files_known, cold.report.caches.files_read), (0, cold.report.files));
    let warm = site.build();
    assert_eq!((warm.report.caches.files_known, warm.report.caches.files_read), (warm.report.files, 0));
    assert!(site.archive_bytes() == expected);
}

#[test]
fn unchanged_pages_are_not_parsed() {
    // As above. Links to the page that is left out are broken.
    let mut site = site();
    site.options.sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/site").into();
    site.options.ignore = vec!["limits.html".to_owned()];
    site.options.check_links = LinkCheck::List;
    let cold = site.build().report;
    let warm = site.build().report;
    // With a style sheet.
    assert_eq!((cold.caches.pages_known, warm.caches.pages_known), (0, 8));
    assert!(warm.diagnostics.iter().any(|diagnostic| diagnostic.code == "broken-link"));
    assert_eq!(warm.diagnostics, cold.diagnostics);
}

#[test]
fn recently_written_files_are_not_cached() {
    let site = site();
    site.build();
    assert_eq!(site.build().report.caches.files_known, 0);
}

#[test]
fn recently_changed_file_with_an_old_time_is_not_cached() {
    let site = site();
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(site.source("image.png")).unwrap().set_modified(hour_ago).unwrap();
    site.build();
    assert_eq!(site.build().report.caches.files_known, 0);
}

#[test]
fn cache_of_the_wrong_kind_is_an_error() {
    let mut site = site();
    let expected = without_caches(&site);
    fs::write(site.beside("file"), "").unwrap();
    fs::create_dir(site.beside("folder")).unwrap();
    site.options.compress_cache = Some(site.beside("file"));
    let error = site.try_build().unwrap_err();
    assert!(matches!(&error, Error::Cache { path, .. } if *path == site.beside("file")), "{error}");
    assert_eq!(error.class(), ErrorClass::Output);
    site.options.compress_cache = None;
    site.options.sources_cache = Some(site.beside("folder"));
    let error = site.try_build().unwrap_err();
    assert!(matches!(&error, Error::Cache { path, .. } if *path == site.beside("folder")), "{error}");
    assert!(site.archive_bytes() == expected);
}

#[test]
fn caches_in_the_source_folder_are_not_archived() {
    let mut site = site();
    site.options.compress_cache = Some(site.source("compressed"));
    site.options.sources_cache = Some(site.source("sources"));
    let first = bytes(&site);
    assert!(bytes(&site) == first, "the caches have grown into the archive");
}
