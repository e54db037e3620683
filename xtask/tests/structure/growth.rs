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

/// A struct without public fields can grow anyway. A variant with named fields needs the attribute, too: that of its enum is for
/// further variants.
#[test]
fn public_types_can_grow() {
    let sources = all_sources();
    let mut findings = Vec::new();
    let mut types = 0;
    for name in exported() {
        match defined(&sources, &name) {
            None => findings.push(format!("{name}: its definition isn't found")),
            Some(Defined { definitions, .. }) => {
                types += definitions.len();
                findings.extend(definitions.into_iter().flat_map(|definition| definition.faults));
            }
        }
    }
    assert!(types > 50, "only {types} types");
    report(&format!("Add `#[non_exhaustive]`, or a line `{REASON}` with the reason:"), &findings);
}

/// Otherwise, programs can't name such a type, for example to store it.
#[test]
fn types_in_public_signatures_are_exported() {
    let sources = all_sources();
    let exported = exported();
    let found: Vec<_> = exported.iter().filter_map(|name| defined(&sources, name)).collect();
    let mut findings = BTreeSet::new();
    for krate in DEFINING {
        for line in api(krate).lines() {
            let types = named_types(line);
            let owner = if line.starts_with("impl") { types.last() } else { types.first() };
            let is_exported = |name: &str| exported.contains(name) || found.iter().any(|it| it.name == name);
            if owner.is_some_and(|owner| found.iter().any(|it| (it.krate, &*it.name) == (krate, owner))) {
                let hidden = types.iter().filter(|name| !is_exported(name));
                findings.extend(hidden.map(|name| format!("{name}: {line}")));
            }
        }
    }
    let findings: Vec<_> = findings.into_iter().collect();
    report("Export the type, or keep it out of public signatures:", &findings);
}

/// Returns the public items of a crate, a line each.
fn api(krate: &str) -> String {
    let path = root().join(format!("crates/{krate}/public-api.txt"));
    fs::read_to_string(path).expect("the text is readable")
}

/// Returns the types of our crates in a line of such a text.
fn named_types(line: &str) -> Vec<&str> {
    let paths = line.split(|next: char| !(next.is_alphanumeric() || "_:".contains(next)));
    let paths = paths.filter(|path| path.starts_with("cannery"));
    paths.filter_map(|path| path.split("::").find(|name| name.starts_with(char::is_uppercase))).collect()
}

/// Returns the names that the libraries export, except for functions and modules.
fn exported() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for library in LIBRARIES {
        for line in api(library).lines() {
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

/// An exported type where it is defined.
struct Defined {
    krate: &'static str,
    name: String,
    definitions: Vec<Definition>,
}

/// Returns the definitions of an exported name.
fn defined(sources: &[Source], name: &str) -> Option<Defined> {
    defined_as(sources, name).or_else(|| defined_as(sources, original_name(sources, name)?))
}

/// Returns the definitions of a name in the first crate that has one.
fn defined_as(sources: &[Source], name: &str) -> Option<Defined> {
    DEFINING.iter().find_map(|krate| {
        let folder = format!("crates/{krate}/src/");
        let of_crate = sources.iter().filter(|source| source.path.starts_with(&folder));
        let definitions: Vec<_> = of_crate.flat_map(|source| definitions(source, name)).collect();
        (!definitions.is_empty()).then(|| Defined { krate, name: name.to_owned(), definitions })
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
    /// The lines that can't grow.
    faults: Vec<String>,
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

        let is_inside = |line: &&str| line.starts_with([' ', ')']) || line.is_empty();
        let end = index + 1 + lines[index + 1..].iter().take_while(|line| is_inside(line)).count();
        let fields = &lines[index + 1..end];
        let has_public_fields = kind == "struct"
            && (line.contains("(pub ")
                || line.ends_with('{') && fields.iter().any(|line| line.starts_with("    pub ")));

        // Attributes and comments above it. Some have several lines.
        let above = lines[..index].iter().rev().take_while(|line| !line.is_empty() && **line != "}");
        let above: Vec<_> = above.collect();
        let has_reason = above.iter().any(|line| line.starts_with(REASON));
        let can_grow = above.iter().any(|line| line.contains("non_exhaustive"));
        let mut fixed = Vec::new();
        if (kind == "enum" || has_public_fields) && !can_grow && !has_reason {
            fixed.push(index);
        }
        if kind == "enum" && !has_reason {
            fixed.extend((index + 1..end).filter(|&variant| {
                let above = lines[index + 1..variant].iter().rev().take_while(|line| !ends_variant(line));
                is_variant(lines[variant])
                    && lines[variant].ends_with('{')
                    && !{ above }.any(|line| line.contains("non_exhaustive"))
            }));
        }
        let fault = |index: usize| format!("{}:{}: {}", source.path, index + 1, lines[index]);
        found.push(Definition { faults: fixed.into_iter().map(fault).collect() });
    }
    found
}

/// Returns `true` for the first line of a variant.
fn is_variant(line: &str) -> bool {
    line.strip_prefix("    ").is_some_and(|rest| rest.starts_with(char::is_uppercase))
}

/// Returns `true` for the last line of a variant.
fn ends_variant(line: &str) -> bool {
    line == "    }," || is_variant(line)
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

#[non_exhaustive]
pub enum M {
    /// Docs.
    #[non_exhaustive]
    N {
        o: u8,
    },
    #[error(
        \"text\"
    )]
    P {
        q: u8,
    },
    R(S),
}
";
    let source = Source { path: "a.rs".into(), text: text.into(), code: String::new() };
    for (name, is_fixed) in
        [("A", true), ("C", false), ("E", false), ("G", false), ("I", true), ("L", true), ("Longer", true)]
    {
        let found = definitions(&source, name);
        assert_eq!(found.iter().map(|it| !it.faults.is_empty()).collect::<Vec<_>>(), [is_fixed], "{name}");
    }
    let found = definitions(&source, "M");
    assert_eq!(found[0].faults, ["a.rs:41:     P {"]);
}

#[test]
fn types_of_a_signature_are_found() {
    let line =
        "pub fn cannery_a::B::c<D>(&self, impl core::convert::Into<cannery_e::f::G>) -> cannery_a::H::I";
    assert_eq!(named_types(line), ["B", "G", "H"]);
    assert_eq!(named_types("pub cannery_a::B::C::d: cannery_e::F"), ["B", "F"]);
}
