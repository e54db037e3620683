//! Checks about the texts around the code: that they name what there is.
//!
//! It has no opinion on taste: no sizes, no wording. What is said about the code itself (walls, `unsafe`,
//! the opening of each file) is held by `tests/structure.rs`, which runs wherever `cargo test` runs.

use std::fs;

use crate::error::Error;
use crate::project;

/// All checks; the error lists everything that was found.
pub(crate) fn check() -> Result<(), Error> {
    let mut findings = Vec::new();
    let architecture = read("ARCHITECTURE.md", &mut findings);
    let changelog = read("CHANGELOG.md", &mut findings);
    read("README.md", &mut findings);
    for folder in crate_folders()? {
        findings.extend(unnamed_crate(&architecture, &folder));
    }
    findings.extend(closed_changelog(&changelog));
    if findings.is_empty() { Ok(()) } else { Err(Error::Untidy { findings }) }
}

/// A text of the root; one that is not there is a finding, and empty.
fn read(name: &str, findings: &mut Vec<String>) -> String {
    fs::read_to_string(project::root().join(name)).unwrap_or_else(|error| {
        findings.push(format!("{name}: {error}"));
        String::new()
    })
}

/// The folders below `crates/`, in order.
fn crate_folders() -> Result<Vec<String>, Error> {
    let crates = project::root().join("crates");
    let entries = fs::read_dir(&crates).map_err(|source| Error::file(&crates, source))?;
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    Ok(names)
}

fn unnamed_crate(architecture: &str, folder: &str) -> Option<String> {
    let path = format!("crates/{folder}");
    (!architecture.contains(&path)).then(|| {
        format!("ARCHITECTURE.md: the code map does not name `{path}`; add its line, with its reason")
    })
}

/// The topmost section collects what is not released yet, whether or not anything is in it.
fn closed_changelog(changelog: &str) -> Option<String> {
    let first = changelog.lines().find(|line| line.starts_with("## ")).unwrap_or("no section at all");
    (!first.to_lowercase().contains("unreleased"))
        .then(|| format!("CHANGELOG.md: the first section must be `## Unreleased`, it is: {first}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_the_code_map_leaves_out_is_found() {
        assert_eq!(unnamed_crate("`crates/site` answers", "site"), None);
        assert!(unnamed_crate("`crates/site` answers", "wire").is_some());
    }

    #[test]
    fn a_changelog_whose_first_section_is_released_is_found() {
        assert_eq!(closed_changelog("# Changelog\n\n## [Unreleased]\n## 1.0.0\n"), None);
        assert!(closed_changelog("# Changelog\n\n## 1.0.0\n## Unreleased\n").is_some());
        assert!(closed_changelog("").is_some());
    }
}
