//! Commands and configurations of documents: read from the page, and run as written.

mod containers;
mod deployment;
mod migrations;
mod passwords;

use std::fs;
use std::path::Path;

/// Returns the text of a file of the project.
fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the only block of code of a page that contains these words.
fn block(page: &str, words: &str) -> String {
    let mut found: Vec<_> = blocks(page).into_iter().filter(|block| block.contains(words)).collect();
    assert_eq!(found.len(), 1, "blocks of {page} with {words:?}: {found:#?}");
    found.remove(0)
}

/// Returns the blocks of code of a page, without their indentation.
fn blocks(page: &str) -> Vec<String> {
    let text = file(page);
    let mut lines = text.lines();
    let mut found = Vec::new();
    while let Some(opening) = lines.next() {
        let indentation = opening.len() - opening.trim_start().len();
        if !opening.trim_start().starts_with("```") {
            continue;
        }
        let content = lines.by_ref().take_while(|line| line.trim() != "```");
        found.push(content.map(|line| format!("{}\n", line.get(indentation..).unwrap_or(""))).collect());
    }
    found
}
