//! Rust code on pages: cargo compiles the same lines in a test or an example.

use std::fs;

use crate::{report, root};

/// The pages for programmers.
const PAGES: [&str; 4] =
    ["docs/routes.md", "docs/library.md", "crates/cannery/README.md", "crates/build/README.md"];

/// The files that contain their code.
const SOURCES: [&str; 4] = [
    "crates/cannery/examples/notes.rs",
    "crates/cannery/tests/server/page.rs",
    "crates/cannery/tests/frameworks/page.rs",
    "examples/embed/tests/serve/page.rs",
];

#[test]
fn code_on_pages_is_compiled() {
    let text = |path: &str| fs::read_to_string(root().join(path)).expect("the file is readable");
    let sources: Vec<String> = SOURCES.iter().map(|path| text(path)).collect();
    let sources: Vec<Vec<&str>> =
        sources.iter().map(|source| source.lines().map(str::trim).collect()).collect();

    let mut findings = Vec::new();
    for page in PAGES {
        let page_text = text(page);
        for (line, code) in rust_code(&page_text) {
            if !sources.iter().any(|source| contains(source, &code)) {
                findings.push(format!("{page}:{line}"));
            }
        }
    }
    report(
        &format!(
            "Compile the code by copying it into one of these files, where indentation is free: {SOURCES:?}"
        ),
        &findings,
    );
}

/// Returns the blocks of Rust code on a page: the number of the line before each, and its lines without indentation.
fn rust_code(page: &str) -> Vec<(usize, Vec<&str>)> {
    let mut blocks: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut is_inside = false;
    for (number, line) in (1..).zip(page.lines().map(str::trim)) {
        match line {
            "```" if is_inside => is_inside = false,
            _ if is_inside => blocks.last_mut().expect("a block has begun").1.push(line),
            // Also with attributes such as `ignore`.
            _ if line.starts_with("```rust") => {
                is_inside = true;
                blocks.push((number, Vec::new()));
            }
            _ => {}
        }
    }
    blocks
}

fn contains(source: &[&str], code: &[&str]) -> bool {
    source.windows(code.len().max(1)).any(|lines| lines == code)
}

#[test]
fn changed_code_is_found() {
    let page = "a\n```rust\nlet b = 1;\n\nc(b);\n```\n```\nd\n```\n  ```rust,ignore\n  e();\n  ```\n";
    let blocks = rust_code(page);
    assert_eq!(blocks, [(2, vec!["let b = 1;", "", "c(b);"]), (10, vec!["e();"])]);
    assert!(contains(&["fn f() {", "let b = 1;", "", "c(b);", "}"], &blocks[0].1));
    assert!(!contains(&["let b = 1;", "c(b);"], &blocks[0].1));
}
