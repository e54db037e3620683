//! Structure of the project: imports between crates and modules, files with `unsafe`, module documentation, reasons for
//! dependencies, what published crates contain, how many files a change touches, the tests that the pages about
//! conformance name, code on pages, which must compile, and public types, which must be able to grow.
//!
//! The tests read source files as text and never run the product. We use only the standard library here, so
//! that the tests also cover every dependency.

#![forbid(unsafe_code)]

mod growth;
mod imports;
mod manifest;
mod pages;
mod published;
mod sources;
mod spread;
mod table;

use std::fs;
use std::path::Path;

use manifest::Manifest;
use sources::Source;

/// The crates that each crate may import. Its tests may also import the testkit. The root package may import all of them.
const ALLOWED_IMPORTS: [(&str, &[&str]); 18] = [
    ("base", &[]),
    ("archive", &["base"]),
    ("site", &["base", "archive"]),
    ("wire", &["base", "archive", "site"]),
    ("transport", &[]),
    ("certificates", &["base", "transport"]),
    ("eventloop", &[]),
    ("follow", &[]),
    ("image", &[]),
    ("routes", &["base"]),
    ("archiver", &["base", "archive", "site", "wire"]),
    ("live", &["archiver", "follow"]),
    ("trust", &["base", "archive"]),
    ("publish", &["archive", "trust"]),
    ("store", &["base", "archive", "publish", "trust"]),
    ("server", &["base", "archive", "routes", "site", "wire", "transport", "trust", "eventloop"]),
    ("cannery", &["archive", "routes", "server", "site", "wire", "archiver", "follow", "live"]),
    ("build", &["archive", "archiver"]),
];

/// The files that may contain `unsafe`.
const UNSAFE_FILES: [&str; 6] = [
    "crates/archive/src/lease/linux.rs",
    "crates/archive/src/map.rs",
    "crates/cannery/src/include.rs",
    "crates/eventloop/src/linux/syscalls.rs",
    "crates/eventloop/src/linux/uring/ring.rs",
    "crates/eventloop/src/portable/syscalls.rs",
];

/// The crates with such a file. They deny `unsafe` instead of forbidding it, so that the file can allow it.
const UNSAFE_CRATES: [&str; 2] = ["crates/archive/src/lib.rs", "crates/eventloop/src/lib.rs"];

/// The files that list each module before those that it imports.
const ORDERED: [&str; 13] = [
    "crates/archiver/src/lib.rs",
    "crates/certificates/src/lib.rs",
    "crates/publish/src/lib.rs",
    "crates/server/src/lib.rs",
    "crates/site/src/lib.rs",
    "crates/site/src/steps.rs",
    "crates/store/src/lib.rs",
    "crates/transport/src/lib.rs",
    "crates/transport/src/quic.rs",
    "crates/trust/src/lib.rs",
    "crates/wire/src/lib.rs",
    "crates/wire/src/compression.rs",
    "crates/wire/src/response.rs",
];

/// The directories with code.
const CODE_FOLDERS: [&str; 8] = ["crates", "src", "tests", "testkit", "examples", "xtask", "bench", "fuzz"];

#[test]
fn crates_import_only_allowed_crates() {
    let mut findings = Vec::new();
    for manifest in crate_manifests() {
        let Some((_, allowed)) = ALLOWED_IMPORTS.iter().find(|(name, _)| *name == manifest.folder_name())
        else {
            findings.push(format!("{}: not listed; add a row to ALLOWED_IMPORTS", manifest.path));
            continue;
        };
        let of_tests = manifest.dev_dependencies.iter().filter(|name| *name != "cannery-testkit");
        let ours =
            manifest.dependencies.iter().chain(of_tests).filter_map(|name| name.strip_prefix("cannery-"));
        for import in ours.filter(|import| !allowed.contains(import)) {
            findings.push(format!("{}: must not import cannery-{import}, only {allowed:?}", manifest.path));
        }
    }
    report("Move the code to a crate that may import both.", &findings);
}

#[test]
fn testkit_imports_nothing_of_the_product() {
    let manifest = Manifest::read(root(), "testkit/Cargo.toml");
    let imports = manifest.all_dependencies().filter(|name| name.starts_with("cannery"));
    let findings: Vec<_> = imports.map(|name| format!("{}: imports {name}", manifest.path)).collect();
    report("Tests must not take their expectations from the product.", &findings);
}

#[test]
fn unsafe_is_in_the_listed_files_only() {
    let findings: Vec<_> = all_sources()
        .iter()
        .filter(|source| !UNSAFE_FILES.contains(&source.path.as_str()))
        .filter_map(|source| Some(format!("{}:{}", source.path, source.line_of_word("unsafe")?)))
        .collect();
    report("Use a safe function of one of the files in UNSAFE_FILES, or add one there.", &findings);
}

#[test]
fn every_crate_root_denies_unsafe_code() {
    let mut findings = Vec::new();
    for source in all_sources().iter().filter(|source| source.is_crate_root()) {
        let level = if UNSAFE_CRATES.contains(&source.path.as_str()) { "deny" } else { "forbid" };
        let attribute = format!("#![{level}(unsafe_code)]");
        if !source.code.contains(&attribute) {
            findings.push(format!("{}: lacks {attribute}", source.path));
        }
    }
    report("Add the attribute after the module documentation.", &findings);
}

#[test]
fn every_file_has_module_documentation() {
    let undocumented = all_sources().into_iter().filter(|source| !source.text.starts_with("//!"));
    let findings: Vec<_> = undocumented.map(|source| source.path).collect();
    report("Begin the file with `//!` documentation that names its purpose.", &findings);
}

#[test]
fn architecture_page_names_every_dependency() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap_or_default();
    let mut findings = Vec::new();
    for manifest in crate_manifests().into_iter().chain([Manifest::read(root(), "Cargo.toml")]) {
        for library in manifest.all_dependencies().filter(|name| !name.starts_with("cannery-")) {
            if !sources::has_word(&architecture, library, is_part_of_crate_name) {
                findings.push(format!("{}: {library}", manifest.path));
            }
        }
    }
    report("Name each of these libraries in ARCHITECTURE.md with the reason for it.", &findings);
}

#[test]
fn modules_have_no_import_cycles() {
    let mut findings = Vec::new();
    for folder in crate_manifests().iter().map(Manifest::folder).chain([String::new()]) {
        let code = if folder.is_empty() { "src".to_owned() } else { format!("{folder}/src") };
        let cycles = imports::cycles(&code, &sources::below(root(), &code));
        findings.extend(cycles.iter().map(|cycle| format!("{code}: {}", cycle.join(" -> "))));
    }
    report("Move the shared code to a module of its own, or pass it as an argument.", &findings);
}

#[test]
fn modules_import_later_modules_only() {
    let mut findings = Vec::new();
    for list in ORDERED {
        let code = &list[..list.find("/src/").expect("the file is in a crate") + "/src".len()];
        let violations = imports::against_order(code, list, &sources::below(root(), code));
        findings.extend(violations.iter().map(|(from, to)| format!("{list}: {from} -> {to}")));
    }
    report(
        "Move the code, or pass it as an argument: the file lists a module before those that it imports.",
        &findings,
    );
}

/// The pages that name the test of each requirement, choice and deviation.
const CONFORMANCE: [&str; 2] = ["docs/conformance.md", "docs/design/conformance.md"];

#[test]
fn tests_named_by_the_conformance_pages_exist() {
    let sources = all_sources();
    let exists = |named: &table::Named<'_>| {
        let source = sources.iter().find(|source| source.path == named.path);
        source.is_some_and(|source| table::contains(source, named.name))
    };
    let mut findings = Vec::new();
    let mut count = 0;
    for path in CONFORMANCE {
        let page = fs::read_to_string(root().join(path)).expect("the page exists");
        let named = table::named(&page);
        count += named.len();
        let missing = named.iter().filter(|named| !exists(named));
        findings
            .extend(missing.map(|named| format!("{path}:{}: {}::{}", named.line, named.path, named.name)));
    }
    assert!(count > 100, "only {count} tests are named");
    report("A test was renamed or removed: name the test that now covers the requirement.", &findings);
}

#[test]
fn requirements_of_the_conformance_pages_have_tests() {
    let headings = [
        "RFC 9110",
        "RFC 9112",
        "RFC 9111",
        "RFC 9113",
        "RFC 9114",
        "RFC 7541",
        "RFC 9204",
        "RFC 9218",
        "TLS",
        "QUIC",
        "Our choices",
        "Deviations",
    ];

    let pages =
        CONFORMANCE.map(|path| (path, fs::read_to_string(root().join(path)).expect("the page exists")));
    for heading in headings {
        let line = format!("## {heading}");
        let is_on_a_page = pages.iter().any(|(_, page)| page.lines().any(|other| other == line));
        assert!(is_on_a_page, "no page has the heading `{line}`");
    }

    let untested = pages.iter().flat_map(|(path, page)| {
        table::without_test(page, &headings).into_iter().map(move |line| format!("{path}:{line}"))
    });
    let findings: Vec<_> = untested.collect();
    report("Write a test that fails if the requirement is broken, and name it in the row.", &findings);
}

#[test]
fn weather_example_is_short() {
    let path = "crates/cannery/examples/weather.rs";
    let lines = fs::read_to_string(root().join(path)).expect("the example exists").lines().count();
    assert!(lines <= 40, "{path} has {lines} lines; at most 40 show that a server with a route is short");
}

#[test]
fn every_limit_has_its_reason() {
    let read =
        |path: &str| fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let config = read("crates/server/src/config.rs");
    let defaults = config.split("impl Default for Timeouts").nth(1).expect("timeouts have defaults");
    let mut findings = without_reason(&read("crates/wire/src/limits.rs"), "///", "pub const ", 10);
    findings.extend(without_reason(&read("crates/transport/src/limits.rs"), "///", "pub const ", 10));
    findings.extend(without_reason(defaults.split("\n}\n").next().unwrap_or_default(), "//", "Duration", 6));
    report("Document the unit of the limit and the reason for its value.", &findings);
}

/// Returns the lines that contain `pattern` and have fewer than `words_min` words of comment before them.
fn without_reason(text: &str, comment: &str, pattern: &str, words_min: usize) -> Vec<String> {
    let mut words = 0;
    let mut findings = Vec::new();
    let mut count = 0;
    for line in text.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix(comment) {
            words += more.split_whitespace().count();
            continue;
        }
        if line.contains(pattern) {
            count += 1;
            findings.extend((words < words_min).then(|| line.to_owned()));
        }
        words = 0;
    }
    assert!(count > 3, "only {count} lines with {pattern}");
    findings
}

/// Panics with the findings and the remedy if there are any.
fn report(remedy: &str, findings: &[String]) {
    assert!(findings.is_empty(), "\n{remedy}\n  {}\n", findings.join("\n  "));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is one directory below the root")
}

fn all_sources() -> Vec<Source> {
    let sources: Vec<_> = CODE_FOLDERS.iter().flat_map(|folder| sources::below(root(), folder)).collect();
    assert!(!sources.is_empty(), "no code below {}", root().display());
    sources
}

/// Returns the manifests of the crates, sorted.
fn crate_manifests() -> Vec<Manifest> {
    let entries = fs::read_dir(root().join("crates")).expect("crates/ exists");
    let mut folders: Vec<_> = entries
        .map(|entry| entry.expect("crates/ is readable").file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort_unstable();
    folders.iter().map(|folder| Manifest::read(root(), &format!("crates/{folder}/Cargo.toml"))).collect()
}

fn is_part_of_crate_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}
