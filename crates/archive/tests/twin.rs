//! The hash tables against their slow twin, an ordered map: what was put in is found, nothing else is.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::collections::BTreeMap;

use cannery_archive::{Archive, Format, NewRecord, NewScope, Piece, Record};
use proptest::prelude::*;

/// A host if it is on one, and the name of a source file or folder.
type Place = (Option<String>, String);

/// What the twin holds: paths and scopes, each with a number that tells it from the others.
#[derive(Debug, Clone, Default)]
struct Twin {
    paths: BTreeMap<Place, u16>,
    scopes: BTreeMap<Place, u16>,
}

fn host() -> impl Strategy<Value = Option<String>> {
    prop_oneof![Just(None), "(\\*\\.)?[ab]{1,2}(\\.[ab])?".prop_map(Some)]
}

/// Few names, so that prefixes of each other, the same ones on several hosts, and near misses are common.
fn folder() -> impl Strategy<Value = String> {
    proptest::collection::vec("[ab]{1,2}/", 0..4).prop_map(|segments| segments.concat())
}

fn file() -> impl Strategy<Value = String> {
    (folder(), prop_oneof!["", "[ab]{1,3}", "[ -.0-~]{1,9}[a-z]", "\\PC{1,3}x"]).prop_map(|(folder, name)| {
        // No name in a file system holds these.
        folder + &name.replace(['/', '\0'], "")
    })
}

fn twin() -> impl Strategy<Value = Twin> {
    let paths = proptest::collection::btree_map((host(), file()), any::<u16>(), 0..40);
    let scopes = proptest::collection::btree_map((host(), folder()), any::<u16>(), 0..12);
    (paths, scopes).prop_map(|(paths, scopes)| Twin { paths, scopes })
}

/// A record that only its number tells from others.
fn numbered(number: u16) -> NewRecord<'static> {
    NewRecord::Rewrite { status: number, path: vec![Piece::Literal(b"/")] }
}

fn number_of(record: Record<'_>) -> u16 {
    let Record::Rewrite(rewrite) = record else { panic!("a rewrite was written") };
    rewrite.status
}

fn written(twin: &Twin, format: Format) -> Archive {
    let mut writer = support::writer(format);
    for ((host, name), number) in &twin.paths {
        support::with_key(name, |key| writer.path(host.as_deref(), key, &numbered(*number))).unwrap();
    }
    for ((host, name), number) in &twin.scopes {
        let scope = NewScope { error_pages: vec![(*number, numbered(*number))], ..NewScope::default() };
        support::with_key(name, |key| writer.scope(host.as_deref(), key, &scope)).unwrap();
    }
    writer.manifest(b"{}").unwrap();
    Archive::from_bytes(support::finish(writer)).unwrap()
}

/// The scopes that `name` lies in, with the bytes of the path that each covers: every prefix is tried.
fn scopes_of(twin: &Twin, host: Option<&String>, name: &str) -> Vec<(usize, u16)> {
    let ends = (0..=name.len()).filter(|end| *end == 0 || name.as_bytes()[end - 1] == b'/');
    let look = |end: usize| twin.scopes.get(&(host.cloned(), name[..end].to_owned()));
    // The path has a `/` before the name.
    ends.filter_map(|end| look(end).map(|number| (end + 1, *number))).collect()
}

proptest! {
    #[test]
    fn the_archive_answers_as_its_slow_twin(
        twin in twin(),
        wide in any::<bool>(),
        others in proptest::collection::vec((host(), file()), 0..20),
    ) {
        let archive = written(&twin, if wide { Format::Cdb64 } else { Format::Cdb });
        let seen = archive.verify(|_| {}).unwrap();
        prop_assert_eq!(seen.paths, twin.paths.len() as u64);

        for place in twin.paths.keys().chain(twin.scopes.keys()).chain(&others) {
            let (host, name) = place;
            // Hosts are written in lower case and asked for in any, and all below one by its name with a dot.
            let asked = host.as_ref().map(|host| host.trim_start_matches('*').to_ascii_uppercase().into_bytes());
            let asked = asked.as_deref();
            let path = support::with_key(name, |key| archive.path(asked, key).unwrap().map(number_of));
            prop_assert_eq!(path, twin.paths.get(place).copied());

            let folder = support::with_key(name, |key| archive.directory(asked, key).unwrap().map(number_of));
            let slashed = (host.clone(), format!("{name}/"));
            let expected = if name.is_empty() { None } else { twin.paths.get(&slashed).copied() };
            prop_assert_eq!(folder, expected);

            let scopes: Vec<(usize, u16)> = support::with_key(name, |key| {
                archive.scopes(asked, key).map(|scope| {
                    let (covered, scope) = scope.unwrap();
                    let cannery_archive::ScopeEntry::ErrorPage { status, .. } =
                        scope.entries().next().unwrap().unwrap() else { panic!("an error page was written") };
                    (covered, status)
                }).collect()
            });
            prop_assert_eq!(scopes, scopes_of(&twin, host.as_ref(), name));
        }
    }
}
