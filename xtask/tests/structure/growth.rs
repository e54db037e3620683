//! Public types that can grow: a new variant or field must not break other programs.

use std::collections::BTreeSet;
use std::fs;

use crate::sources::Source;
use crate::{all_sources, report, root};

/// The crates that other programs name. Their `public-api.txt` lists what they export.
const LIBRARIES: [&str; 2] = ["build", "cannery"];

/// The crates that define the exported types, in search order.
const DEFINING: [&str; 8] =
    ["build", "cannery", "routes", "server", "archive", "site", "transport", "eventloop"];

/// Reasons follow this in a comment above the type, for example because programs should handle every variant.
const REASON: &str = "// Exhaustive: ";

/// A struct without public fields can grow anyway.
#[test]
fn public_types_can_grow() {
    let sources = all_sources();
    let mut findings = Vec::new();
    let mut types = 0;
    for name in exported() {
        let found = defined(&sources, &name).or_else(|| defined(&sources, original_name(&sources, &name)?));
        match found {
            None => findings.push(format!("{name}: its definition isn't found")),
            Some(found) => {
                types += found.len();
                findings.extend(found.into_iter().filter_map(|definition| definition.fault));
            }
        }
    }
    assert!(types > 50, "only {types} types");
    report(&format!("Add `#[non_exhaustive]`, or a line `{REASON}` with the reason:"), &findings);
}

/// Returns the names that the libraries export, except for functions and modules.
fn exported() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for library in LIBRARIES {
        let api = root().join(format!("crates/{library}/public-api.txt"));
        let api = fs::read_to_string(api).expect("the text is readable");
        for line in api.lines() {
            let line = line.trim_start_matches("#[non_exhaustive] ");
            let mut words = line.strip_prefix("pub ").unwrap_or_default().split(' ');
            if let (Some("use" | "struct" | "enum"), Some(path)) = (words.next(), words.next()) {
                let path = path.split(['<', '(']).next().unwrap_or_default();
                names.extend(path.rsplit("::").next().map(str::to_owned));
            }
        }
    }
    names
}

/// Returns the definitions of a name in the first crate that has one.
fn defined(sources: &[Source], name: &str) -> Option<Vec<Definition>> {
    DEFINING.iter().find_map(|krate| {
        let folder = format!("crates/{krate}/src/");
        let of_crate = sources.iter().filter(|source| source.path.starts_with(&folder));
        let found: Vec<_> = of_crate.flat_map(|source| definitions(source, name)).collect();
        (!found.is_empty()).then_some(found)
    })
}

/// Returns the name of a type that a `pub use` renames.
fn original_name<'s>(sources: &'s [Source], name: &str) -> Option<&'s str> {
    let renamed = format!(" as {name}");
    let lines = sources.iter().flat_map(|source| source.code.lines());
    let before =
        lines.filter(|line| line.starts_with("pub use ")).find_map(|line| Some(line.split_once(&renamed)?.0));
    before?.rsplit([' ', ':', '{']).next()
}

struct Definition {
    /// Why it can't grow.
    fault: Option<String>,
}

/// Returns the public definitions of this name at the outermost level of a file.
fn definitions(source: &Source, name: &str) -> Vec<Definition> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some((kind, rest)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let is_named = |rest: &str| rest.strip_prefix(name).is_some_and(|rest| !continues_name(rest));
        if !matches!(kind, "enum" | "struct" | "trait" | "type") || !is_named(rest) {
            continue;
        }

        let fields =
            lines[index + 1..].iter().take_while(|line| line.starts_with([' ', ')']) || line.is_empty());
        let has_public_fields = kind == "struct"
            && (line.contains("(pub ")
                || line.ends_with('{') && { fields }.any(|line| line.starts_with("    pub ")));
        // Attributes and comments above it. Some have several lines.
        let above = lines[..index].iter().rev().take_while(|line| !line.is_empty() && **line != "}");
        let can_grow = { above }.any(|line| line.contains("non_exhaustive") || line.starts_with(REASON));
        let is_fixed = (kind == "enum" || has_public_fields) && !can_grow;
        found.push(Definition { fault: is_fixed.then(|| format!("{}:{}: {line}", source.path, index + 1)) });
    }
    found
}

fn continues_name(rest: &str) -> bool {
    rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
}

#[test]
fn types_that_cannot_grow_are_found() {
    let text = "
#[derive(Debug)]
pub enum A {
    B,
}

/// Docs.
#[non_exhaustive]
pub enum C {
    D,
}

// Exhaustive: a reason.
pub struct E {
    pub f: u8,
}

pub struct G {
    h: u8,
}

pub struct I<T> {
    j: u8,

    /// Docs.
    pub k: T,
}
pub struct L(pub u8);
pub struct Longer(pub u8);
";
    let source = Source { path: "a.rs".into(), text: text.into(), code: String::new() };
    for (name, is_fixed) in
        [("A", true), ("C", false), ("E", false), ("G", false), ("I", true), ("L", true), ("Longer", true)]
    {
        let found = definitions(&source, name);
        assert_eq!(found.iter().map(|it| it.fault.is_some()).collect::<Vec<_>>(), [is_fixed], "{name}");
    }
}
