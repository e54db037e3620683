//! Build reports: near misses, files that are probably private, names that look fingerprinted.

use std::path::Path;

use crate::harness::{run, write_folder};

/// Builds a folder literal. Returns the exit code and standard error.
fn build(files: &[(&str, &str)], flags: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("site"), files);
    build_in(folder.path(), "site.cdb", flags)
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    std::fs::create_dir_all(folder).unwrap();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_bytes(), text.as_bytes())).collect();
    write_folder(folder, &files);
}

fn build_in(folder: &Path, archive: &str, flags: &[&str]) -> (i32, String) {
    let site = folder.join("site");
    let archive = folder.join(archive);
    let places = ["--sources", site.to_str().unwrap(), "--archive", archive.to_str().unwrap()];
    let output = run("cannery-archiver", &[&places, flags].concat());
    let printed = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), printed)
}

#[test]
fn near_misses_and_private_files_are_warnings() {
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA==\n";
    let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n";

    for (name, content, code) in [
        ("_redirect", "/a /b", "near-miss"),
        ("_Redirects", "/a /b", "near-miss"),
        ("docs/_headers.txt", "/*", "near-miss"),
        ("_host/a.test/index.html", "page", "near-miss"),
        ("netlify.toml", "", "foreign-configuration"),
        ("vercel.json", "{}", "foreign-configuration"),
        ("_config.yml", "", "foreign-configuration"),
        ("server.pem", key, "private-file"),
        ("id_ed25519", key, "private-file"),
        ("production.env", "SECRET=1", "private-file"),
        ("backup.sql", "INSERT", "private-file"),
        ("node_modules/left-pad/index.js", "1", "private-file"),
    ] {
        let (status, printed) = build(&[("index.html", "page"), (name, content)], &[]);
        let (warnings, codes) =
            (printed.matches("warning:").count(), printed.matches(&format!("[{code}]")).count());
        assert_eq!((status, warnings, codes), (0, 1, 1), "{name}: {printed}");
        assert_eq!(build(&[("index.html", "page"), (name, content)], &["--strict"]).0, 5, "{name}");
    }

    for (name, content) in [("server.pem", certificate), ("LICENSE", "text"), ("environment.html", "page")] {
        assert_eq!(
            build(&[("index.html", "page"), (name, content)], &["--strict"]),
            (0, String::new()),
            "{name}"
        );
    }
}

#[test]
fn host_folder_causes_one_warning() {
    let names: Vec<String> = (0..30).map(|number| format!("_hosts/münchen.de/{number}.html")).collect();
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "page")).collect();
    files.push(("index.html", "page"));
    let (status, printed) = build(&files, &[]);
    assert_eq!((status, printed.matches("[host-invalid]").count()), (0, 1), "{printed}");
    assert!(printed.contains("xn--") && printed.contains("30 files"), "{printed}");
}

#[test]
fn immutable_patterns_follow_gitignore() {
    let files = [("index.html", "page"), ("assets/deep/a.js", "1"), ("b.js", "1")];
    for pattern in ["assets", "/assets/", "assets/*", "a.js", "/assets/**"] {
        let (status, printed) = build(&files, &["--immutable", pattern, "--strict"]);
        assert_eq!((status, printed.as_str()), (0, ""), "{pattern}");
    }
    let (status, printed) = build(&files, &["--immutable", "nothing/*", "--immutable", "*.js"]);
    assert_eq!((status, printed.matches("[immutable-unmatched]").count()), (0, 1), "{printed}");
    assert!(printed.contains("nothing/*"), "{printed}");
}

/// No file of Vite's was carried to the next release, without a warning.
#[test]
fn fingerprinted_names_are_reported_or_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    let first = [("index.html", "page"), ("assets/index-B5Qt_x-9.js", "1"), ("assets/lazy-DKwAzefS.js", "1")];
    write(&site, &first);
    let (status, printed) = build_in(folder.path(), "1.cdb", &["--strict"]);
    assert_eq!(status, 0, "{printed}");
    assert!(
        printed.contains("2 names here look fingerprinted") && printed.contains("--immutable '/assets/'"),
        "{printed}"
    );

    // In the next release, the same name has another hash: a tool makes the names of this folder.
    std::fs::remove_dir_all(&site).unwrap();
    write(
        &site,
        &[("index.html", "page"), ("assets/index-CqxJ3kLm.js", "2"), ("assets/lazy-DKwAzefS.js", "1")],
    );
    let first = folder.path().join("1.cdb");
    let (status, printed) = build_in(folder.path(), "2.cdb", &["--previous", first.to_str().unwrap()]);
    assert_eq!((status, printed.as_str()), (0, ""));
    let explained = |archive: &str, path: &str| {
        let archive = folder.path().join(archive);
        let output = run("cannery", &["explain", archive.to_str().unwrap(), path]);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(explained("2.cdb", "/assets/index-CqxJ3kLm.js").contains("immutable"));
    assert!(explained("2.cdb", "/assets/lazy-DKwAzefS.js").contains("immutable"));

    // The first release marks no name as immutable, and its old name is carried nevertheless.
    assert!(explained("2.cdb", "/assets/index-B5Qt_x-9.js").contains("carried"));

    std::fs::remove_dir_all(&site).unwrap();
    write(&site, &[("index.html", "page"), ("assets/index-Di8DUHzh.js", "3")]);
    let second = folder.path().join("2.cdb");
    let (status, printed) = build_in(folder.path(), "3.cdb", &["--previous", second.to_str().unwrap()]);
    assert_eq!((status, printed.as_str()), (0, ""));
    assert!(explained("3.cdb", "/assets/index-CqxJ3kLm.js").contains("immutable"));
    assert!(explained("3.cdb", "/assets/index-B5Qt_x-9.js").contains("carried"));
}

#[test]
fn folders_and_manifests_of_build_tools_are_known() {
    let manifest = r#"{"src/main.js": {"file": "out/main-abcdefgh.js"}}"#;
    let files = [
        ("index.html", "page"),
        ("_astro/hoisted.BkT3_xYz.js", "1"),
        ("_next/static/chunks/main-42372ed130431b0a.js", "1"),
        ("_app/immutable/start.js", "1"),
        ("out/main-abcdefgh.js", "1"),
        (".vite/manifest.json", manifest),
    ];
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("site"), &files);
    let (status, printed) = build_in(folder.path(), "site.cdb", &["--strict"]);
    assert_eq!((status, printed.as_str()), (0, ""));
    let archive = folder.path().join("site.cdb");
    for (name, _) in &files[1..5] {
        let output = run("cannery", &["explain", archive.to_str().unwrap(), &format!("/{name}")]);
        let explained = String::from_utf8(output.stdout).unwrap();
        assert!(explained.contains("immutable"), "{name}: {explained}");
    }
}
