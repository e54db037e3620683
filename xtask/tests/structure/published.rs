//! Crates as the registry publishes them: their requirements, license texts and descriptions.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::{report, root};

/// The crates that other programs should depend on. The other ones are internal.
const PUBLIC: [&str; 2] = ["build", "cannery"];

/// Cargo unifies the features of a program: such a feature of `tracing` or `log` silences the whole program. And an exact version
/// keeps a program from a security release until we publish one, too.
#[test]
fn library_crates_leave_decisions_to_the_program() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest is readable");
    let shared = workspace.split("[workspace.dependencies]").nth(1).expect("it has shared dependencies");
    let shared = shared.split("\n[").next().unwrap_or_default();

    let mut findings = decisions("Cargo.toml", shared);
    for (name, manifest) in manifests() {
        findings.extend(decisions(&format!("crates/{name}/Cargo.toml"), &manifest));
    }
    report(
        "Let the program decide: set the feature in the root package, and leave exact versions to Cargo.lock.",
        &findings,
    );
}

#[test]
fn decisions_of_programs_are_found_in_each_form() {
    let text = r#"
tracing = { version = "0.1", features = ["std", "release_max_level_off"] }
log = { version = "0.4", features = [
    "max_level_warn",
] }
quiet = ["tracing/max_level_off"]
rustls = "=0.23.46"
quinn-proto = { version = "=0.11.19", default-features = false }
ranged = ">=0.11.19, <0.12"
both = ">0.1, =0.1.3"
# exact = "=1"
"#;
    let lines: Vec<_> = decisions("a", text).iter().map(|finding| finding[3..].to_owned()).collect();
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("ranged") || line.contains("exact")), "{lines:?}");
}

/// A program that only embeds a site compiles these crates. Each has its reason in docs/library.md.
#[test]
fn library_without_features_is_small() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--package", "cannery", "--no-default-features", "--edges", "normal"]);
    let output = tree.args(["--prefix", "none", "--format", "{p}"]).current_dir(root()).output();
    let output = output.expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8_lossy(&output.stdout);
    let names: BTreeSet<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    // The lines that end with `(*)` are repetitions.
    let names: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let page = fs::read_to_string(root().join("docs/library.md")).expect("the page is readable");
    let findings: Vec<_> = names
        .iter()
        .filter(|name| !page.contains(&format!("`{name}`")))
        .map(|name| (*name).to_owned())
        .collect();
    report("Name the crate and its reason in docs/library.md, or do without it.", &findings);
    assert!(names.len() <= 14, "{} crates: {names:?}", names.len());
}

#[test]
fn published_crates_have_licenses_a_page_and_a_description() {
    let mut findings = Vec::new();
    for (name, manifest) in manifests() {
        let folder = root().join("crates").join(&name);
        for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let own = fs::read(folder.join(license)).ok();
            if own.is_none() || own != fs::read(root().join(license)).ok() {
                findings.push(format!("{name}: {license} isn't that of the project"));
            }
        }

        for line in
            ["description = \"", "readme = \"README.md\"", "keywords = [", "rust-version.workspace = true"]
        {
            if !manifest.contains(line) {
                findings.push(format!("{name}: no `{line}`"));
            }
        }

        let is_internal = !PUBLIC.contains(&name.as_str());
        let page = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        let code = fs::read_to_string(folder.join("src/lib.rs")).unwrap_or_default();
        let documentation: String = code.lines().take_while(|line| line.starts_with("//!")).collect();

        for (place, text) in [("Cargo.toml", &manifest), ("README.md", &page), ("src/lib.rs", &documentation)]
        {
            if text.to_lowercase().contains("internal to") != is_internal {
                findings.push(format!("{name}: {place} should say \"internal to Cannery\" exactly if it is"));
            }
        }
        if page.is_empty() {
            findings.push(format!("{name}: no README.md"));
        }
    }

    report("Links to the license texts are symbolic links: `ln -s ../../LICENSE-MIT`.", &findings);
}

#[test]
fn pages_name_the_compiler_that_the_manifest_requires() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest is readable");
    let version =
        workspace.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    let sentence = format!("Rust {} or newer", version.expect("the workspace has a version"));
    let pages = ["docs/library.md", "crates/cannery/README.md"];
    let lacks = |page: &&str| !fs::read_to_string(root().join(page)).unwrap_or_default().contains(&sentence);
    let findings: Vec<_> =
        pages.iter().filter(|page| lacks(page)).map(|page| format!("{page}: {sentence}")).collect();
    report("Name the oldest compiler in these pages.", &findings);
}

/// The tests run with the oldest compiler that we promise.
#[test]
fn toolchain_is_the_compiler_that_the_manifest_requires() {
    let text = |name| fs::read_to_string(root().join(name)).expect("the file is readable");
    let value = |name, key: &str| {
        let value =
            text(name).lines().find_map(|line| Some(line.strip_prefix(key)?.trim_matches('"').to_owned()));
        value.unwrap_or_else(|| panic!("{name} has no line {key}"))
    };
    let version = value("Cargo.toml", "rust-version = ");
    let channel = value("rust-toolchain.toml", "channel = ");
    assert!(channel == version || channel.starts_with(&format!("{version}.")), "{channel} isn't {version}");
}

/// Returns the lines of a manifest that decide for the whole program.
fn decisions(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let decides = |line: &&str| line.contains("max_level") || line.contains("\"=") || line.contains(", =");
    lines.filter(decides).map(|line| format!("{path}: {line}")).collect()
}

/// Returns the names of the directories of the crates, and their manifests.
fn manifests() -> Vec<(String, String)> {
    let manifests = crate::crate_manifests();
    assert!(!manifests.is_empty(), "no crates");
    let text = |path| fs::read_to_string(root().join(path)).expect("the manifest is readable");
    manifests.iter().map(|manifest| (manifest.folder_name(), text(&manifest.path))).collect()
}
