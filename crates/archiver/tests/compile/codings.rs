//! Codings of contents.

use std::collections::BTreeSet;

use cannery_archive::Coding;
use cannery_archiver::Encoder;

use crate::site::{Built, Site};

fn text() -> String {
    (0..400).map(|n| format!("<p>line {n} of a page that goes on and on</p>\n")).collect()
}

/// Incompressible bytes.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

fn build(encoders: &[Encoder], files: &[(&str, &[u8])]) -> Built {
    let mut site = Site::new(&[]);
    files.iter().for_each(|(path, content)| site.write(path, content));
    site.options.encoders = encoders.iter().copied().collect();
    site.build()
}

fn codings(built: &Built, path: &str) -> BTreeSet<Coding> {
    built.page(path).codings().into_iter().collect()
}

#[test]
fn rule_files_are_not_compressed() {
    let rules: String = (0..2000).map(|number| format!("/old/{number} /new/{number}\n")).collect();
    let built = build(&[Encoder::Identity, Encoder::Gzip], &[("_redirects", rules.as_bytes())]);
    assert_eq!(built.report.codings.iter().map(|total| total.coding).collect::<Vec<_>>(), ["identity"]);
    assert_eq!(built.kept(), [("_redirects".to_owned(), rules)]);
}

#[test]
fn every_requested_coding_is_stored_and_decodes() {
    let built = build(&Encoder::ALL, &[("a.html", text().as_bytes())]);
    let page = built.page("/a.html");
    assert_eq!(codings(&built, "/a.html"), Coding::ALL.into());
    assert_eq!(page.text(), text());
    for form in &page.forms {
        let coding = (form.coding != Coding::Identity).then_some(form.coding.name());
        assert_eq!(form.field("Content-Encoding"), coding);
        assert_eq!(form.field("Vary"), Some("Accept-Encoding"), "{}", form.coding.name());
    }
}

#[test]
fn default_is_identity_gzip_and_brotli() {
    let site = Site::new(&[]);
    let defaults = cannery_archiver::Options::new(&site.options.sources, &site.options.archive);
    assert_eq!(defaults.encoders, [Encoder::Identity, Encoder::Gzip, Encoder::Brotli].into());
}

#[test]
fn without_identity_contents_are_stored_compressed() {
    let noise = noise(5000);
    let built =
        build(&[Encoder::Gzip], &[("a.html", text().as_bytes()), ("noise.html", &noise), ("a.css", b"x")]);
    assert_eq!(codings(&built, "/a.html"), [Coding::Gzip].into());
    assert_eq!(built.page("/a.html").field("Vary"), Some("Accept-Encoding"), "gzip may be refused");
    assert_eq!(codings(&built, "/noise.html"), [Coding::Identity].into());
    assert_eq!(built.page("/noise.html").body, noise);
    assert_eq!(codings(&built, "/a.css"), [Coding::Identity].into());
    assert_eq!(built.page("/a.css").field("Vary"), None);
}

#[test]
fn gzip_archive_has_no_uncompressed_page() {
    let built = build(&[Encoder::Gzip], &[("a.html", text().as_bytes()), ("b.html", text().as_bytes())]);
    assert_eq!(built.bodies().len(), 1);
    assert!(built.bodies()[0].starts_with(&[0x1f, 0x8b]));
}

#[test]
fn zopfli_replaces_gzip() {
    let gzip = build(&[Encoder::Gzip], &[("a.html", text().as_bytes())]);
    let zopfli = build(&[Encoder::Zopfli], &[("a.html", text().as_bytes())]);
    let both = build(&[Encoder::Gzip, Encoder::Zopfli], &[("a.html", text().as_bytes())]);
    assert_eq!(codings(&both, "/a.html"), [Coding::Gzip].into());
    assert_eq!(both.page("/a.html").forms[0].stored, zopfli.page("/a.html").forms[0].stored);
    assert_ne!(gzip.page("/a.html").forms[0].stored, zopfli.page("/a.html").forms[0].stored);
}

#[test]
fn compressed_types_are_not_compressed_again() {
    let built = build(&Encoder::ALL, &[("a.png", text().as_bytes()), ("a.gz", text().as_bytes())]);
    assert_eq!(codings(&built, "/a.png"), [Coding::Identity].into());
    assert_eq!(codings(&built, "/a.gz"), [Coding::Identity].into());
}

#[test]
fn unknown_types_are_probed() {
    let built = build(
        &[Encoder::Identity, Encoder::Gzip],
        &[("a.unknown", text().as_bytes()), ("b.unknown", &noise(5000))],
    );
    assert_eq!(codings(&built, "/a.unknown"), [Coding::Identity, Coding::Gzip].into());
    assert_eq!(codings(&built, "/b.unknown"), [Coding::Identity].into());
}

#[test]
fn content_with_two_names_is_compressed_once() {
    let built = build(
        &[Encoder::Identity, Encoder::Gzip],
        &[("a.png", text().as_bytes()), ("b.html", text().as_bytes())],
    );
    assert_eq!(codings(&built, "/b.html"), [Coding::Identity, Coding::Gzip].into());
    assert_eq!(built.bodies().len(), 2);
}

#[test]
fn source_equal_to_a_compressed_result_is_stored_once() {
    let coded =
        build(&[Encoder::Gzip], &[("a.html", text().as_bytes())]).page("/a.html").forms[0].stored.clone();
    let built =
        build(&[Encoder::Identity, Encoder::Gzip], &[("a.html", text().as_bytes()), ("a.html.gz", &coded)]);
    assert_eq!(built.bodies().len(), 2);
    assert_eq!(built.page("/a.html.gz").body, coded);
    assert_eq!(built.page("/a.html").text(), text());
}

#[test]
fn large_file_is_stored_completely() {
    let big: Vec<u8> = noise(9 << 20);
    let page = "a page that goes on and on for as long as it may ".repeat(180_000);
    let built =
        build(&[Encoder::Gzip], &[("big.png", &big), ("copy.png", &big), ("page.html", page.as_bytes())]);
    assert!(built.page("/big.png").body == big && built.page("/copy.png").body == big);
    assert!(page.len() > 8 << 20, "long enough to be read piece by piece");
    assert!(built.page("/page.html").body == page.as_bytes());
    assert_eq!(codings(&built, "/page.html"), [Coding::Gzip].into());
    assert_eq!(built.report.contents, 2);
}

#[test]
fn hidden_files_are_stored_uncompressed() {
    let rules: String = (0..100).map(|n| format!("/old-{n} /new-{n}\n")).collect();
    let built =
        build(&[Encoder::Brotli], &[("_redirects", rules.as_bytes()), ("_404.html", text().as_bytes())]);
    assert_eq!(built.kept(), [("_404.html".to_owned(), text()), ("_redirects".to_owned(), rules)]);
}

#[test]
fn lower_level_is_used_if_requested() {
    let mut site = Site::new(&[("a.html", &text())]);
    site.options.encoders = [Encoder::Gzip].into();
    let best = site.build().report.codings[0].bytes;
    site.options.levels.set(Encoder::Gzip, 1).unwrap();
    assert!(site.build().report.codings[0].bytes > best);
}
