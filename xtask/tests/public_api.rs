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
use std::sync::{Mutex, PoisonError};

/// The libraries that other programs use, as the directory of a crate and its package.
const LIBRARIES: [(&str, &str); 8] = [
    ("archive", "cannery-archive"),
    ("build", "cannery-build"),
    ("cannery", "cannery"),
    ("eventloop", "cannery-eventloop"),
    ("routes", "cannery-routes"),
    ("server", "cannery-server"),
    ("site", "cannery-site"),
    ("transport", "cannery-transport"),
];

/// The packages that other tests were built with. For any others, cargo would compile most dependencies again, with other features.
const PACKAGES: &str = "CANNERY_TEST_PACKAGES";

/// Cargo removes a crate's documentation before it makes another kind of it.
static DOCUMENTATION: Mutex<()> = Mutex::new(());

#[test]
fn public_apis_are_those_of_the_committed_texts() {
    let _alone = DOCUMENTATION.lock().unwrap_or_else(PoisonError::into_inner);
    let rustdoc = rustdoc_of(&LIBRARIES.map(|(_, package)| package));
    document(&rustdoc, "-Zunstable-options --output-format json");
    for (directory, package) in LIBRARIES {
        let path = root().join(format!("crates/{directory}/public-api.txt"));
        let api = api(package);
        if std::env::var_os("CANNERY_WRITE_API").is_some() {
            fs::write(&path, api).unwrap();
            continue;
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        let changes = changes(&committed, &api);
        assert!(changes.is_empty(), "{}:\n{}", path.display(), changes.join("\n"));
    }
}

/// docs.rs builds the pages of `cannery` like this, with a compiler that knows `doc_cfg`. Its readers have no other crate of ours.
#[test]
fn pages_name_features_and_no_internal_crate() {
    let _alone = DOCUMENTATION.lock().unwrap_or_else(PoisonError::into_inner);
    let rustdoc = rustdoc_of(&["cannery"]);
    document(&rustdoc, "--cfg docsrs");

    let folder = documentation().join("cannery");
    let page = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    for (name, feature) in [
        ("struct.Mount.html", "http"),
        ("struct.Server.html", "server"),
        ("struct.Group.html", "server"),
        ("struct.Multipart.html", "multipart"),
    ] {
        let badge = format!("Available on <strong>crate feature <code>{feature}</code></strong> only.");
        assert!(page(name).contains(&badge), "{name}: {badge}");
    }
    let pages = pages_below(&folder);
    assert!(pages.len() > 50, "only {} pages", pages.len());
    for path in pages {
        let page = without_links(&fs::read_to_string(&path).unwrap());
        // Programs name `cannery_build` themselves.
        let named = page.split("cannery_").skip(1).filter(|rest| !rest.starts_with("build"));
        let named: Vec<_> = named.filter_map(|rest| rest.lines().next()).collect();
        assert!(named.is_empty(), "{}: {named:#?}", path.display());
    }
}

/// Returns the paths of all pages below a folder.
fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages.extend(pages_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "html") {
            pages.push(path);
        }
    }
    pages
}

/// Returns a page without the targets of its links and the tags of its scripts, which may name the folders of other crates.
fn without_links(page: &str) -> String {
    without(&without(page, "<script", '>'), "href=\"", '"')
}

/// Returns a text without all parts from `start` to `end`.
fn without(text: &str, start: &str, end: char) -> String {
    let mut parts = text.split(start);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(end).map_or("", |(_, rest)| rest))
}

#[test]
fn targets_of_links_are_left_out() {
    assert_eq!(without_links("a <a href=\"../src/b.html\" title=\"c\">d</a>"), "a <a  title=\"c\">d</a>");
    assert_eq!(without_links("a<script src=\"b.js\" data-c=\"d\"></script>"), "a</script>");
}

/// Documents all libraries with these flags of rustdoc, and all features of `cannery`, which its examples need.
fn document(rustdoc: &Path, flags: &str) {
    let packages = std::env::var(PACKAGES);
    let packages = packages.as_deref().unwrap_or("--workspace --exclude cannery-bench");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["doc", "--quiet", "--no-deps", "--lib"]).args(packages.split_whitespace());
    // Without an example, cargo would leave out the features of development dependencies, and compile those without them.
    cargo.args(["--example", "rules"]);
    cargo.env("RUSTDOC", rustdoc).env("RUSTDOCFLAGS", format!("{flags} --cap-lints allow"));
    assert!(cargo.current_dir(root()).status().unwrap().success());
}

/// Returns the public items of a documented package, a line each.
fn api(package: &str) -> String {
    let json = documentation().join(format!("{}.json", package.replace('-', "_")));
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_auto_derived_impls(true)
        .omit_auto_trait_impls(true)
        .omit_blanket_impls(true)
        .build()
        .unwrap();
    api.to_string()
}

/// Returns the directory in which cargo puts documentation.
fn documentation() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target).join("doc")
}

/// Writes a script that cargo runs instead of rustdoc, and returns its path.
///
/// It gives rustdoc unstable options, by a variable that is meant for the compiler's own build. If cargo had this variable, it would
/// compile all dependencies again. The script also ignores all libraries except those of the given packages. We can't select only these
/// packages, because cargo would enable fewer features, and again compile the dependencies.
fn rustdoc_of(packages: &[&str]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unstable-rustdoc");
    let crates: Vec<_> =
        packages.iter().map(|package| format!("*' --crate-name {} '*", package.replace('-', "_"))).collect();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in\n{} | *' -vV '*) RUSTC_BOOTSTRAP=1 exec rustdoc \"$@\";;\nesac\n",
        crates.join(" | ")
    );
    fs::write(&path, script).unwrap();
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
