//! Links of documents: every relative link leads to a file, its fragment to a heading, and every path in backticks exists.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::Error;
use crate::project;

/// The directories with the checked Markdown files, without those below.
const DIRECTORIES: [&str; 6] = [".", "docs", "docs/design", "crates/archive", "bench", "bench/results"];

/// The directories of code. A document's path to one of their files, in backticks, is checked.
const CODE_DIRECTORIES: [&str; 7] = ["bench/", "contrib/", "crates/", "fuzz/", "src/", "tests/", "xtask/"];

/// Checks all documents. Returns a finding for each broken link and missing path.
pub(crate) fn check() -> Result<Vec<String>, Error> {
    let mut documents = BTreeMap::new();
    for directory in DIRECTORIES {
        let path = project::root().join(directory);
        let entries = fs::read_dir(&path).map_err(|source| Error::file(&path, source))?;
        let is_document = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
        for path in entries.flatten().map(|entry| entry.path()).filter(is_document) {
            let text = fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
            documents.insert(normalized(&path), text);
        }
    }

    let exists = |path: &Path| path.exists();
    let mut findings = Vec::new();
    for (path, text) in &documents {
        findings.extend(broken_links(path, &documents, exists));
        findings.extend(missing_paths(path, text, exists));
    }
    Ok(findings)
}

/// Returns a finding for each path in backticks that doesn't exist: `crates/site` or `tests/it/get.rs`.
fn missing_paths(path: &Path, text: &str, exists: fn(&Path) -> bool) -> Vec<String> {
    let name = path.strip_prefix(project::root()).unwrap_or(path).display();
    let is_path = |code: &&str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
        CODE_DIRECTORIES.iter().any(|directory| code.starts_with(directory)) && code.chars().all(is_plain)
    };
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        for code in text.split('`').skip(1).step_by(2).filter(is_path) {
            let directory = path.parent().unwrap_or(Path::new(""));
            if !exists(&project::root().join(code)) && !exists(&directory.join(code)) {
                findings.push(format!("{name}:{line}: there is no `{code}`"));
            }
        }
    }
    findings
}

/// Returns a finding for each broken link of a document.
fn broken_links(
    path: &Path,
    documents: &BTreeMap<PathBuf, String>,
    exists: fn(&Path) -> bool,
) -> Vec<String> {
    let name = path.strip_prefix(project::root()).unwrap_or(path).display();
    let mut findings = Vec::new();
    for (line, text) in prose_lines(&documents[path]) {
        for link in targets(&text).filter(|link| !link.contains("://")) {
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let directory = path.parent().unwrap_or(Path::new(""));
            let target = if file.is_empty() { path.to_owned() } else { normalized(&directory.join(file)) };
            if !exists(&target) && !documents.contains_key(&target) {
                findings.push(format!("{name}:{line}: `{link}` leads to no file"));
            } else if let Some(document) = documents.get(&target)
                && !fragment.is_empty()
                && !has_anchor(document, fragment)
            {
                findings.push(format!("{name}:{line}: `{link}` leads to no heading"));
            }
        }
    }
    findings
}

/// Returns the numbered lines outside fenced blocks, without code in backticks.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_fenced = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
            return None;
        }
        (!is_fenced).then(|| (number, line.split('`').step_by(2).collect()))
    })
}

/// Returns the targets of the links on a line: `](TARGET)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Returns `true` if a document has a heading or an explicit anchor for a fragment.
fn has_anchor(document: &str, fragment: &str) -> bool {
    let is_explicit = document.contains(&format!("<a id=\"{fragment}\">"));
    is_explicit || document.lines().any(|line| line.starts_with('#') && anchor(line) == fragment)
}

/// Returns the anchor of a heading as GitHub makes it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    text.chars().filter(is_kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Resolves `.` and `..` without reading the file system.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(normalized.pop()),
            component => normalized.push(component),
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        let a = "# A\n[to b](b.md#the-b-of-c) [self](#a)\n```\n[code](none.md)\n```\n`[code](none.md)`\n";
        let documents = BTreeMap::from([
            (
                PathBuf::from("docs/a.md"),
                format!("{a}[x](none.md) [y](b.md#none) [z](https://example.com/)\n"),
            ),
            (PathBuf::from("docs/b.md"), "## The `b` of C\n[up](../docs/a.md)\n".into()),
        ]);
        let broken = |path: &str| broken_links(Path::new(path), &documents, |_| false);
        assert_eq!(broken("docs/b.md"), Vec::<String>::new());
        assert_eq!(
            broken("docs/a.md"),
            ["docs/a.md:7: `none.md` leads to no file", "docs/a.md:7: `b.md#none` leads to no heading"]
        );
    }

    #[test]
    fn missing_paths_are_found() {
        let text = "`crates/none.rs` and `cargo test`\n`src/flags`, `crates/{a,b}`\n";
        let missing = missing_paths(Path::new("a.md"), text, |path| path.ends_with("src/flags"));
        assert_eq!(missing, ["a.md:1: there is no `crates/none.rs`"]);
    }
}
