//! A build's report and manifest.

use std::sync::Mutex;

use cannery_archiver::{Encoder, Progress, Stage, compile};

use crate::site::Site;

fn site() -> Site {
    let mut site = Site::new(&[
        ("index.html", &"<p>home</p>".repeat(100)),
        ("d/copy.html", &"<p>home</p>".repeat(100)),
        ("a.png", "image"),
        ("_redirects", "/x /y\n/z/* /y\n"),
        (".hidden", "1"),
    ]);
    site.options.encoders = [Encoder::Identity, Encoder::Gzip].into();
    site
}

#[test]
fn report_counts_files_and_results() {
    let built = site().build();
    let report = &built.report;
    assert_eq!((report.files, report.folders, report.contents), (4, 2, 3));
    assert_eq!(report.bytes_in, 2 * 1100 + 5 + 14);
    // Three of the four files have a path (the other one is the rule file). In addition, there are three aliases and a
    // static rule.
    assert_eq!((report.paths, report.aliases, report.redirects, report.rules), (7, 3, 1, 1));
    assert_eq!(report.paths, built.archive.facts().paths);
    assert_eq!(report.archive_bytes, built.archive.facts().file_bytes);
    assert_eq!(report.digest, built.archive.facts().digest.to_string());
    let [identity, gzip] = &report.codings[..] else { panic!("{:?}", report.codings) };
    assert_eq!((identity.coding, identity.count, identity.bytes), ("identity", 3, 1119));
    assert_eq!((gzip.coding, gzip.count, gzip.identity_bytes), ("gzip", 1, 1100));
    assert!(gzip.bytes < 100);
    assert_eq!(report.biggest[0].bytes, 1100);
    assert_eq!(report.biggest[0].path, "d/copy.html");
    assert_eq!(report.skipped.len(), 1);
    assert_eq!((report.skipped[0].count, &report.skipped[0].examples[..]), (1, &[".hidden".to_owned()][..]));
    assert_eq!((report.caches.files_known, report.caches.files_read), (0, 4));
    assert!(serde_json::to_value(report).unwrap()["times"].as_array().unwrap().len() >= 5);
}

#[test]
fn manifest_describes_the_build_without_paths() {
    let site = site();
    let built = site.build();
    let manifest = built.archive.manifest().unwrap().unwrap();
    let value: serde_json::Value = serde_json::from_slice(manifest).unwrap();
    assert_eq!(value["schema"], cannery_archive::SCHEMA_VERSION);
    assert!(value["tool"].as_str().unwrap().starts_with("cannery "));
    assert!(value["encoders"]["gzip"]["version"].as_str().unwrap().starts_with("libdeflater-"));
    assert_eq!(value["encoders"]["gzip"]["level"], 12);
    assert_eq!(value["files"], 4);
    let text = std::str::from_utf8(manifest).unwrap();
    assert!(!text.contains(site.options.sources.to_str().unwrap()), "{text}");
}

/// Events that an observer gets.
#[derive(Default)]
struct Watcher(Mutex<Vec<(Stage, Option<u64>, u64)>>);

impl Progress for Watcher {
    fn stage(&self, stage: Stage, total: Option<u64>) {
        self.0.lock().unwrap().push((stage, total, 0));
    }

    fn advance(&self, by: u64) {
        self.0.lock().unwrap().last_mut().unwrap().2 += by;
    }
}

#[test]
fn observer_sees_every_stage_reach_its_total() {
    let site = site();
    let watcher = Watcher::default();
    compile(&site.options, &watcher).unwrap();
    let seen = watcher.0.into_inner().unwrap();
    let stages: Vec<Stage> = seen.iter().map(|(stage, ..)| *stage).collect();
    use Stage::{Encode, Publish, Read, Route, Walk, Write};
    assert_eq!(stages, [Walk, Route, Read, Encode, Write, Publish]);
    for (stage, total, reached) in seen {
        assert_eq!(total.unwrap_or(0), reached, "{stage:?}");
    }
}

/// Editors, browsers and CI services typically show the message alone, without the path and line in front of it.
#[test]
fn messages_are_sentences_with_a_subject() {
    let site = Site::new(&[
        ("index.html", "home"),
        ("199.html", "a"),
        ("200.html", "b"),
        ("_wildcard.png", "c"),
        ("404.html", "d"),
        ("page.html", "e"),
        ("page/index.html", "f"),
        ("_hosts/file.txt", "g"),
        ("_hosts/Not_A_Host/index.html", "h"),
        ("_host/index.html", "i"),
        ("docs/_headers", "/*\n  A: b\n"),
        ("_header", "/*\n  A: b\n"),
        ("vercel.json", "{}"),
        ("index.php", "<?php"),
        ("a.sql", "j"),
        (".env.production", "k"),
        ("page.html.bak", "l"),
        ("node_modules/a/a.js", "m"),
        ("a.css", "n"),
        ("a.css.gz", "o"),
        ("docs/.canneryignore", "*"),
        ("_redirects", "/page /x\n/page/ /y 301!\n/b /missing.html 200\n/c /gone.html 404\n/old/* /f 301\n"),
        ("_headers", "/none/:name\n  A: :name\n/nothing\n"),
    ]);
    let report = site.build().report;
    assert!(report.diagnostics.len() > 15, "{:#?}", report.diagnostics);

    // The first word of a predicate.
    let verbs = [
        "is", "isn't", "are", "has", "answers", "looks", "leads", "belongs", "begins", "rewrites", "hides",
        "holds",
    ];
    for diagnostic in &report.diagnostics {
        let first = diagnostic.message.split(' ').next().unwrap();
        assert!(!verbs.contains(&first), "{diagnostic}");
    }
}
