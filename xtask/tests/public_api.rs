//! The public API of the crates that other programs use, compared with committed texts.
//!
//! A line that a change removes breaks programs that use it: such a change needs a new minor version before 1.0, and a new major one
//! afterwards (Cargo's rules of semantic versioning). `CANNERY_WRITE_API=1 cargo test -p xtask --test public_api` writes the texts.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of a crate, its package, and the features that its documentation has.
const LIBRARIES: [(&str, &str, &[&str]); 4] = [
    ("build", "cannery-build", &[]),
    ("cannery", "cannery", &["--all-features"]),
    ("routes", "cannery-routes", &[]),
    ("server", "cannery-server", &[]),
];

#[test]
fn public_apis_are_those_of_the_committed_texts() {
    let rustdoc = rustdoc_with_json();
    for (directory, package, features) in LIBRARIES {
        let path = root().join(format!("crates/{directory}/public-api.txt"));
        let api = api(&rustdoc, package, features);
        if std::env::var_os("CANNERY_WRITE_API").is_some() {
            fs::write(&path, api).unwrap();
            continue;
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        let changes = changes(&committed, &api);
        assert!(changes.is_empty(), "{}:\n{}", path.display(), changes.join("\n"));
    }
}

/// Returns the public items of a package, a line each.
fn api(rustdoc: &Path, package: &str, features: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustdoc", "--quiet", "--lib", "--package", package]).args(features);
    cargo.args(["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"]);
    assert!(cargo.env("RUSTDOC", rustdoc).current_dir(root()).status().unwrap().success());

    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let json = root().join(target).join(format!("doc/{}.json", package.replace('-', "_")));
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_auto_derived_impls(true)
        .omit_auto_trait_impls(true)
        .omit_blanket_impls(true)
        .build()
        .unwrap();
    api.to_string()
}

/// Returns the path of a rustdoc that writes JSON, which the stable one only does for the compiler's own build.
///
/// Only rustdoc gets the variable: cargo would compile all dependencies again for it.
fn rustdoc_with_json() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rustdoc-with-json");
    fs::write(&path, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Returns the lines that only one of two texts has.
fn changes(before: &str, after: &str) -> Vec<String> {
    let missing = |from: &str, line: &&str| !from.lines().any(|other| other == *line);
    let removed = before.lines().filter(|line| missing(after, line)).map(|line| format!("removed: {line}"));
    let added = after.lines().filter(|line| missing(before, line)).map(|line| format!("added: {line}"));
    removed.chain(added).collect()
}

#[test]
fn changes_name_what_was_removed_and_added() {
    let changes = changes("pub fn a::b()\npub fn a::c()\n", "pub fn a::c()\npub fn a::b(u8)\n");
    assert_eq!(changes, ["removed: pub fn a::b()", "added: pub fn a::b(u8)"]);
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}
