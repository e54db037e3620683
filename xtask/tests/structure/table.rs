//! The tests that a documentation page names as `path/to/file.rs::name` in backquotes.

use crate::sources::Source;

/// A test that a page names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named<'p> {
    /// The line of the page, counted from 1.
    pub(crate) line: usize,
    pub(crate) path: &'p str,
    pub(crate) name: &'p str,
}

/// Returns all tests that a page names.
pub(crate) fn named(page: &str) -> Vec<Named<'_>> {
    (1..).zip(page.lines()).flat_map(|(line, text)| named_in(line, text)).collect()
}

fn named_in(line: usize, text: &str) -> impl Iterator<Item = Named<'_>> {
    // Every second piece is between backquotes.
    text.split('`').skip(1).step_by(2).filter_map(move |quoted| {
        let (path, name) = quoted.split_once("::").filter(|(path, _)| path.ends_with(".rs"))?;
        Some(Named { line, path, name })
    })
}

/// Returns the lines of table rows and list items below these headings that name no test.
pub(crate) fn without_test(page: &str, headings: &[&str]) -> Vec<usize> {
    let named: Vec<usize> = named(page).iter().map(|named| named.line).collect();
    let mut found = Vec::new();
    let mut inside = false;
    let mut begins = None;
    let mut close = |begins: Option<usize>, end: usize| {
        if let Some(begin) = begins.filter(|begin| !named.iter().any(|line| (*begin..end).contains(line))) {
            found.push(begin);
        }
    };

    for (number, line) in (1..).zip(page.lines()) {
        let is_row = line.starts_with("| ") && !line.ends_with("| test |");
        if line.starts_with("## ") || is_row || line.starts_with("- ") || line.is_empty() {
            close(begins.take(), number);
        }
        if let Some(heading) = line.strip_prefix("## ") {
            inside = headings.contains(&heading);
        }
        if inside && (is_row || line.starts_with("- ")) {
            begins = Some(number);
        }
    }

    close(begins, usize::MAX);
    found
}

/// Returns `true` if the file contains a test of this name, or a fuzz target, which a test runs over its corpus.
pub(crate) fn contains(source: &Source, name: &str) -> bool {
    let lines: Vec<&str> = source.code.lines().map(str::trim).collect();
    let is_function = |line: &&str| {
        let rest = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("fn ");
        rest.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('('))
    };
    let Some(place) = lines.iter().position(is_function) else { return false };
    let attributes = lines[..place].iter().rev().take_while(|line| line.starts_with("#["));
    source.path.starts_with("fuzz/src/") || attributes.into_iter().any(|line| line.starts_with("#[test]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_between_backquotes() {
        let page = "# a\n| b | `c` and `d/e.rs::f` `g.rs::h` |\nd/e.rs::i\n";
        let expected =
            [Named { line: 2, path: "d/e.rs", name: "f" }, Named { line: 2, path: "g.rs", name: "h" }];
        assert_eq!(named(page), expected);
    }

    #[test]
    fn rows_and_items_without_a_test_are_found() {
        let page = "## A\n\n| x | test |\n|---|---|\n| 1 | `a.rs::b` |\n| 2 | nothing |\n\n\
            - point\n  `a.rs::c`\n- other\n\n## B\n\n- ignored\n";
        assert_eq!(without_test(page, &["A"]), [6, 10]);
    }

    #[test]
    fn a_function_is_a_test_by_its_attribute() {
        let source = |code: &str| Source { path: "a.rs".into(), text: String::new(), code: code.into() };
        assert!(contains(&source("#[test]\nfn a() {"), "a"));
        assert!(contains(&source("  #[test]\n  #[cfg(unix)]\n  fn a(b: u8) {"), "a"));
        assert!(!contains(&source("fn a() {"), "a") && !contains(&source("#[test]\nfn ab() {"), "a"));
    }
}
