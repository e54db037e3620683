//! The source files of the tree, with and without comments and string literals.
//!
//! The lexer knows enough of Rust to separate code from comments and literals.

use std::fs;
use std::path::Path;

/// A file of Rust code.
pub(crate) struct Source {
    /// Path from the root of the workspace.
    pub(crate) path: String,
    /// The complete file.
    pub(crate) text: String,
    /// The file with comments and string literals replaced by spaces. Line breaks are kept.
    pub(crate) code: String,
}

impl Source {
    /// Returns the first line, counted from 1, that contains a word as code.
    pub(crate) fn line_of_word(&self, word: &str) -> Option<usize> {
        let found = self.code.lines().position(|line| has_word(line, word, is_part_of_identifier));
        found.map(|index| index + 1)
    }

    /// Returns `true` for the root file of a library or a program.
    pub(crate) fn is_crate_root(&self) -> bool {
        let in_source_folder =
            |name: &str| self.path == format!("src/{name}") || self.path.ends_with(&format!("/src/{name}"));
        in_source_folder("lib.rs") || in_source_folder("main.rs") || self.path.starts_with("src/bin/")
    }
}

/// Returns all `.rs` files below a directory, sorted, without build directories. Returns none if the directory doesn't exist.
pub(crate) fn below(root: &Path, folder: &str) -> Vec<Source> {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    let mut sources = Vec::new();
    for path in names.iter().map(|name| format!("{folder}/{name}")) {
        // Cargo tags its build directories. A module can have the name `target` too.
        if root.join(&path).join("CACHEDIR.TAG").is_file() {
            continue;
        }
        if root.join(&path).is_dir() {
            sources.extend(below(root, &path));
        } else if path.ends_with(".rs") {
            let text = fs::read_to_string(root.join(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            sources.push(Source { path, code: code_only(&text), text });
        }
    }
    sources
}

/// Returns `true` if the text contains the word, not as a part of a longer word.
pub(crate) fn has_word(text: &str, word: &str, is_part: fn(char) -> bool) -> bool {
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Returns `true` if the letter can be part of an identifier.
pub(crate) fn is_part_of_identifier(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Replaces comments and string literals by spaces. Lines keep their lengths.
fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let blank = literal_length(rest, code.chars().next_back());
        let taken = if blank == 0 { letter.len_utf8() } else { blank };
        let (now, later) = rest.split_at(taken);
        if blank == 0 {
            code.push(letter);
        } else {
            code.extend(now.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
        }
        rest = later;
    }
    code
}

/// Returns the length in bytes of the comment or literal at the start of the text, or 0 if it starts with code.
fn literal_length(text: &str, before: Option<char>) -> usize {
    let upto = |end: Option<usize>| end.unwrap_or(text.len());

    if text.starts_with("//") {
        upto(text.find('\n'))
    } else if text.starts_with("/*") {
        block_comment_length(text)
    } else if let Some(inside) = text.strip_prefix('"') {
        1 + length_to_quote(inside, '"')
    } else if text.starts_with('r')
        && !before.is_some_and(|letter| is_part_of_identifier(letter) && letter != 'b')
    {
        let marks = text[1..].chars().take_while(|letter| *letter == '#').count();
        let end = format!("\"{}", "#".repeat(marks));
        let opening = 1 + marks;
        match text[opening..].strip_prefix('"') {
            Some(inside) => upto(inside.find(&end).map(|place| opening + 1 + place + end.len())),
            None => 0,
        }
    } else if text.starts_with('\'') {
        char_literal_length(text)
    } else {
        0
    }
}

/// Returns the length of the block comment at the start of the text. Block comments nest.
fn block_comment_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut place = 0;
    while place < text.len() {
        let rest = &text[place..];
        if rest.starts_with("/*") {
            depth += 1;
            place += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            place += 2;
            if depth == 0 {
                return place;
            }
        } else {
            place += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the length up to and including the closing quote. A backslash escapes the next letter.
fn length_to_quote(text: &str, quote: char) -> usize {
    let mut letters = text.char_indices();
    while let Some((place, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == quote {
            return place + 1;
        }
    }
    text.len()
}

/// Returns the length of the character literal at the start of the text, or 0 for a lifetime.
fn char_literal_length(text: &str) -> usize {
    let mut letters = text[1..].chars();
    match (letters.next(), letters.next()) {
        (Some('\\'), _) => 1 + length_to_quote(&text[1..], '\''),
        (Some(letter), Some('\'')) => 2 + letter.len_utf8(),
        _ => 0,
    }
}

#[test]
fn comments_and_literals_are_not_code() {
    let text = "a // unsafe\nb /* /* unsafe */ unsafe */ \"unsafe \\\" unsafe\" r#\"unsafe \" unsafe\"# '\"' c<'a> unsafe";
    let code = code_only(text);
    assert_eq!(code.len(), text.len());
    assert_eq!(code.matches("unsafe").count(), 1);
    let words: Vec<_> = code.split_whitespace().collect();
    assert_eq!(words, ["a", "b", "c<'a>", "unsafe"]);
}

#[test]
fn part_of_a_word_does_not_match() {
    assert!(has_word("an unsafe block", "unsafe", is_part_of_identifier));
    assert!(!has_word("deny(unsafe_code)", "unsafe", is_part_of_identifier));
}
