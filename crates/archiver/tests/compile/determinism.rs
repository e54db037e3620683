//! The same folder and options must give the same bytes, regardless of the number of threads and of the order in which
//! directories list their entries.

use std::fs;

use cannery_archiver::{Encoder, FormatChoice};

use crate::site::Site;

/// A site that uses every feature, as paths and contents.
fn everything() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for n in 0..40 {
        let page = format!("<p>page {n}</p>").repeat(1 + n * 7 % 50);
        files.push((format!("pages/{}/{n}.html", n % 7), page.clone().into_bytes()));
        files.push((format!("copies/{n}.txt"), page.into_bytes()));
        files.push((format!("tiles/{}/{n}.png", n % 3), vec![u8::try_from(n % 40).unwrap(); 300]));
    }
    let text = |path: &str, content: &str| (path.to_owned(), content.as_bytes().to_vec());
    files.extend([
        text("index.html", "home"),
        text("404.html", "none"),
        text("app/_200.html", "app"),
        text("_redirects", "/a /b\n/c/* /d/:splat 302\n://www.example.com/ /x\n/e /index.html 200\n"),
        text("_headers", "/pages/*\n  X-One: 1\n"),
        text("_hosts/b.example/index.html", "b"),
        text("_hosts/a.example/index.html", "a"),
    ]);
    files
}

fn site(files: &[(String, Vec<u8>)]) -> Site {
    let mut site = Site::new(&[]);
    files.iter().for_each(|(path, content)| site.write(path, content));
    // Zopfli is slow and has neither threads nor state, so we leave it out.
    site.options.encoders = [Encoder::Identity, Encoder::Gzip, Encoder::Brotli, Encoder::Zstd].into();
    site.options.include_folder_listing = true;
    site.options.levels.set(Encoder::Brotli, 5).unwrap();
    site
}

fn bytes(site: &Site) -> Vec<u8> {
    site.build();
    site.archive_bytes()
}

#[test]
fn bytes_do_not_depend_on_threads() {
    let mut site = site(&everything());
    site.options.threads = 1;
    let expected = bytes(&site);
    for threads in [1, 2, 7, 0] {
        site.options.threads = threads;
        assert!(bytes(&site) == expected, "{threads} threads");
    }
}

#[test]
fn bytes_do_not_depend_on_place_or_order_of_creation() {
    let mut files = everything();
    let expected = bytes(&site(&files));
    files.reverse();
    assert!(bytes(&site(&files)) == expected, "reversed");
    files.sort_by_key(|(path, _)| blake3::hash(path.as_bytes()).to_hex());
    assert!(bytes(&site(&files)) == expected, "shuffled");
}

#[test]
fn bytes_do_not_depend_on_file_times() {
    let site = site(&everything());
    let expected = bytes(&site);
    let file = fs::File::options().write(true).open(site.source("index.html")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert!(bytes(&site) == expected);
}

#[test]
fn other_contents_or_options_give_other_bytes() {
    let mut site = site(&everything());
    let expected = bytes(&site);
    site.options.exclude_slash_redirects = true;
    assert!(bytes(&site) != expected);
    site.options.exclude_slash_redirects = false;
    site.write("index.html", "hame");
    assert!(bytes(&site) != expected);
}

#[test]
fn both_formats_answer_alike() {
    let mut site = site(&everything());
    let narrow = site.build();
    site.options.format = FormatChoice::Cdb64;
    let wide = site.build();
    assert_eq!((narrow.report.format, wide.report.format), ("cdb", "cdb64"));
    for path in ["/", "/pages/3/3.html", "/copies/1", "/a", "/tiles/0/", "/404"] {
        assert_eq!(narrow.answer(path), wide.answer(path), "{path}");
        assert!(narrow.answer(path).is_some(), "{path}");
    }
    assert_eq!(narrow.below(None, "/"), wide.below(None, "/"));
}
