//! Vocabulary of the project: finds words that `docs/style.md` replaces by standard terms.
//!
//! `xtask/vocabulary.txt` has the words, a replacement for each, and the exceptions with their reasons. Words are searched in
//! comments, documents, messages and identifiers; code in backticks is never searched.

mod list;
mod text;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::project;
use list::List;
use text::{Kind, Passage};

/// The directories and files that are searched, as paths from the root.
const SEARCHED: [&str; 17] = [
    "crates",
    "src",
    "tests",
    "xtask",
    "bench",
    "fuzz",
    "docs",
    "examples",
    "contrib",
    ".ci",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.toml",
    "clippy.toml",
    "deny.toml",
];

/// The path of the list from the root.
const LIST: &str = "xtask/vocabulary.txt";

/// A place where a listed term is used.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    term: String,
    instead: String,
}

/// Searches the project. Returns one line for each finding that no exception covers.
pub(crate) fn check() -> Result<Vec<String>, Error> {
    let path = project::root().join(LIST);
    let text = fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
    let list = List::parse(&text).map_err(|line| Error::Unexpected {
        what: format!("{LIST}:{line}"),
        expected: "a section, `TERM -> INSTEAD`, `PATH: TERM: REASON` or a path".into(),
        got: "something else".into(),
    })?;

    let mut findings = Vec::new();
    for path in SEARCHED {
        search_below(path, &list, &mut findings)?;
    }
    Ok(report(&list, findings))
}

/// Searches a file, or all files in a directory, in order.
fn search_below(path: &str, list: &List, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let place = project::root().join(path);
    if place.is_dir() {
        let entries = fs::read_dir(&place).map_err(|source| Error::file(&place, source))?;
        let mut names: Vec<_> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        for name in names.iter().filter(|name| !list.is_skipped(&format!("{path}/{name}"))) {
            search_below(&format!("{path}/{name}"), list, findings)?;
        }
    } else if let Some(format) = text::Format::of(Path::new(path)) {
        let text = fs::read_to_string(&place).map_err(|source| Error::file(&place, source))?;
        search(path, &format.passages(&text), list, findings);
    }
    Ok(())
}

/// Searches the passages of one file, and its path.
fn search(path: &str, passages: &[Passage], list: &List, findings: &mut Vec<Finding>) {
    let mut add = |line: usize, (term, instead): (&str, &str)| {
        findings.push(Finding { path: path.into(), line, term: term.into(), instead: instead.into() });
    };

    let file_name =
        text::identifier_words(Path::new(path).file_stem().unwrap_or_default().to_str().unwrap_or_default());
    list.find_in_identifier(&file_name, &mut |found| add(1, found));

    for passage in passages {
        match passage.kind {
            Kind::Prose => {
                list.find_in_prose(&passage.text, &mut |offset, found| add(passage.line_at(offset), found));
            }
            Kind::Identifier => {
                let words = text::identifier_words(&passage.text);
                list.find_in_identifier(&words, &mut |found| add(passage.line, found));
            }
        }
    }
}

/// Returns the findings as text. Unused exceptions are findings too, so that the list shrinks.
fn report(list: &List, findings: Vec<Finding>) -> Vec<String> {
    let mut used = BTreeSet::new();
    let mut deferred = BTreeSet::new();
    let mut lines = Vec::new();
    for finding in findings {
        if let Some(exception) = list.exception_for(&finding.path, &finding.term) {
            used.insert(exception);
        } else if let Some(path) = list.deferral_for(&finding.path) {
            deferred.insert(path);
        } else {
            let Finding { path, line, term, instead } = finding;
            lines.push(format!("{path}:{line}: \"{term}\": write {instead}"));
        }
    }

    lines.extend(
        list.unused_exceptions(&used)
            .map(|line| format!("{LIST}:{line}: the exception is unused; remove it")),
    );
    lines.extend(
        list.unused_deferrals(&deferred).map(|line| format!("{LIST}:{line}: the path is clean; remove it")),
    );
    lines
}

#[cfg(test)]
mod tests;
