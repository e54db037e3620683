//! Unit tests of names that bundlers give to files.

use std::fs;

use super::names::{Digits, Shape, hash_in, is_word_or_date};
use super::*;

#[test]
fn names_of_bundlers_look_hashed() {
    let names = [
        // Vite and Rollup.
        ("index-B5Qt_x-9.js", "B5Qt_x-9"),
        ("lazy-DKwAzefS.js", "DKwAzefS"),
        ("vendor-CqxJ3kLm.css", "CqxJ3kLm"),
        ("index-BRBmoGS9.js.map", "BRBmoGS9"),
        // VitePress.
        ("guide_index.md.D8GkD4qS.js", "D8GkD4qS"),
        ("guide_index.md.D8GkD4qS.lean.js", "D8GkD4qS"),
        ("inter-roman-latin.Di8DUHzh.woff2", "Di8DUHzh"),
        // esbuild and Angular.
        ("chunk-2NWTQWGT.js", "2NWTQWGT"),
        ("main-5QOZHB7U.js", "5QOZHB7U"),
        ("chunk-FFHMDTLX.js", "FFHMDTLX"),
        // webpack, Next and Create React App.
        ("main.8f3e2a1b9c0d4e5f6a7b.js", "8f3e2a1b9c0d4e5f6a7b"),
        ("787.c4e7f8f9.chunk.js", "c4e7f8f9"),
        // Parcel and mkdocs-material.
        ("index.3c2a7e1f.js", "3c2a7e1f"),
        ("main.484c7ddc.min.css", "484c7ddc"),
        // SvelteKit and Astro.
        ("start.DYWvYkPx.js", "DYWvYkPx"),
        ("hoisted.BkT3_xYz.js", "BkT3_xYz"),
    ];

    for (name, hash) in names {
        let found = hash_in(name.as_bytes()).map(|range| &name[range]);
        assert_eq!(found, Some(hash), "{name}");
    }
}

#[test]
fn words_numbers_dates_and_versions_do_not_look_hashed() {
    for name in [
        "index.html",
        "installation.html",
        "getting-started.html",
        "GettingStarted.html",
        "report-20240131.pdf",
        "chapter12.html",
        "bootstrap5.min.css",
        "jquery-3.7.1.min.js",
        "app-settings.js",
        "IMG_20240131.jpg",
        "Introduction.pdf",
        "app.MyWidget.js",
        "photo-1920x1080.jpg",
        "release-2024-01-31.html",
        "a.js",
        ".js",
        "fontawesome6.css",
        "user-profile.css",
        "version2.html",
        "screenshot-01.png",
    ] {
        let found = hash_in(name.as_bytes()).map(|range| &name[range]);
        assert_eq!(found, None, "{name}");
    }
}

/// Returns `true` if a name has a hash of eight digits after this separator, and so does another name with the same suffix.
fn has_hash_of_shape(name: &str, separator: u8) -> bool {
    let suffix = name.rsplit('.').next().unwrap();
    let other = format!("x{}DKwAzefS.{suffix}", char::from(separator));
    let shape = Shape::of(other.as_bytes(), &(2..10)).unwrap();
    shape.range_in(name.as_bytes()).is_some_and(|hash| !is_word_or_date(&name.as_bytes()[hash]))
}

/// Vite, Rollup, webpack, Parcel and VitePress wrote these names.
#[test]
fn hashes_that_resemble_words_are_recognized_by_their_shape() {
    for (name, separator) in [
        ("alpha-ohBgrzb0.svg", b'-'),
        ("eta-BznhhMce.js", b'-'),
        ("index-BgsEly2-.js", b'-'),
        ("theta-BHSy-__O.css", b'-'),
        ("guide_installation.md.Dqvyr4-9.lean.js", b'.'),
        ("reference.md.BfRhxndv.js", b'.'),
        ("alpha-ncssueek.js", b'-'),
        ("iota-ovtdxppi.js", b'-'),
        ("kappa.22022351.css.map", b'.'),
        ("mu-77229645.js", b'-'),
        ("77.78939443.css", b'.'),
    ] {
        assert!(has_hash_of_shape(name, separator), "{name}");
    }

    for token in [
        "settings", "backdrop", "vertical", "DarkMode", "AppShell", "IconsSvg", "overview", "shortcut",
        "symphony", "rhythmic", "nightfly", "FAQsPage", "HTMLView", "toString", "20240131", "light-up",
    ] {
        let name = format!("logo-{token}.svg");
        assert!(!has_hash_of_shape(&name, b'-'), "{name}");
    }
}

#[test]
fn manifests_list_existing_files() {
    let root = tempfile::tempdir().unwrap();
    for name in [
        "assets/main-settings.js",
        "assets/main-abcdefgh.js",
        "assets/plain.css",
        "static/js/main.4f3a9b1c.js",
    ] {
        fs::create_dir_all(root.path().join(name).parent().unwrap()).unwrap();
        fs::write(root.path().join(name), "").unwrap();
    }

    fs::create_dir(root.path().join(".vite")).unwrap();
    let vite = r#"{"src/main.js": {"file": "assets/main-abcdefgh.js", "css": ["assets/plain.css", "assets/gone-B5Qt_x-9.css"]}}"#;
    fs::write(root.path().join(".vite/manifest.json"), vite).unwrap();
    fs::write(
        root.path().join("asset-manifest.json"),
        r#"{"files": {"main.js": "/static/js/main.4f3a9b1c.js"}}"#,
    )
    .unwrap();
    fs::write(root.path().join("manifest.json"), "no JSON").unwrap();

    let host = root.path().join("_hosts/a.test");
    fs::create_dir_all(&host).unwrap();
    fs::write(host.join("app.3c2a7e1f.js"), "").unwrap();
    fs::write(host.join("parcel-manifest.json"), r#"{"app.js": "/app.3c2a7e1f.js"}"#).unwrap();

    let mut listed: Vec<_> = manifests::listed(root.path()).into_iter().collect();
    listed.sort();
    assert_eq!(
        listed,
        [&b"_hosts/a.test/app.3c2a7e1f.js"[..], b"assets/main-abcdefgh.js", b"static/js/main.4f3a9b1c.js"]
    );
}

/// Icons of web apps used to be listed too.
#[test]
fn manifest_of_a_web_app_lists_no_hashed_names() {
    let root = tempfile::tempdir().unwrap();
    for name in ["big-logo.png", "icon-DKwAzefS.png"] {
        fs::write(root.path().join(name), "").unwrap();
    }
    let manifest = r#"{"name": "App", "icons": [{"src": "/big-logo.png"}, {"src": "icon-DKwAzefS.png"}]}"#;
    fs::write(root.path().join("manifest.json"), manifest).unwrap();
    assert!(manifests::listed(root.path()).is_empty());
    for manifest in [
        r#"{"files": ["big-logo.png", "icon-DKwAzefS.png"]}"#,
        r#"{"name": "App", "short_name": "A", "screenshots": [{"src": "icon-DKwAzefS.png"}]}"#,
        r#"{"photo": "icon-DKwAzefS.png", "icon-DKwAzefS.png": "icon-DKwAzefS.png"}"#,
        r#"{"a": {"file": "x.js"}, "b": {"src": "icon-DKwAzefS.png"}}"#,
    ] {
        fs::write(root.path().join("manifest.json"), manifest).unwrap();
        assert!(manifests::listed(root.path()).is_empty(), "{manifest}");
    }
    let angular = r#"{"hashTable": {"/big-logo.png": "0", "/icon-DKwAzefS.png": "1"}}"#;
    fs::write(root.path().join("ngsw.json"), angular).unwrap();
    assert!(manifests::listed(root.path()).is_empty());
}

#[test]
fn words_with_digits_and_capitals_are_no_hashes() {
    for name in ["registerSW.js", "slide-XMas2024.jpg", "Invoice-README12.pdf", "iPhone15Pro.png"] {
        assert_eq!(hash_in(name.as_bytes()), None, "{name}");
    }
}

#[test]
fn shape_has_the_digits_of_its_encoding() {
    let hexadecimal = Digits::of(b"4f3a9b1c");
    assert!(hexadecimal.contain(b"00c0ffee") && !hexadecimal.contain(b"4f3a9b1z"));
    assert!(!hexadecimal.contain(b"DKwAzefS"));
    assert!(Digits::of(b"DKwAzefS").contain(b"B-5_xcvb"));
    assert!(!Digits::of(b"2NWTQWGT").contain(b"4f3a9b1c"));
}

#[test]
fn pages_service_workers_and_manifests_are_never_inferred() {
    let options = Options::new("a", "b");
    let names = InferableNames::new(&options);
    for name in [
        "a-63b2c4069545.html",
        "a-63b2c4069545.XHTML",
        "sw.js",
        "registerSW.js",
        "assets/sw-DKwAzefS.js",
        "app.1f3a9b1c.webmanifest",
    ] {
        assert!(!names.may_infer(name.as_bytes()), "{name}");
    }
    assert!(names.may_infer(b"workbox-9c191d2f.js") && names.may_infer(b"assets/swiper-DKwAzefS.js"));
}
