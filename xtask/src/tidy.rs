//! Checks of texts: documents name every crate, links lead to a page, and words follow the style guide.
//!
//! `xtask/tests/structure/main.rs` checks the code itself: imports, `unsafe`, and the opening of each file.

use std::fs;

use crate::error::Error;
use crate::links;
use crate::project;
use crate::wording;

/// Runs all checks.
///
/// # Errors
///
/// Returns an error that lists all findings.
pub(crate) fn check() -> Result<(), Error> {
    let mut findings = Vec::new();
    let architecture = read("ARCHITECTURE.md", &mut findings);
    let changelog = read("CHANGELOG.md", &mut findings);
    read("README.md", &mut findings);
    for name in crate_names()? {
        findings.extend(unnamed_crate(&architecture, &name));
    }
    findings.extend(closed_changelog(&changelog));
    findings.extend(links::check()?);
    findings.extend(wording::check()?);
    if findings.is_empty() { Ok(()) } else { Err(Error::Untidy { findings }) }
}

/// Reads a file in the root. A missing file is a finding, and its text is empty.
fn read(name: &str, findings: &mut Vec<String>) -> String {
    fs::read_to_string(project::root().join(name)).unwrap_or_else(|error| {
        findings.push(format!("{name}: {error}"));
        String::new()
    })
}

/// Returns the names of the directories below `crates/`, sorted.
fn crate_names() -> Result<Vec<String>, Error> {
    let crates = project::root().join("crates");
    let entries = fs::read_dir(&crates).map_err(|source| Error::file(&crates, source))?;
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns a finding if ARCHITECTURE.md doesn't name a crate.
fn unnamed_crate(architecture: &str, name: &str) -> Option<String> {
    let path = format!("crates/{name}");
    (!architecture.contains(&path)).then(|| {
        format!("ARCHITECTURE.md: the code map does not name `{path}`; add its line, with its reason")
    })
}

/// Returns a finding if the first section of the changelog isn't the one for unreleased changes.
fn closed_changelog(changelog: &str) -> Option<String> {
    let first = changelog.lines().find(|line| line.starts_with("## ")).unwrap_or("no section at all");
    (!first.to_lowercase().contains("unreleased"))
        .then(|| format!("CHANGELOG.md: the first section must be `## Unreleased`, it is: {first}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_without_entry_is_found() {
        assert_eq!(unnamed_crate("`crates/site` answers", "site"), None);
        assert!(unnamed_crate("`crates/site` answers", "wire").is_some());
    }

    #[test]
    fn changelog_without_unreleased_section_is_found() {
        assert_eq!(closed_changelog("# Changelog\n\n## [Unreleased]\n## 1.0.0\n"), None);
        assert!(closed_changelog("# Changelog\n\n## 1.0.0\n## Unreleased\n").is_some());
        assert!(closed_changelog("").is_some());
    }
}
