//! Compares the hash tables to a model (an ordered map). The reader must find exactly the records that we wrote.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::collections::BTreeMap;

use cannery_archive::{Archive, Format, NewRecord, NewScope, Piece, Record};
use proptest::prelude::*;

/// A host and the name of a source file or directory. `None` is the default site.
type Name = (Option<String>, String);

/// Paths and scopes. Each is identified by a number.
#[derive(Debug, Clone, Default)]
struct Model {
    paths: BTreeMap<Name, u16>,
    scopes: BTreeMap<Name, u16>,
}

fn host() -> impl Strategy<Value = Option<String>> {
    prop_oneof![Just(None), "(\\*\\.)?[ab]{1,2}(\\.[ab])?".prop_map(Some)]
}

/// We only allow a few names, to get common prefixes, near misses, and the same name on several hosts.
fn folder() -> impl Strategy<Value = String> {
    proptest::collection::vec("[ab]{1,2}/", 0..4).prop_map(|segments| segments.concat())
}

fn file() -> impl Strategy<Value = String> {
    (folder(), prop_oneof!["", "[ab]{1,3}", "[ -.0-~]{1,9}[a-z]", "\\PC{1,3}x"]).prop_map(|(folder, name)| {
        // File names cannot contain these.
        folder + &name.replace(['/', '\0'], "")
    })
}

fn model() -> impl Strategy<Value = Model> {
    let paths = proptest::collection::btree_map((host(), file()), any::<u16>(), 0..40);
    let scopes = proptest::collection::btree_map((host(), folder()), any::<u16>(), 0..12);
    (paths, scopes).prop_map(|(paths, scopes)| Model { paths, scopes })
}

/// Returns a record that contains `number`.
fn numbered(number: u16) -> NewRecord<'static> {
    NewRecord::Rewrite { status: number, path: vec![Piece::Literal(b"/")] }
}

fn number_of(record: Record<'_>) -> u16 {
    let Record::Rewrite(rewrite) = record else { panic!("a rewrite was written") };
    rewrite.status
}

fn archive(model: &Model, format: Format) -> Archive {
    let mut writer = support::writer(format);
    for ((host, name), number) in &model.paths {
        support::with_key(name, |key| writer.path(host.as_deref(), key, &numbered(*number))).unwrap();
    }
    for ((host, name), number) in &model.scopes {
        let scope = NewScope { error_pages: vec![(*number, numbered(*number))], ..NewScope::default() };
        support::with_key(name, |key| writer.scope(host.as_deref(), key, &scope)).unwrap();
    }
    writer.manifest(b"{}").unwrap();
    Archive::from_bytes(support::finish(writer)).unwrap()
}

/// Finds all scopes that contain `name` by trying each prefix. Also returns the number of bytes that each scope covers.
fn scopes_of(model: &Model, host: Option<&String>, name: &str) -> Vec<(usize, u16)> {
    let ends = (0..=name.len()).filter(|end| *end == 0 || name.as_bytes()[end - 1] == b'/');
    let find = |end: usize| model.scopes.get(&(host.cloned(), name[..end].to_owned()));
    // The path has a `/` before the name.
    ends.filter_map(|end| find(end).map(|number| (end + 1, *number))).collect()
}

proptest! {
    #[test]
    fn archive_finds_the_records_of_the_model(
        model in model(),
        wide in any::<bool>(),
        others in proptest::collection::vec((host(), file()), 0..20),
    ) {
        let archive = archive(&model, if wide { Format::Cdb64 } else { Format::Cdb });
        let seen = archive.verify(|_| {}).unwrap();
        prop_assert_eq!(seen.paths, model.paths.len() as u64);

        for key in model.paths.keys().chain(model.scopes.keys()).chain(&others) {
            let (host, name) = key;
            // Lookups ignore the case of hosts. For a wildcard, we need to use its name with a dot at the start.
            let lookup = host.as_ref().map(|host| host.trim_start_matches('*').to_ascii_uppercase().into_bytes());
            let lookup = lookup.as_deref();
            let path = support::with_key(name, |key| archive.path(lookup, key).unwrap().map(number_of));
            prop_assert_eq!(path, model.paths.get(key).copied());

            let directory = support::with_key(name, |key| archive.directory(lookup, key).unwrap().map(number_of));
            let slashed = (host.clone(), format!("{name}/"));
            let expected = if name.is_empty() { None } else { model.paths.get(&slashed).copied() };
            prop_assert_eq!(directory, expected);

            let scopes: Vec<(usize, u16)> = support::with_key(name, |key| {
                archive.scopes(lookup, key).map(|scope| {
                    let (covered, scope) = scope.unwrap();
                    let cannery_archive::ScopeEntry::ErrorPage { status, .. } =
                        scope.entries().next().unwrap().unwrap() else { panic!("an error page was written") };
                    (covered, status)
                }).collect()
            });
            prop_assert_eq!(scopes, scopes_of(&model, host.as_ref(), name));
        }
    }
}
