//! Carries files from earlier releases.

use std::fs;
use std::path::PathBuf;

use cannery_archive::{Coding, Origin};
use cannery_archiver::{Encoder, Error, ErrorClass};

use crate::site::{Built, Site};

/// Makes a name that contains a digest: `script("one")` is `app.<digits>.js`.
fn script(content: &str) -> String {
    format!("app.{}.js", &blake3::hash(content.as_bytes()).to_hex()[..16])
}

/// A site's releases, each in its own archive.
struct Deploys {
    site: Site,
}

impl Deploys {
    fn new() -> Deploys {
        Deploys { site: Site::new(&[]) }
    }

    fn archive(&self, name: &str) -> PathBuf {
        self.site.beside(&format!("{name}.cdb"))
    }

    /// Builds the archive `name` from these files. `previous` are the archives of earlier releases.
    fn release(&mut self, name: &str, files: &[(&str, &str)], previous: &[&str]) -> Built {
        self.prepare(name, files, previous);
        self.site.build()
    }

    fn prepare(&mut self, name: &str, files: &[(&str, &str)], previous: &[&str]) {
        fs::remove_dir_all(&self.site.options.sources).unwrap();
        fs::create_dir(&self.site.options.sources).unwrap();
        files.iter().for_each(|(path, content)| self.site.write(path, content));
        self.site.options.archive = self.archive(name);
        self.site.options.previous = previous.iter().map(|name| self.archive(name)).collect();
    }

    /// Releases a script together with the page that loads it.
    fn script(&mut self, name: &str, content: &str, previous: &[&str]) -> Built {
        let (page, script) = (format!("<script src={}></script>", script(content)), script(content));
        self.release(name, &[("index.html", &page), (&script, content)], previous)
    }
}

fn carried(built: &Built) -> Vec<(u64, u64)> {
    built.report.previous.iter().map(|release| (release.serial, release.carried)).collect()
}

#[test]
fn page_of_the_release_before_last_finds_its_files() {
    let mut deploys = Deploys::new();
    deploys.site.options.encoders = [Encoder::Identity, Encoder::Gzip].into();
    let one = "console.log('one');".repeat(50);
    let first = deploys.script("1", &one, &[]).page(format!("/{}", script(&one)));
    deploys.script("2", "two", &["1"]);
    // Carried files don't depend on the codings in this release.
    deploys.site.options.encoders = [Encoder::Identity].into();
    let built = deploys.script("3", "three", &["2"]);
    let page = built.page(format!("/{}", script(&one)));
    assert_eq!((page.text(), page.codings()), (one.as_str(), vec![Coding::Gzip, Coding::Identity]));
    assert_eq!(page.field("Cache-Control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(page.forms, first.forms, "it answers as it did");
    assert_eq!((first.origin, page.origin), (Origin::File, Origin::Carried));
    assert_eq!(built.page(format!("/{}", script("two"))).text(), "two");
    assert_eq!((carried(&built), built.report.carried, built.report.serial), (vec![(2, 1), (1, 1)], 2, 3));
    assert_eq!(built.report.paths, 6, "the page and its two other names, three scripts");
}

#[test]
fn only_fingerprinted_files_are_carried() {
    let mut deploys = Deploys::new();
    let name = script("one");
    deploys.release(
        "1",
        &[
            ("gone.html", "page"),
            ("style.css", "a{}"),
            ("404.html", "none"),
            ("_redirects", "/x /y\n"),
            (&name, "one"),
        ],
        &[],
    );

    let built = deploys.release("2", &[("index.html", "home")], &["1"]);
    for path in ["/gone.html", "/gone", "/style.css", "/404.html", "/x"] {
        assert_eq!(built.answer(path), None, "{path}");
    }
    assert_eq!(built.below(None, "/"), None);
    assert_eq!(built.kept(), []);
    assert_eq!(carried(&built), [(1, 1)]);
}

#[test]
fn paths_of_this_release_are_never_replaced() {
    let mut deploys = Deploys::new();
    deploys.site.options.immutable = vec!["/kept/*".into()];
    let files =
        [("kept/file.js", "old"), ("kept/alias", "old"), ("kept/rule.js", "old"), ("kept/lost.js", "old")];
    deploys.release("1", &files, &[]);
    let built = deploys.release(
        "2",
        &[
            ("kept/file.js", "new"),
            ("kept/alias.html", "new"),
            ("_redirects", "/kept/rule.js /kept/file.js\n"),
        ],
        &["1"],
    );
    assert_eq!(built.page("/kept/file.js").text(), "new");
    assert_eq!(built.page("/kept/alias").text(), "new");
    assert!(matches!(built.answer("/kept/rule.js"), Some(crate::site::Answer::Redirect(301, _))));
    assert_eq!(built.page("/kept/lost.js").text(), "old");
}

#[test]
fn newer_release_wins_in_any_order_of_flags() {
    let mut deploys = Deploys::new();
    deploys.site.options.immutable = vec!["*.js".into()];
    deploys.release("1", &[("app.js", "first")], &[]);
    deploys.release("2", &[("app.js", "first"), ("new.js", "1")], &["1"]);
    let built = deploys.release("3", &[("a.css", "1")], &["1", "2"]);
    let expected = deploys.site.archive_bytes();
    assert_eq!(built.page("/app.js").text(), "first");
    assert_eq!(carried(&built), [(2, 2), (1, 0)]);
    deploys.release("4", &[("a.css", "1")], &["2", "1", "2"]);
    assert!(deploys.site.archive_bytes() == expected, "order and repetition of the flags decide nothing");
}

/// Two releases used the same name for different contents, so clients need to ask each time.
#[test]
fn name_with_two_contents_is_not_carried() {
    let mut deploys = Deploys::new();
    deploys.site.options.immutable = vec!["*.js".into()];
    deploys.release("1", &[("app.js", "first")], &[]);
    let built = deploys.release("2", &[("app.js", "second")], &["1"]);
    assert_eq!(built.page("/app.js").field("Cache-Control"), Some("public, max-age=3600"));
    assert_eq!(codes(&built), ["immutable-changed"]);
    let built = deploys.release("same", &[("app.js", "second")], &["2"]);
    assert_eq!(
        built.page("/app.js").field("Cache-Control"),
        Some("public, max-age=3600"),
        "it may change again"
    );
    let built = deploys.release("3", &[("a.css", "1")], &["1", "2"]);
    assert_eq!(built.answer("/app.js"), None);
}

fn codes(built: &Built) -> Vec<&'static str> {
    built.report.diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

fn caching(built: &Built, path: &str) -> String {
    built.page(path).field("Cache-Control").unwrap().to_owned()
}

const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Photos and documents next to a tool's files used to be sent as immutable, even though they had changed under the same name.
#[test]
fn names_are_inferred_by_the_shape_of_those_that_changed() {
    let mut deploys = Deploys::new();
    let files = |script: &'static str, photo: &'static str| {
        [
            ("index.html", "home"),
            (script, script),
            ("assets/lazy-CqxJ3kLm.js", "lazy"),
            ("assets/main-settings.js", "settings"),
            ("assets/item-B08N5WRWNW.jpg", photo),
            ("assets/slide-XMas2024.jpg", photo),
            ("assets/Invoice_A1B2C3D4.pdf", photo),
            ("assets/photo-DHY2EjBc.jpg", "no other image has changed its name"),
            ("registerSW.js", photo),
        ]
    };

    deploys.release("1", &files("assets/index-B5kt5A8z.js", "old"), &[]);
    let mut built = deploys.release("2", &files("assets/index-D6WeUmqv.js", "new"), &["1"]);

    for round in ["2", "3", "4"] {
        for path in ["/assets/index-D6WeUmqv.js", "/assets/lazy-CqxJ3kLm.js"] {
            assert_eq!(caching(&built, path), IMMUTABLE, "{path} in release {round}");
        }
        for path in [
            "/assets/item-B08N5WRWNW.jpg",
            "/assets/slide-XMas2024.jpg",
            "/assets/Invoice_A1B2C3D4.pdf",
            "/assets/photo-DHY2EjBc.jpg",
            "/assets/main-settings.js",
        ] {
            assert_eq!(caching(&built, path), "public, max-age=3600", "{path} in release {round}");
        }
        assert_eq!(caching(&built, "/registerSW.js"), "public, no-cache");
        assert!(!codes(&built).contains(&"immutable-changed"), "no release sent them as immutable");
        assert_eq!(built.page("/assets/index-B5kt5A8z.js").origin, Origin::Carried);
        built = match round {
            "2" => deploys.release("3", &files("assets/index-D6WeUmqv.js", "third"), &["2"]),
            _ => deploys.release("4", &files("assets/index-D6WeUmqv.js", "third"), &["3"]),
        };
    }
}

/// Replacing one photo used to make all photos immutable, and deleted documents used to stay public.
#[test]
fn items_and_documents_are_never_inferred() {
    let mut deploys = Deploys::new();
    let stays = ["assets/item-B07XJ8C8F5.jpg", "docs/a-5e6f7a8b.txt", "p/a-5e6f7a8b.page"];
    let gone = [
        "assets/item-B08N5WRWNW.jpg",
        "photo/one-A1B2C3D4.jpg",
        "docs/draft-63b2c4069545.pdf",
        "docs/draft-63b2c4069545.txt",
        "docs/draft-63b2c4069545.svg",
        "docs/feed-3f9a1c02.json",
        "p/b-3f9a1c02.page",
        "js/item-3f9a1c02.js",
        "js/item-4f9a1c02.js",
    ];
    let new = [
        "assets/item-B09G9FPHY6.jpg",
        "assets/item-B01M8L5Z3Y.jpg",
        "photo/one-E5F6A7B8.jpg",
        "docs/draft-9e119e30691c.pdf",
        "docs/draft-9e119e30691c.txt",
        "docs/draft-9e119e30691c.svg",
        "docs/feed-4a8b2d13.json",
        "p/b-4a8b2d13.page",
        "js/item-5f9a1c02.js",
        "js/item-6f9a1c02.js",
    ];

    let files = |paths: &[&'static str]| -> Vec<(&'static str, &'static str)> {
        let rule = ("_headers", "/p/*\n  Content-Type: text/html\n");
        [("index.html", "home"), rule].into_iter().chain(paths.iter().map(|path| (*path, *path))).collect()
    };

    deploys.release("1", &files(&[&stays[..], &gone].concat()), &[]);
    let built = deploys.release("2", &files(&[&stays[..], &new].concat()), &["1"]);

    for path in stays.iter().chain(&new) {
        assert_ne!(caching(&built, &format!("/{path}")), IMMUTABLE, "{path}");
    }
    for path in gone {
        assert_eq!(built.answer(format!("/{path}")), None, "{path}");
    }
}

/// An image was renamed whenever its content changed, and the names of the scripts next to it have the same
/// shape.
#[test]
fn images_are_inferred_only_beside_scripts_of_their_shape() {
    let mut deploys = Deploys::new();
    let files = |script, image, photo| {
        [
            ("index.html", "home"),
            (script, "script"),
            (image, "image"),
            (photo, "photo"),
            ("assets/old-B5kt5A8z.png", "o"),
        ]
    };

    deploys.release(
        "1",
        &files("assets/index-B5kt5A8z.js", "assets/logo-Dq7Wz2kP.png", "p/a-B08N5WRW.jpg"),
        &[],
    );
    let second = files("assets/index-D6WeUmqv.js", "assets/logo-CqxJ3kLm.png", "p/a-B09G9FPH.jpg");
    let built = deploys.release("2", &second, &["1"]);

    for (path, is_proven) in [
        ("/assets/index-D6WeUmqv.js", true),
        ("/assets/logo-CqxJ3kLm.png", true),
        ("/assets/old-B5kt5A8z.png", false),
        ("/p/a-B09G9FPH.jpg", false),
    ] {
        assert_eq!(caching(&built, path) == IMMUTABLE, is_proven, "{path}");
    }

    assert_eq!(built.page("/assets/logo-Dq7Wz2kP.png").origin, Origin::Carried);
    assert_eq!(built.answer("/p/a-B08N5WRW.jpg"), None);
}

/// A page used to be immutable if its name contained a digest, even though a header rule states its
/// type.
#[test]
fn pages_by_a_header_rule_are_never_fingerprinted() {
    let digest = blake3::hash(b"verified").to_hex();
    let page = format!("p/a.{}.page", &digest[..16]);
    let rule = "/p/*\n  Content-Type: text/html; charset=utf-8\n";
    let built = Site::new(&[("_headers", rule), (&page, "verified")]).build();
    assert_ne!(caching(&built, &format!("/{page}")), IMMUTABLE);
    let built = Site::new(&[(&page, "verified")]).build();
    assert_eq!(caching(&built, &format!("/{page}")), IMMUTABLE);
}

/// This script's name has the same shape as others.
///
/// After it had changed under that name once, the next release made it immutable again.
#[test]
fn refuted_name_stays_mutable() {
    let mut deploys = Deploys::new();
    let files = |script: &'static str, other: &'static str| {
        [("index.html", "home"), (script, script), ("assets/key-A1b2C3d4.js", other)]
    };
    deploys.release("1", &files("assets/index-B5kt5A8z.js", "1"), &[]);
    let built = deploys.release("2", &files("assets/index-D6WeUmqv.js", "1"), &["1"]);
    assert_eq!(caching(&built, "/assets/key-A1b2C3d4.js"), IMMUTABLE);
    for (name, previous) in [("3", "2"), ("4", "3")] {
        let built = deploys.release(name, &files("assets/index-D6WeUmqv.js", "2"), &[previous]);
        assert_eq!(caching(&built, "/assets/key-A1b2C3d4.js"), "public, max-age=3600", "release {name}");
        assert_eq!(codes(&built).contains(&"immutable-changed"), name == "3", "{:?}", codes(&built));
    }
}

/// People who had already read a page would never see corrections to it, and deleted pages would
/// stay in their caches.
#[test]
fn pages_are_never_fingerprinted_nor_carried() {
    let mut deploys = Deploys::new();
    let digest = blake3::hash(b"verified").to_hex();
    let verified = format!("posts/page-{}.html", &digest[..12]);
    let first = "posts/draft-63b2c4069545.html";
    deploys.release("1", &[("index.html", "home"), (first, "1"), (&verified, "verified")], &[]);
    let second = "posts/draft-9e119e30691c.html";
    let built =
        deploys.release("2", &[("index.html", "home"), (second, "2"), (&verified, "verified")], &["1"]);
    for path in [format!("/{second}"), format!("/{verified}"), "/posts/draft-9e119e30691c".to_owned()] {
        assert_eq!(caching(&built, &path), "public, no-cache", "{path}");
    }
    assert_eq!(built.answer(format!("/{first}")), None);
    deploys.site.options.immutable = vec!["/posts/".into()];
    deploys.release("3", &[("index.html", "home"), (second, "2")], &["2"]);
    let built = deploys.release("4", &[("index.html", "home")], &["3"]);
    assert_eq!(built.answer(format!("/{second}")), None, "not even if it was declared immutable");
    assert_eq!(built.report.carried, 0);
}

/// The flag used to have no effect on carried files, so a deploy's page kept a secret for three
/// releases.
#[test]
fn ignored_files_are_withdrawn() {
    let mut deploys = Deploys::new();
    let secret = "_astro/config.A1b2C3d4.js";
    let other = "_astro/main.DKwAzefS.js";
    deploys.release("1", &[("index.html", "home"), (secret, "key"), (other, "1")], &[]);
    let built = deploys.release("2", &[("index.html", "home")], &["1"]);
    assert_eq!(built.page(format!("/{secret}")).text(), "key");

    for (name, flag, file) in [
        ("flag", "_astro/config.*", ""),
        (
            "file",
            "",
            "config.*
",
        ),
        ("folder", "/_astro/", ""),
    ] {
        deploys.site.options.ignore =
            [flag].iter().filter(|flag| !flag.is_empty()).map(|flag| (*flag).into()).collect();
        let built = deploys.release(name, &[("index.html", "home"), (".canneryignore", file)], &["2"]);
        let page = built.page(format!("/{secret}"));
        assert_eq!((page.status, page.field("Cache-Control")), (410, Some("no-store")), "{name}");
        assert!(codes(&built).contains(&"withdrawn") && !built.bodies().contains(&b"key".to_vec()), "{name}");
        let is_carried = !built.page(format!("/{other}")).text().contains("withdrawn");
        assert_eq!(is_carried, name != "folder", "{name}");
        // It doesn't come back in the next release either.
        let built = deploys.release("next", &[("index.html", "home"), (".canneryignore", file)], &[name]);
        assert_eq!(built.page(format!("/{secret}")).status, 410, "{name}");
    }
}

#[test]
fn chunks_of_vite_are_immutable_from_the_first_release_on() {
    let mut deploys = Deploys::new();
    // Vite 8 writes it like this. Two of the files are from `public/assets/`.
    let page = "<!doctype html>\n<script type=\"module\" crossorigin src=\"/assets/index-BIOfnJmv.js\"></script>\n\
                <link rel=\"stylesheet\" crossorigin href=\"/assets/index-B-Ombg3M.css\">\n";
    let entry = "const d=[\"assets/lazy-BfRhxndv.js\",\"assets/lazy-xwbrHUwT.css\"];import(`./lazy-BfRhxndv.js`);\
                 new Worker(new URL(`/assets/worker-BZo5ctSZ.js`,``+import.meta.url));\
                 i.src=\"/assets/item-B08N5WRWNW.jpg\";i.src=\"/assets/slide-XMas2024.jpg\"";
    let chunks = [
        "assets/index-BIOfnJmv.js",
        "assets/index-B-Ombg3M.css",
        "assets/lazy-BfRhxndv.js",
        "assets/lazy-xwbrHUwT.css",
        "assets/shared-overview.js",
        "assets/worker-BZo5ctSZ.js",
    ];
    let others = [
        "assets/item-B08N5WRWNW.jpg",
        "assets/slide-XMas2024.jpg",
        "assets/legacy-Dq7Wz2kP.js",
        "assets/main-settings.js",
        "index-B5kt5A8z.js",
    ];
    let mut files = vec![("index.html", page)];
    for name in chunks.into_iter().chain(others) {
        files.push((
            name,
            match name {
                "assets/index-BIOfnJmv.js" => entry,
                "assets/lazy-BfRhxndv.js" => "import{s}from\"./shared-overview.js\"",
                _ => name,
            },
        ));
    }
    let built = deploys.release("site", &files, &[]);
    for name in chunks {
        assert_eq!(caching(&built, &format!("/{name}")), IMMUTABLE, "{name}");
    }
    for name in others {
        assert_eq!(caching(&built, &format!("/{name}")), "public, max-age=3600", "{name}");
    }

    // Chunks of the archive we replace are only kept on request. This includes `legacy-Dq7Wz2kP.js`, because
    // it has the same shape.
    let built = deploys.release("site", &[("index.html", "home")], &[]);
    assert_eq!(codes(&built), ["files-lost"]);
    deploys.release("site", &files, &[]);
    let built = deploys.release("site", &[("index.html", "home")], &["site"]);
    assert_eq!((built.report.carried, codes(&built)), (7, vec![]));
    let built = deploys.release("new", &[("index.html", "home")], &["new"]);
    assert_eq!(codes(&built), ["first-release"]);
}

#[test]
fn note_names_no_pattern_that_a_mutable_file_matches() {
    let mut deploys = Deploys::new();
    let files = [
        ("index.html", "home"),
        ("registerSW.js", "1"),
        ("workbox-9c191d2f.js", "1"),
        ("docs/main.484c7ddc.css", "1"),
        ("docs/index.html", "1"),
        ("assets/index-B5kt5A8z.js", "1"),
    ];
    let built = deploys.release("1", &files, &[]);
    let notes: Vec<&str> =
        built.report.diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    let has = |pattern: &str| notes.iter().any(|note| note.contains(&format!("--immutable '{pattern}'")));
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(has("/workbox-9c191d2f.js") && has("/docs/*.????????.css") && has("/assets/"), "{notes:?}");
}

#[test]
fn number_of_carried_releases_is_limited() {
    let mut deploys = Deploys::new();
    for (name, previous) in [("1", None), ("2", Some("1")), ("3", Some("2")), ("4", Some("3"))] {
        let previous: Vec<_> = previous.into_iter().collect();
        deploys.script(name, name, &previous);
    }
    let built = deploys.script("5", "5", &["4"]);
    assert_eq!(carried(&built), [(4, 1), (3, 1), (2, 1)]);
    assert_eq!(built.answer(format!("/{}", script("1"))), None);
    deploys.site.options.previous_releases = 1;
    assert_eq!(carried(&deploys.script("6", "6", &["5", "4"])), [(5, 1)]);
    deploys.site.options.previous_releases = 0;
    let built = deploys.script("7", "7", &["6"]);
    assert_eq!((carried(&built), built.report.carried, built.report.serial), (vec![], 0, 7));
}

#[test]
fn release_that_was_replaced_long_ago_is_dropped() {
    const DAY: u64 = 24 * 60 * 60;
    let mut deploys = Deploys::new();
    deploys.site.options.previous_age_days = Some(30);
    for (name, previous, day) in [("1", None, 100), ("2", Some("1"), 110), ("3", Some("2"), 125)] {
        deploys.site.options.released = Some(day * DAY);
        let previous: Vec<_> = previous.into_iter().collect();
        deploys.script(name, name, &previous);
    }
    deploys.site.options.released = Some(141 * DAY);
    // The first was replaced 31 days ago, the second 16 days.
    assert_eq!(carried(&deploys.script("4", "4", &["3"])), [(3, 1), (2, 1)]);
    let manifest = deploys.site.build().archive.manifest().unwrap().unwrap().to_vec();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!((&manifest["serial"], &manifest["released"]), (&4.into(), &(141 * DAY).into()));
}

#[test]
fn files_of_a_host_are_carried_while_it_has_a_site() {
    let mut deploys = Deploys::new();
    let old = format!("_hosts/example.com/{}", script("old"));
    deploys.release("1", &[("index.html", "1"), ("_hosts/example.com/index.html", "1"), (&old, "old")], &[]);
    let built = deploys.release("2", &[("index.html", "2"), ("_hosts/example.com/index.html", "2")], &["1"]);
    let path = format!("/{}", script("old"));
    assert_eq!(built.page_on(Some("example.com"), &path).text(), "old");
    assert_eq!(built.answer(&path), None, "the default site never had it");
    let rule = "://example.com/x /y\n";
    let built = deploys.release("rule", &[("index.html", "3"), ("_redirects", rule)], &["2"]);
    assert_eq!((built.report.carried, built.has_own_site("example.com")), (0, Some(false)));
    let built = deploys.release("3", &[("index.html", "3")], &["2"]);
    assert!(!built.archive.facts().hosts, "a site that was taken down stays down");
    assert_eq!(built.report.carried, 0);
}

#[test]
fn restored_file_is_a_file_again_and_its_age_restarts() {
    let mut deploys = Deploys::new();
    deploys.script("1", "blue", &[]);
    deploys.script("2", "red", &["1"]);
    let built = deploys.script("3", "blue", &["2"]);
    assert_eq!(built.page(format!("/{}", script("blue"))).origin, Origin::File);
    let built = deploys.script("4", "green", &["3"]);
    assert_eq!(carried(&built), [(3, 1), (2, 1), (1, 0)], "blue was last part of the third release");
}

#[test]
fn body_with_another_name_in_this_release_is_stored_once() {
    let mut deploys = Deploys::new();
    let (old, new) = (script("same"), script("same").replace("app", "main"));
    deploys.release("1", &[(&old, "same")], &[]);
    let built = deploys.release("2", &[(&new, "same")], &["1"]);
    assert_eq!(built.page(format!("/{old}")).text(), "same");
    assert_eq!(built.bodies(), [b"same".to_vec()]);
}

#[test]
fn archive_may_be_its_own_predecessor() {
    let mut deploys = Deploys::new();
    deploys.script("site", "one", &[]);
    let built = deploys.script("site", "two", &["site"]);
    assert_eq!(built.page(format!("/{}", script("one"))).text(), "one");
    assert_eq!(built.report.serial, 2);
}

#[test]
fn same_folder_options_and_archives_give_the_same_bytes() {
    let mut deploys = Deploys::new();
    deploys.script("1", "one", &[]);
    deploys.script("2", "two", &["1"]);
    deploys.script("3", "three", &["2"]);
    let expected = deploys.site.archive_bytes();
    deploys.site.options.threads = 1;
    deploys.script("4", "three", &["2"]);
    assert!(deploys.site.archive_bytes() == expected);
}

#[test]
fn serials_increase() {
    let mut deploys = Deploys::new();
    assert_eq!(deploys.script("1", "one", &[]).archive.facts().serial, 1);
    deploys.site.options.serial = Some(41);
    deploys.script("41", "two", &["1"]);
    deploys.site.options.serial = None;
    assert_eq!(deploys.script("42", "three", &["1", "41"]).archive.facts().serial, 42);
    deploys.site.options.serial = Some(42);
    deploys.prepare("43", &[("a.css", "1")], &["42"]);
    let error = deploys.site.try_build().unwrap_err();
    assert!(matches!(error, Error::Serial { serial: 42, newest: 42 }), "{error}");
    assert_eq!(error.class(), ErrorClass::Usage);
}

#[test]
fn invalid_earlier_archive_is_an_error() {
    let mut deploys = Deploys::new();
    deploys.script("1", "one", &[]);
    let good = fs::read(deploys.archive("1")).unwrap();
    let mut changed = good.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;

    // The number comes after the first record's name.
    let mut other_version = good.clone();
    let place = good.windows(4).position(|window| window == b"CANR").unwrap() + 4;
    other_version[place] = 99;

    let cases: [(&str, Option<&[u8]>); 6] = [
        ("version", Some(&other_version)),
        ("missing", None),
        ("empty", Some(b"")),
        ("foreign", Some(b"this is no archive")),
        ("cut", Some(&good[..good.len() - 9])),
        ("changed", Some(&changed)),
    ];

    for (name, bytes) in cases {
        if let Some(bytes) = bytes {
            fs::write(deploys.archive(name), bytes).unwrap();
        }
        deploys.prepare("next", &[("a.css", "1")], &["1", name]);
        let error = deploys.site.try_build().unwrap_err();
        assert_eq!(error.class(), ErrorClass::Input, "{name}");
        assert!(error.to_string().contains(&format!("{name}.cdb")), "{name}: {error}");
        assert!(name != "version" || error.to_string().contains("format version 99"), "{error}");
        assert!(!deploys.archive("next").exists(), "{name}");
    }
}

/// In folders without `*`, earlier releases used to be no evidence about host names, neither for nor
/// against them.
#[test]
fn evidence_covers_both_spellings_of_a_wildcard_host() {
    for folder in ["_hosts/*.ex.org", "_hosts/_wildcard.ex.org"] {
        let mut deploys = Deploys::new();
        let home = format!("{folder}/index.html");
        let [first, second] = ["B5kt5A8z", "D6WeUmqv"].map(|hash| format!("{folder}/assets/index-{hash}.js"));
        deploys.release("1", &[(&home, "home"), ("index.html", "home"), (&first, "1")], &[]);
        let built = deploys.release("2", &[(&home, "home"), ("index.html", "home"), (&second, "2")], &["1"]);
        let host = Some(".ex.org");
        let key = |name: &str| format!("/assets/index-{name}.js");
        let caching =
            |built: &Built| built.page_on(host, key("D6WeUmqv")).field("Cache-Control").unwrap().to_owned();
        assert_eq!(caching(&built), IMMUTABLE, "{folder}: the name changed");
        assert!(built.answer_on(host, key("B5kt5A8z")).is_some(), "{folder}: it is carried");

        let built = deploys.release("3", &[(&home, "home"), ("index.html", "home"), (&second, "3")], &["2"]);
        assert_eq!(caching(&built), "public, max-age=3600", "{folder}: it is refuted");
        assert!(codes(&built).contains(&"immutable-changed"), "{folder}");

        deploys.site.options.ignore = vec![format!("/{folder}/assets/index-B*")];
        let built = deploys.release("4", &[(&home, "home"), ("index.html", "home")], &["2"]);
        assert_eq!(built.page_on(host, key("B5kt5A8z")).status, 410, "{folder}: it is withdrawn");
    }
}
