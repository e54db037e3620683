//! Unit tests of the vocabulary check: planted words, exceptions, and text that must not be searched.

use super::*;
use text::Format;

const TERMS: &str = "\
[prose]
whoever -> the client
so many -> the number
[identifiers]
cage, caged -> sandbox
put off -> defer
[openings]
What -> the noun
[exceptions]
docs/rfc.md: whoever: quotes an RFC
[deferred]
crates/old
";

/// Returns what the check reports about one file.
fn reported(path: &str, format: Format, text: &str) -> Vec<String> {
    let list = List::parse(TERMS).unwrap();
    let mut findings = Vec::new();
    search(path, &format.passages(text), &list, &mut findings);
    let mut lines = report(&list, findings);
    lines.retain(|line| !line.starts_with(LIST));
    lines
}

#[test]
fn planted_word_is_found_with_line_and_replacement() {
    let text = "# Title\n\nThe client.\nAnd Whoever connects.\n";
    assert_eq!(reported("docs/a.md", Format::Markdown, text), ["docs/a.md:4: \"whoever\": write the client"]);
}

#[test]
fn terms_of_several_words_cross_lines() {
    let text = "//! Sends so\n//! many bytes.\n";
    assert_eq!(reported("src/a.rs", Format::Rust, text), ["src/a.rs:1: \"so many\": write the number"]);
}

#[test]
fn comments_literals_and_identifiers_of_rust_are_searched() {
    let text = "// whoever\nfn put_off() {\n    print!(\"tell {whoever} to whoever\\n\"); // 'x'\n}\nstruct Caged;\n";
    let lines: Vec<_> = reported("src/a.rs", Format::Rust, text);
    let starts = [
        "src/a.rs:1: \"whoever\"",
        "src/a.rs:2: \"put off\"",
        "src/a.rs:3: \"whoever\"",
        "src/a.rs:5: \"caged\"",
    ];
    assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{lines:?}");
    assert_eq!(lines.len(), starts.len(), "{lines:?}");
}

#[test]
fn code_is_not_prose() {
    for (format, text) in [
        (Format::Markdown, "`whoever`\n```\nwhoever\n```\n"),
        (Format::Rust, "/// `whoever`\n/// ```\n/// whoever\n/// ```\nconst A: &str = \"whoever\";\n"),
        (Format::Html, "<p class=\"whoever\"><code>whoever</code></p>"),
        (Format::Config, "whoever = 1 # `whoever`\n"),
    ] {
        assert_eq!(reported("src/a", format, text), Vec::<String>::new(), "{format:?}");
    }
}

#[test]
fn sentence_may_open_with_what_only_if_it_asks() {
    for text in ["//! What it is for.\n", "//! The title. What follows.\n", "//! - What\n//! - now?\n"] {
        assert_eq!(reported("src/a.rs", Format::Rust, text).len(), 1, "{text:?}");
    }
    for text in ["//! What is it for?\n", "//! That is what it does.\n", "//! Does what?\n"] {
        assert_eq!(reported("src/a.rs", Format::Rust, text), Vec::<String>::new(), "{text:?}");
    }
}

#[test]
fn file_names_are_identifiers() {
    assert_eq!(reported("crates/a/cage.rs", Format::Rust, "").len(), 1);
    assert_eq!(reported("crates/a/cages.rs", Format::Rust, "").len(), 0);
}

#[test]
fn exceptions_and_deferred_paths_cover_findings_and_are_reported_if_unused() {
    let list = List::parse(TERMS).unwrap();
    let finding =
        |path: &str| Finding { path: path.into(), line: 1, term: "whoever".into(), instead: String::new() };
    assert_eq!(
        report(&list, vec![finding("docs/rfc.md"), finding("crates/old/src/a.rs")]),
        Vec::<String>::new()
    );
    assert_eq!(report(&list, vec![finding("crates/older.rs")]).len(), 3);
}

#[test]
fn malformed_list_is_an_error_with_its_line() {
    assert_eq!(List::parse("[prose]\n\nwhoever\n").unwrap_err(), 3);
    assert_eq!(List::parse("[unknown]\nwhoever -> x\n").unwrap_err(), 2);
}
