//! The structure of the project, held by a test: which crate may import which, where `unsafe` may stand,
//! that every file says what it is for, that every library has its reason, and that no modules of one
//! crate import each other in a circle.
//!
//! It reads the texts as they stand in the tree and never runs the product. It uses nothing beyond the
//! standard library, so that it holds for every library that is ever added.

#![forbid(unsafe_code)]

#[path = "structure/circles.rs"]
mod circles;
#[path = "structure/manifest.rs"]
mod manifest;
#[path = "structure/sources.rs"]
mod sources;
#[path = "structure/table.rs"]
mod table;

use std::fs;
use std::path::Path;

use manifest::Manifest;
use sources::Source;

/// Who may import whom. The root package may import all of them.
const ARROWS: [(&str, &[&str]); 8] = [
    ("base", &[]),
    ("archive", &["base"]),
    ("site", &["base", "archive"]),
    ("wire", &["base", "archive", "site"]),
    ("secure", &[]),
    ("eventloop", &[]),
    ("archiver", &["base", "archive", "site", "wire"]),
    ("server", &["base", "archive", "site", "wire", "secure", "eventloop"]),
];

/// The files in which `unsafe` may stand.
const UNSAFE_FILES: [&str; 5] = [
    "crates/archive/src/lease/linux.rs",
    "crates/archive/src/map.rs",
    "crates/eventloop/src/linux/syscalls.rs",
    "crates/eventloop/src/linux/uring/ring.rs",
    "crates/eventloop/src/portable/syscalls.rs",
];

/// The crates that have such a file: they deny `unsafe` where the others forbid it, so that the file can
/// allow it for itself.
const UNSAFE_CRATES: [&str; 2] = ["crates/archive/src/lib.rs", "crates/eventloop/src/lib.rs"];

/// Where code is.
const CODE_FOLDERS: [&str; 8] = ["crates", "src", "tests", "testkit", "examples", "xtask", "bench", "fuzz"];

#[test]
fn crates_import_only_what_the_arrows_allow() {
    let mut findings = Vec::new();
    for manifest in crate_manifests() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == manifest.folder_name()) else {
            findings
                .push(format!("{}: no arrows are known for this crate; add a row to ARROWS", manifest.path));
            continue;
        };
        let ours = manifest.dependencies.iter().filter_map(|name| name.strip_prefix("cannery-"));
        for import in ours.filter(|import| !allowed.contains(import)) {
            findings.push(format!("{}: must not import cannery-{import}, only {allowed:?}", manifest.path));
        }
    }
    report("Move the code to the crate that may know both sides; an arrow is never turned round.", &findings);
}

#[test]
fn testkit_imports_nothing_of_the_product() {
    let manifest = Manifest::read(root(), "testkit/Cargo.toml");
    let imports = manifest.dependencies.iter().filter(|name| name.starts_with("cannery"));
    let findings: Vec<_> = imports.map(|name| format!("{}: imports {name}", manifest.path)).collect();
    report("A test must not learn from the product what it expects of it.", &findings);
}

#[test]
fn unsafe_stands_in_five_files_only() {
    let findings: Vec<_> = all_sources()
        .iter()
        .filter(|source| !UNSAFE_FILES.contains(&source.path.as_str()))
        .filter_map(|source| Some(format!("{}:{}", source.path, source.line_of_word("unsafe")?)))
        .collect();
    report("Ask one of the files in UNSAFE_FILES for a safe function instead.", &findings);
}

#[test]
fn every_crate_root_refuses_unsafe_code() {
    let mut findings = Vec::new();
    for source in all_sources().iter().filter(|source| source.is_crate_root()) {
        let level = if UNSAFE_CRATES.contains(&source.path.as_str()) { "deny" } else { "forbid" };
        let attribute = format!("#![{level}(unsafe_code)]");
        if !source.code.contains(&attribute) {
            findings.push(format!("{}: lacks {attribute}", source.path));
        }
    }
    report("Add the line below the `//!` text.", &findings);
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    let silent = all_sources().into_iter().filter(|source| !source.text.starts_with("//!"));
    let findings: Vec<_> = silent.map(|source| source.path).collect();
    report("Begin the file with a `//!` that says what it is for and what it never does.", &findings);
}

#[test]
fn every_library_is_named_in_the_architecture() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap_or_default();
    let mut findings = Vec::new();
    for manifest in crate_manifests().into_iter().chain([Manifest::read(root(), "Cargo.toml")]) {
        for library in manifest.dependencies.iter().filter(|name| !name.starts_with("cannery-")) {
            if !sources::has_word(&architecture, library, is_part_of_crate_name) {
                findings.push(format!("{}: {library}", manifest.path));
            }
        }
    }
    report("Name each of these libraries in ARCHITECTURE.md, with the reason why it is here.", &findings);
}

#[test]
fn modules_of_a_crate_do_not_import_each_other_in_a_circle() {
    let mut findings = Vec::new();
    for folder in crate_manifests().iter().map(Manifest::folder).chain([String::new()]) {
        let code = if folder.is_empty() { "src".to_owned() } else { format!("{folder}/src") };
        let circles = circles::find(&code, &sources::below(root(), &code));
        findings.extend(circles.iter().map(|circle| format!("{code}: {}", circle.join(" -> "))));
    }
    report("Move what both need into a module of its own, or hand it over as an argument.", &findings);
}

#[test]
fn server_modules_import_only_modules_listed_after_them() {
    let code = "crates/server/src";
    let against = circles::against_order(code, &sources::below(root(), code));
    let findings: Vec<_> = against.iter().map(|(from, to)| format!("{code}: {from} -> {to}")).collect();
    report(
        "Move the code, or hand it over as an argument: lib.rs lists the modules from the whole to its parts.",
        &findings,
    );
}

#[test]
fn every_test_that_the_conformance_page_names_exists() {
    let page = fs::read_to_string(root().join("docs/conformance.md")).expect("the page is there");
    let sources = all_sources();
    let is_held = |named: &table::Named<'_>| {
        let source = sources.iter().find(|source| source.path == named.path);
        source.is_some_and(|source| table::holds(source, named.name))
    };
    let named = table::named(&page);
    assert!(named.len() > 100, "only {} tests are named", named.len());
    let findings: Vec<_> = named
        .iter()
        .filter(|named| !is_held(named))
        .map(|named| format!("docs/conformance.md:{}: {}::{}", named.line, named.path, named.name))
        .collect();
    report("A test was renamed or taken out: name the one that holds the requirement now.", &findings);
}

#[test]
fn every_requirement_on_the_conformance_page_has_a_test() {
    let page = fs::read_to_string(root().join("docs/conformance.md")).expect("the page is there");
    let texts = ["RFC 9110", "RFC 9112", "RFC 9111", "RFC 9113", "RFC 7541", "RFC 9218", "TLS"];
    let bare = table::without_test(&page, &[&texts[..], &["Our choices", "Deviations"]].concat());
    let findings: Vec<_> = bare.iter().map(|line| format!("docs/conformance.md:{line}")).collect();
    report("Write the test that would fail without it, and name it in the row.", &findings);
}

#[test]
fn every_limit_has_its_reason() {
    let read =
        |path: &str| fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let config = read("crates/server/src/config.rs");
    let defaults = config.split("impl Default for Timeouts").nth(1).expect("timeouts have defaults");
    let mut findings = without_reason(&read("crates/wire/src/limits.rs"), "///", "pub const ", 10);
    findings.extend(without_reason(&read("crates/secure/src/limits.rs"), "///", "pub const ", 10));
    findings.extend(without_reason(defaults.split("\n}\n").next().unwrap_or_default(), "//", "Duration", 6));
    report("Say what it counts, in which unit, and why it has this value.", &findings);
}

/// The lines with `what` in them that have no comment of so many words above them.
fn without_reason(text: &str, comment: &str, what: &str, words_min: usize) -> Vec<String> {
    let (mut words, mut findings, mut count) = (0, Vec::new(), 0);
    for line in text.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix(comment) {
            words += more.split_whitespace().count();
            continue;
        }
        if line.contains(what) {
            count += 1;
            findings.extend((words < words_min).then(|| line.to_owned()));
        }
        words = 0;
    }
    assert!(count > 3, "only {count} lines with {what}");
    findings
}

/// Fails with everything that was found and with what to do about it.
fn report(remedy: &str, findings: &[String]) {
    assert!(findings.is_empty(), "\n{remedy}\n  {}\n", findings.join("\n  "));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn all_sources() -> Vec<Source> {
    let sources: Vec<_> = CODE_FOLDERS.iter().flat_map(|folder| sources::below(root(), folder)).collect();
    assert!(!sources.is_empty(), "no code below {}", root().display());
    sources
}

/// The manifests below `crates/`, in order.
fn crate_manifests() -> Vec<Manifest> {
    let entries = fs::read_dir(root().join("crates")).expect("the folder of the crates is there");
    let mut folders: Vec<_> = entries
        .map(|entry| entry.expect("the folder is readable").file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort_unstable();
    folders.iter().map(|folder| Manifest::read(root(), &format!("crates/{folder}/Cargo.toml"))).collect()
}

fn is_part_of_crate_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}
